"""Every reader of the package, with a small sample of what it reads; which files of it are damaged, and how.

Networks are exported as ONNX but never read from a user's file, so ONNX has no entry; the engines read what they wrote.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import cv2
import h5py
import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import save as to_safetensors

from fuzz import mutators
from fuzz.mutators import Mutator, Random
from patchprint import files, networks
from patchprint.benchmarks import _cache, _hpatches_tasks
from patchprint.errors import UserError
from patchprint.features import embeddings, match_files, pair_lists, storage
from patchprint.features.embeddings import Embeddings
from patchprint.interop import colmap, colmap_database, hloc, images, opencv_files, sequences, strecha
from patchprint.networks import weights
from patchprint.patches import TrackStore, manifest, open_source
from patchprint.patches.sources import archives, class_splits, hpatches, labeled_layouts, phototour, rome, sfm_scene
from patchprint.report import angles, comparison, cost, examples, runs, whole
from patchprint.training import checkpoint, resolve
from patchprint.training.config import TrainConfig, read_config
from patchprint.types import Matches, ModelId
from support import image_sets, labeled_sets, made_features, made_runs, stores, synthetic_tracks, training_data
from support.known_images import texture
from support.scenes import write_sequence

Sample = Callable[[Path], object]


@dataclass(frozen=True)
class Reader:
    """``write`` makes a sample in a folder, ``read`` reads all of it; ``damage`` says by pattern how its files are damaged.

    ``repair`` gets the folder and the damaged file, to make fit what would otherwise be noticed first (a size, a checksum).
    ``share`` is the part of the usual number of cases that a slow reader gets in the tests.
    """

    write: Sample
    read: Sample
    damage: Mapping[str, tuple[Mutator, ...]]
    repair: Callable[[Path, Path], object] = lambda folder, file: None
    share: float = 1.0


def small_network() -> networks.PatchNetwork:
    torch.manual_seed(0)
    return networks.create("tfeat", width=4, dim=8)


def write_weights(folder: Path) -> None:
    weights.save(small_network(), folder / "weights.safetensors")


def forge_metadata(data: bytes, random: Random) -> bytes:
    """Weights of anybody's making: the checksum is right, a value of the metadata is not."""
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    known = {name: json.loads(text) for name, text in header["__metadata__"].items() if name != "format"}
    changed = json.loads(mutators.json_value(json.dumps(known).encode(), random) or b"{}")
    if isinstance(changed, dict):
        header["__metadata__"] = {"format": "patchprint"} | {name: json.dumps(value) for name, value in changed.items()}
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data[8 + length :]


def never_deep(mutate: Mutator) -> Mutator:
    """Without documents that the mutator itself could not read again."""

    def mutated(data: bytes, random: Random) -> bytes:
        try:
            return mutate(data, random)
        except (ValueError, RecursionError):
            return mutators.flip_bits(data, random)

    return mutated


def write_published(folder: Path) -> None:
    torch.save(small_network().state_dict(), folder / "tfeat.pth")


def some_features() -> storage.Features:
    return made_features.features(made_features.descriptors(6, 8))


def write_features(folder: Path) -> None:
    storage.save(some_features(), folder / "a.jpg.npz")
    plan = {"photos": ["a.jpg", "b.jpg"], "photos_folder": "photos", "settings": {"model": "m"}, "ratio": 0.8}
    files.write_json(folder / storage.MANIFEST, plan)


def read_features(folder: Path) -> None:
    found = storage.FeatureFolder(folder)
    for name in found:
        repr(found[name])
    list(found.left_out)


def some_matches() -> Matches:
    return Matches(torch.tensor([[0, 1], [2, 3]]), torch.tensor([0.1, 0.2]), torch.tensor([True, False]))


def write_matches(folder: Path) -> None:
    found = {"a": some_features(), "b": some_features()}
    match_files.write_matches(found, {("a", "b"): some_matches()}, folder / "m.npz")


def write_hloc(folder: Path) -> None:
    hloc.write_features(folder / "features.h5", [("a.jpg", some_features()), ("sub/b.jpg", some_features())])
    hloc.write_matches(folder / "matches.h5", {("a.jpg", "b.jpg"): some_matches()}, {"a.jpg": 6, "b.jpg": 6})


