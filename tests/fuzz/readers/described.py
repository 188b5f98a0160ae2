"""Features and matches, ours and in the formats of others, and lists of pairs."""

from pathlib import Path

import h5py
import numpy as np
import torch

from fuzz import mutators
from fuzz.mutators import Random
from fuzz.reader import Reader
from patchprint.common import files
from patchprint.common.safe_io import read_npz
from patchprint.common.types import Matches
from patchprint.interop import hloc, opencv_files
from patchprint.matching import pair_selection
from patchprint.storage import feature_files, image_vectors, match_formats
from patchprint.storage.match_folder import MatchFolder, match_folder, read_matches
from patchprint.storage.shards import Shards
from support import made_features


def some_features() -> feature_files.Features:
    return made_features.features(made_features.descriptors(6, 8))


def write_features(folder: Path) -> None:
    feature_files.save_features(some_features(), folder / "a.jpg.npz")
    plan = {"photos": ["a.jpg", "b.jpg"], "photos_folder": "photos", "settings": {"model": "m"}, "ratio": 0.8}
    files.write_json(folder / feature_files.MANIFEST, plan)


def write_shards(folder: Path) -> None:
    plan = {"photos": ["a.jpg", "b.jpg"], "settings": {"model": "m"}, feature_files.PER_SHARD: 2}
    files.write_json(folder / feature_files.MANIFEST, plan)
    Shards(folder, ["a.jpg", "b.jpg"], 2).add(0, {"a.jpg": feature_files.to_bytes(some_features())})


def write_match_folder(folder: Path) -> None:
    match_folder({"a": some_features(), "b": some_features()}, [("a", "b")], folder / "m")


def read_match_folder(folder: Path) -> None:
    found = MatchFolder(folder / "m")
    for pair in found:
        repr(found[pair])


def write_vectors(folder: Path) -> None:
    write_features(folder)
    image_vectors.load_or_compute(feature_files.FeatureFolder(folder))


def read_vectors(folder: Path) -> None:
    image_vectors._read(folder / feature_files.VECTORS, ["a.jpg"], 0)


def read_features(folder: Path) -> None:
    found = feature_files.FeatureFolder(folder)
    for name in found:
        repr(found[name])
    list(found.left_out)


def some_matches() -> Matches:
    return Matches(torch.tensor([[0, 1], [2, 3]]), torch.tensor([0.1, 0.2]), torch.tensor([True, False]))


def write_matches(folder: Path) -> None:
    found = {"a": some_features(), "b": some_features()}
    match_formats.write_matches(found, {("a", "b"): some_matches()}, folder / "m.npz")


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


def write_lists(folder: Path) -> None:
    (folder / "pairs.txt").write_text("a.jpg b.jpg\nb.jpg\tc.jpg\n# a comment\n")
    files.mark_folder(folder, "patchprint describe", ["pairs*", "b"])


def read_lists(folder: Path) -> None:
    pair_selection.read_pairs(folder / "pairs.txt", ["a.jpg", "b.jpg", "c.jpg"])


def read_marker(folder: Path) -> None:
    files.check_output_folder(folder, "patchprint describe", force=True)


READERS: dict[str, Reader] = {
    "features": Reader(write_features, read_features, {"*.npz": mutators.ARRAYS, "*.json": mutators.JSON}),
    "shards of features": Reader(
        write_shards, read_features, {"shards/*.zip": mutators.BYTES, "*.json": mutators.JSON}, share=0.5),
    "vectors of photos": Reader(write_vectors, read_vectors, {"vectors.npz": mutators.ARRAYS}, share=0.2),
    "shards of matches": Reader(write_match_folder, read_match_folder, {
        "m/*.npz": mutators.ARRAYS, "m/*.json": mutators.JSON, "m/pairs.txt": mutators.TEXT}, share=0.5),
    "matches": Reader(write_matches, lambda folder: read_matches(folder / "m.npz"), {"*": mutators.ARRAYS}),
    "predictions": Reader(lambda folder: np.savez(folder / "p.npz", a=np.zeros(3), b=np.arange(4)),
                          lambda folder: read_npz(folder / "p.npz", "a prediction"), {"*": mutators.ARRAYS}),
    "hloc": Reader(write_hloc, read_hloc, {"*.h5": (*mutators.BYTES, odd_hdf5, odd_hdf5, odd_hdf5)}),
    "OpenCV's YAML": Reader(lambda folder: opencv_files.write_features(folder / "a.yml", some_features()),
                            lambda folder: list(opencv_files.read_folder(folder)), {"*.yml": mutators.TEXT}),
    "pair list": Reader(write_lists, read_lists, {"pairs.txt": mutators.TEXT}),
    "marker": Reader(write_lists, read_marker, {".patchprint": mutators.JSON}),
}  # fmt: skip