def read_hloc(folder: Path) -> None:
    list(hloc.read_features(folder / "features.h5"))
    hloc.read_matches(folder / "matches.h5", "b.jpg", "a.jpg")


def odd_hdf5(data: bytes, random: Random) -> bytes:
    """Groups and arrays of an HDF5 file gone, of another shape, far too large, or in another file."""
    import io

    stream = io.BytesIO(data)
    with h5py.File(stream, "r+") as store:
        names: list[str] = []
        store.visit(names.append)
        name = names[random.integers(0, len(names))]
        kind = random.integers(0, 6)
        array = store[name][()] if isinstance(store[name], h5py.Dataset) else np.zeros(3)
        del store[name]
        if kind == 1:
            store[name] = mutators.odd_array(array, random) if random.random() < 0.8 else "text"
        elif kind == 2:
            store.create_dataset(name, shape=(2**31, 2), dtype="f4", chunks=(1024, 2))
        elif kind == 3:
            store.create_dataset(name, shape=(8, 2), dtype="f4", external=[("/etc/passwd", 0, h5py.h5f.UNLIMITED)])
        elif kind == 4:
            store[name] = h5py.ExternalLink("/nowhere.h5", "/x") if random.random() < 0.5 else h5py.SoftLink("/")
        elif kind == 5:
            store.create_group(name)
    return stream.getvalue()


def write_database(folder: Path) -> None:
    for number in range(2):
        cv2.imwrite(str(folder / f"{number}.png"), texture(60, 80, number))
    points = {f"{number}.png": some_features().keypoints for number in range(2)}
    colmap_database.write_features(folder / "database.db", folder, points)


def odd_values(data: bytes, random: Random) -> bytes:
    """SQLite keeps any value in any column, and a view in place of a table."""
    connection = sqlite3.connect(":memory:")
    connection.deserialize(data)
    with contextlib.closing(connection):
        table = str(random.choice(["images", "cameras", "keypoints"]))
        columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
        values = [0, -1, 2**62, 1.5, "text", b"", b"\0" * 7, None, "../../x"]
        with contextlib.suppress(sqlite3.Error), connection:
            column, value = columns[random.integers(0, len(columns))], values[random.integers(0, len(values))]
            connection.execute("PRAGMA ignore_check_constraints = 1")
            if random.random() < 0.1:
                connection.execute(f"DROP TABLE {table}")
            connection.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = 1", (value,))
        return connection.serialize()


def write_model(folder: Path, form: str = "binary") -> None:
    options = colmap.pycolmap.SyntheticDatasetOptions(
        num_rigs=2, num_cameras_per_rig=2, num_frames_per_rig=2, num_points3D=8
    )
    getattr(colmap.pycolmap.synthesize_dataset(options), f"write_{form}")(folder)


def read_model(folder: Path) -> None:
    colmap.poses_of_model(colmap.read_model(folder))
    scene = sfm_scene.read_scene(folder)
    with contextlib.suppress(UserError):
        sfm_scene.find_images(scene, folder)


def write_pictures(folder: Path) -> None:
    picture = cv2.merge([texture(64, 72, number) for number in range(3)])
    for suffix in ("jpg", "png", "bmp", "tif", "webp", "ppm", "jp2"):
        assert cv2.imwrite(str(folder / f"a.{suffix}"), picture)
    cv2.imwrite(str(folder / "deep.png"), picture.astype(np.uint16) * 200)


def read_pictures(folder: Path) -> None:
    for name in images.list_images(folder):
        for read in (images.read_gray, images.read_color, images.image_size):
            read(folder / name)


def write_patches(folder: Path) -> None:
    patches = np.random.default_rng(0).integers(0, 256, (30, 8, 8), dtype=np.uint8)
    stores.write_patches(folder / "store", patches, pairs={"p": np.array([[0, 1, 1], [2, 3, 0]])})


def write_tracks(folder: Path) -> None:
    pictures, tracks, *_ = synthetic_tracks.plane_tracks(points=6, count=2)
    TrackStore.from_images(pictures, tracks).save(folder / "store")


def read_store(folder: Path) -> None:
    source = open_source(folder / "store")
    points = torch.arange(source.num_points)
    source.sample(points, torch.zeros(len(points), 1, dtype=torch.int64), 8)
    if hasattr(source, "pairs"):
        for name in source.facts["pairs"]:
            source.pairs(name)
    if hasattr(source, "class_names"):
        source.names.copy()


def fit_manifest(folder: Path, file: Path) -> None:
    """The manifest says the size of the damaged file, so that its contents come to be read."""
    path = file.parent / manifest.NAME
    if file != path:
        facts = json.loads(path.read_text())
        facts["files"][file.name]["bytes"] = file.stat().st_size
        path.write_text(json.dumps(facts))


def train_state() -> tuple[checkpoint.TrainState, TrainConfig]:
    config = resolve("tfeat", **training_data.SHORT, network_options={"width": 4, "dim": 8})
    network, loss = small_network(), training_loss()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)
    for parameter in network.parameters():
        optimizer.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
    best = [checkpoint.Validated(5, 0.5, {"fpr95": 0.5})]
    return checkpoint.TrainState(network, loss, optimizer, None, 10, best), config


def training_loss() -> checkpoint.Loss:
    from patchprint import losses

    return losses.create("tfeat")


def write_checkpoint(folder: Path) -> None:
    checkpoint.write(folder, *train_state())


def read_checkpoint(folder: Path) -> None:
    state, config = train_state()
    checkpoint.read(checkpoint.latest(folder), state, config)


def forge_checkpoint(data: bytes, random: Random) -> bytes:
    """The header says something else, or a tensor has another shape or is gone."""
    path = Path("/dev/shm") / f"forged-{random.integers(0, 2**62)}"
    path.write_bytes(data)
    try:
        with safe_open(path, framework="pt") as stream:
            header = stream.metadata()
            tensors = {name: stream.get_tensor(name) for name in stream.keys()}  # noqa: SIM118
    finally:
        path.unlink()
    if random.random() < 0.5:
        name = list(tensors)[random.integers(0, len(tensors))]
        value = mutators.odd_array(tensors.pop(name).numpy(), random)
        if random.random() < 0.8 and value.dtype.kind in "iufb":
            tensors[name if random.random() < 0.8 else f"optimizer.{name}"] = torch.from_numpy(
                np.ascontiguousarray(value)
            )
    else:
        name = list(header)[random.integers(0, len(header))]
        header[name] = mutators.json_value(header[name].encode(), random).decode(errors="replace")
    return to_safetensors(tensors, metadata=header)


def write_run(folder: Path) -> None:
    made_runs.write_run(folder / "run", recipe="sdgmnet", steps=4)


def read_run(folder: Path) -> None:
    run = runs.read_run(folder / "run")
    runs.run_sections([run])
    runs.verdict([run])
    angles.angle_sections([run])
    examples.example_sections([run])
    cost.cost_sections([], [run])
    TrainConfig.from_json(read_config(folder / "run" / "config.json"), str(folder / "run" / "config.json"))


def write_result(folder: Path) -> None:
    result = {
        "schema": 1, "benchmark": "oxford", "settings": {"keypoints": 10}, "model": {"name": "sift", "sha256": ""},
        "data": {"path": "oxford", "sha256": "0"}, "seed": 0, "run": {"command": "patchprint eval", "seconds": 1.0},
        "scores": {"map": 0.5, "sequences": {"graf": 0.5}},
    }  # fmt: skip
    files.write_json(folder / "a.json", result)
    files.write_json(folder / "b.json", {**result, "benchmark": "someone's"})
    files.write_json(folder / "c.json", made_runs.verification_result("ours", 0.5))


def read_result(folder: Path) -> None:
    found = comparison.read_results(sorted(folder.glob("*.json")))
    comparison.compare(found)
    whole.whole_page(found)


def write_phototour(folder: Path) -> None:
    for number in range(2):
        cv2.imwrite(str(folder / f"patches{number:04d}.bmp"), texture(1024, 1024, number))
    (folder / "info.txt").write_text("".join(f"{number // 3} 0\n" for number in range(300)))
    (folder / "m50_1_1_0.txt").write_text("".join(f"{i} {i // 3} 0 {i + 1} {(i + 1) // 3} 0\n" for i in range(20)))


def read_phototour(folder: Path) -> None:
    point = phototour.first_column(folder / "info.txt")
    phototour.read_pairs(folder / "m50_1_1_0.txt", point)
    sum(len(block) for block in phototour.read_sheets(phototour.find_sheets(folder, len(point)), len(point)))


def write_hpatches(folder: Path) -> None:
    (folder / "v_a").mkdir()
    for name in hpatches.STRIPS:
        cv2.imwrite(str(folder / "v_a" / f"{name}.png"), texture(65 * 2, 65))
    pairs, single = "s1,t1,idx1,s2,t2,idx2\n", "s,idx\n"
    for stem in ("verif_pos", "verif_neg_intra", "verif_neg_inter"):
        (folder / f"{stem}_split-a.csv").write_text(pairs + "v_a,0,0,v_a,1,1\n" * 3)
    for stem in ("retr_queries", "retr_distractors"):
        (folder / f"{stem}_split-a.csv").write_text(single + "v_a,0\nv_a,1\n")


def read_hpatches(folder: Path) -> None:
    hpatches.read_sequence(folder / "v_a")
    _hpatches_tasks.read(folder, "a", ["v_a"], [2])


def write_rome(folder: Path) -> None:
    for part in ("train", "test"):
        (folder / part).mkdir()
        cv2.imwrite(str(folder / part / "strip.png"), texture(510, 51))


def read_rome(folder: Path) -> None:
    for part in ("train", "test"):
        rome._count(folder / part, images.list_images(folder / part))


def write_layouts(folder: Path) -> None:
    labeled_sets.write_cub(folder / "cub", 3, 2)
    labeled_sets.write_products(folder / "sop")
    labeled_sets.write_in_shop(folder / "shop")
    labeled_sets.write_cifar(folder / "cifar", 4)
    (folder / "split.json").write_text('{"train": ["a", "b"], "test": ["c"]}')


def read_layouts(folder: Path) -> None:
    """Each by itself, since one that is refused must not hide the others."""
    problems = []
    for place in ("cub", "sop", "shop", "cifar"):
        try:
            with archives.open_tree(folder / place) as tree:
                labeled_layouts.read_listing(tree)
        except UserError as error:
            problems.append(error)
    class_splits._from_file(folder / "split.json", ["a", "b", "c"])
    if problems:
        raise problems[0]


def read_cars(folder: Path) -> None:
    with archives.open_tree(folder / "cars") as tree:
        labeled_layouts.read_listing(tree)


def write_archives(folder: Path) -> None:
    for kind in ("zip", "tar", "tar.gz"):
        labeled_sets.write_folders(folder / f"set-{kind}", ["a", "b"], 2)
        labeled_sets.pack(folder / f"set-{kind}", kind)


def read_archives(folder: Path) -> None:
    problems = []
    for path in sorted(path for path in folder.iterdir() if path.is_file()):
        try:
            with archives.open_tree(path) as tree:
                for name in tree.names:
                    tree.read(name)
        except UserError as error:
            problems.append(error)
    if problems:
        raise problems[0]


def write_sequences(folder: Path) -> None:
    write_sequence(folder / "graf", images=3, side=24)
    identity = "\n".join(["1 0 0", "0 1 0", "0 0 1"])
    (folder / "a.camera").write_text(f"{identity}\n0 0 0\n{identity}\n1 2 3\n640 480\n")
    (folder / "K.txt").write_text("100 0 50\n0 100 40\n0 0 1\n")


def read_sequences(folder: Path) -> None:
    sequences.find_sequences(folder)
    strecha.read_cameras(folder)
    strecha.read_intrinsics(folder / "K.txt")


def write_lists(folder: Path) -> None:
    (folder / "pairs.txt").write_text("a.jpg b.jpg\nb.jpg\tc.jpg\n# a comment\n")
    files.mark_folder(folder, "patchprint describe", ["pairs*", "b"])


def read_lists(folder: Path) -> None:
    pair_lists.read_pairs(folder / "pairs.txt", ["a.jpg", "b.jpg", "c.jpg"])


def read_marker(folder: Path) -> None:
    files.refuse_folder(folder, "patchprint describe", force=True)


READERS: dict[str, Reader] = {
    "weights": Reader(write_weights, lambda folder: weights.load_network(folder / "weights.safetensors"),
                      {"*.safetensors": mutators.BYTES}),
    "weights, forged": Reader(write_weights, lambda folder: weights.load_network(folder / "weights.safetensors"),
                              {"*.safetensors": (never_deep(forge_metadata),)}),
    "published weights": Reader(write_published, lambda folder: weights.load_network(folder / "tfeat.pth"),
                                {"*.pth": mutators.BYTES}),
    "features": Reader(write_features, read_features, {"*.npz": mutators.ARRAYS, "*.json": mutators.JSON}),
    "matches": Reader(write_matches, lambda folder: match_files.read_matches(folder / "m.npz"), {"*": mutators.ARRAYS}),
    "embeddings": Reader(
        lambda folder: embeddings.save(Embeddings(["a", "b"], torch.rand(2, 4), ModelId("m")), folder / "e.npz"),
        lambda folder: embeddings.load(folder / "e.npz"), {"*": mutators.ARRAYS}),
    "predictions": Reader(lambda folder: np.savez(folder / "p.npz", a=np.zeros(3), b=np.arange(4)),
                          lambda folder: _cache._read(folder / "p.npz"), {"*": mutators.ARRAYS}),
    "hloc": Reader(write_hloc, read_hloc, {"*.h5": (*mutators.BYTES, odd_hdf5, odd_hdf5, odd_hdf5)}),
    "OpenCV's YAML": Reader(lambda folder: opencv_files.write_features(folder / "a.yml", some_features()),
                            lambda folder: list(opencv_files.read_folder(folder)), {"*.yml": mutators.TEXT}),
    "COLMAP database": Reader(write_database, lambda folder: colmap.read_database(folder / "database.db"),
                              {"*.db": (*mutators.BYTES, odd_values, odd_values, odd_values)}),
    "COLMAP model, binary": Reader(write_model, read_model, {"*.bin": mutators.BYTES}),
    "COLMAP model, text": Reader(lambda folder: write_model(folder, "text"), read_model, {"*.txt": mutators.TEXT}),
    "pictures": Reader(write_pictures, read_pictures, {"a.*": mutators.BYTES, "deep.png": mutators.BYTES}),
    "patch store": Reader(write_patches, read_store,
                          {"store/*.npy": mutators.ARRAYS, "store/manifest.json": mutators.JSON}, fit_manifest),
    "track store": Reader(write_tracks, read_store,
                          {"store/*.npy": mutators.ARRAYS, "store/*.txt": mutators.TEXT, "store/*.bin": mutators.BYTES,
                           "store/manifest.json": mutators.JSON}, fit_manifest),
    "image store": Reader(lambda folder: image_sets.write_store(folder / "store", 4, 2, (8, 10)), read_store,
                          {"store/*.npy": mutators.ARRAYS, "store/*.json": mutators.JSON}, fit_manifest),
    "checkpoint": Reader(write_checkpoint, read_checkpoint,
                         {"*.safetensors": (*mutators.BYTES, *[never_deep(forge_checkpoint)] * 8)}, share=0.5),
    "run folder": Reader(write_run, read_run,
                         {"run/config.json": mutators.JSON, "run/*.jsonl": mutators.JSON_LINES, "run/*.npz": mutators.ARRAYS}),
    "result": Reader(write_result, read_result, {"*.json": mutators.JSON}),
    "Photo Tour": Reader(write_phototour, read_phototour, {"*.txt": mutators.TEXT, "*0.bmp": mutators.BYTES}, share=0.25),
    "HPatches": Reader(write_hpatches, read_hpatches, {"*.csv": mutators.TEXT, "v_a/ref.png": mutators.BYTES}),
    "RomePatches": Reader(write_rome, read_rome, {"*/*.png": mutators.BYTES}),
    "labeled images": Reader(write_layouts, read_layouts,
                             {"*/*.txt": mutators.TEXT, "*/*/*.txt": mutators.TEXT, "*/*.bin": mutators.BYTES,
                              "*.json": mutators.JSON}, share=0.5),
    "Cars196": Reader(lambda folder: labeled_sets.write_cars(folder / "cars", 3, 2), read_cars,
                      {"*/*.mat": mutators.BYTES}, share=0.02),
    "archives": Reader(write_archives, read_archives, {"*.zip": mutators.BYTES, "*.tar*": mutators.BYTES}),
    "sequences": Reader(write_sequences, read_sequences,
                        {"*/H*": mutators.TEXT, "*.camera": mutators.TEXT, "K.txt": mutators.TEXT}, share=0.5),
    "pair list": Reader(write_lists, read_lists, {"pairs.txt": mutators.TEXT}),
    "marker": Reader(write_lists, read_marker, {".patchprint": mutators.JSON}),
}  # fmt: skip
