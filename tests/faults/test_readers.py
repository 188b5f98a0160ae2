"""Hostile files: each is refused with a sentence that names it, and takes no more memory than it holds."""

import contextlib
import json
import sqlite3
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch

import patchprint
from patchprint.common.errors import UserError
from patchprint.data import TrackStore
from patchprint.data.builders import sfm_scene
from patchprint.interop import colmap_database, colmap_models, hloc, images
from patchprint.storage import feature_files, feature_formats
from support import made_features, synthetic_tracks
from support.known_images import write_textures

FEATURES = made_features.features(made_features.descriptors(4))


@pytest.mark.parametrize("name", ["../x", "/tmp/x", "a/../../x", "C:\\x", "..\\x", "", 7])
def test_m3_names_in_a_folder_of_features_do_not_lead_out_of_it(name: object, tmp_path: Path) -> None:
    feature_files.save_features(FEATURES, tmp_path / "x.npz")
    feature_folder = tmp_path / "features"
    feature_folder.mkdir()
    (feature_folder / feature_files.MANIFEST).write_text(json.dumps({"photos": [name], "settings": {}}))
    with pytest.raises(UserError, match="leads out of"):
        feature_formats.write_features(feature_files.FeatureFolder(feature_folder), tmp_path / "yml", "opencv-yml")


def test_m3_a_model_of_colmap_names_no_image_elsewhere(tmp_path: Path) -> None:
    scene = sfm_scene.SfmScene(["../secret.jpg"], [], *[np.zeros(0)] * 5)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="leads out of"):
        sfm_scene.find_images(scene, tmp_path)


def replaced(name: str, **options: Any) -> Callable[[h5py.Group], None]:
    """An array of a group gets other options of ``create_dataset``."""

    def change(group: h5py.Group) -> None:
        del group[name]
        group.create_dataset(name, **options)

    return change


def changed(name: str, change: Callable[[np.ndarray], np.ndarray]) -> Callable[[h5py.Group], None]:
    return lambda group: replaced(name, data=change(group[name][()]))(group)


def linked(link: object) -> Callable[[h5py.Group], None]:
    def change(group: h5py.Group) -> None:
        del group["keypoints"]
        group["keypoints"] = link

    return change


HOSTILE_HDF5: dict[str, tuple[Callable[[h5py.Group], object], str]] = {
    "NaN": (changed("keypoints", lambda xy: xy * np.nan), "keypoint 0 of 4 lies at"),
    "far": (changed("keypoints", lambda xy: xy + 1e30), "none beyond 1e"),
    "three coordinates": (changed("keypoints", lambda xy: np.c_[xy, xy[:, :1]]), ""),
    "fewer keypoints": (changed("keypoints", lambda xy: xy[:3]), ""),
    "negative scales": (changed("scales", lambda scale: -scale), "the scale above zero"),
    "fewer scales": (changed("scales", lambda scale: scale[:2]), ""),
    "NaN angles": (changed("angles", lambda angle: angle * np.nan), ""),
    "more scores": (changed("scores", lambda score: np.r_[score, score]), ""),
    "negative size": (changed("image_size", lambda size: -size), "the image size of the features"),
    "huge size": (changed("image_size", lambda size: size * 2**40), ""),
    "three sides": (changed("image_size", lambda size: np.r_[size, 1]), ""),
    "flat descriptors": (changed("descriptors", lambda values: values.ravel()), ""),
    "no descriptors": (changed("descriptors", lambda values: values[:, :0]), ""),
    "no bits": (lambda group: group.attrs.__setitem__("bits", np.array([True, False])), ""),
    "NaN ratio": (lambda group: group.attrs.__setitem__("ratio", np.nan), "the ratio of the features is"),
    "negative ratio": (lambda group: group.attrs.__setitem__("ratio", -1.0), "the ratio of the features is"),
    "large ratio": (lambda group: group.attrs.__setitem__("ratio", 7.0), "the ratio of the features is"),
    "model of NULs": (lambda group: group.attrs.__setitem__("model", np.bytes_(b"\xff\xfe")), ""),
    "2**33 bytes": (replaced("keypoints", shape=(2**30, 2), dtype="f4", chunks=(1024, 2)), "announces 8589934592 bytes"),
    "2**65 bytes": (replaced("keypoints", shape=(2**62, 2), dtype="f4", chunks=(1024, 2)), "announces"),
    "another file": (
        replaced("keypoints", shape=(4, 2), dtype="f4", external=[("/etc/hostname", 0, 32)]), "lies in another file"),
    "external link": (linked(h5py.ExternalLink("/etc/hostname", "/x")), "is a link"),
    "soft link to itself": (linked(h5py.SoftLink("/a.png/keypoints")), "is a link"),
}  # fmt: skip


@pytest.mark.parametrize("row", HOSTILE_HDF5)
def test_m7_hostile_hdf5_is_refused(row: str, tmp_path: Path) -> None:
    change, words = HOSTILE_HDF5[row]
    hloc.write_features(tmp_path / "f.h5", [("a.png", FEATURES)])
    with h5py.File(tmp_path / "f.h5", "r+") as store:
        change(store["a.png"])
    with pytest.raises(UserError, match=rf"f\.h5\b.*{words}"):
        list(hloc.read_features(tmp_path / "f.h5"))


@pytest.mark.parametrize("name", ["a\nb", "x..\\..\\evil"])
def test_hostile_names_in_hdf5_are_refused(name: str, tmp_path: Path) -> None:
    hloc.write_features(tmp_path / "f.h5", [(name, FEATURES)])
    with pytest.raises(UserError, match=r"f\.h5: the name .* in it has"):
        list(hloc.read_features(tmp_path / "f.h5"))


def test_no_text_is_read_out_of_a_heap_of_hdf5_which_may_have_no_end(tmp_path: Path) -> None:
    """Found by ``make fuzz``: an entry of the heap that takes no room made HDF5 look at it for ever."""
    path = tmp_path / "features.h5"
    hloc.write_features(path, [("a.jpg", FEATURES)])
    with h5py.File(path, "r+") as store:
        store["a.jpg"].attrs["model"] = "hardnet"
    data = bytearray(path.read_bytes())
    entry = data.index(b"GCOL") + 16
    data[entry : entry + 16] = bytes(16)
    path.write_bytes(data)
    with pytest.raises(UserError, match=r"features\.h5: model in it has no fixed length"):
        list(hloc.read_features(path))


ENDLESS = (
    "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT n AS image_id, n AS name, 1 AS camera_id"
)
HOSTILE_DATABASES = {
    "endless view": ["DROP TABLE images", f"CREATE VIEW images AS {ENDLESS} FROM r"],
    "no table": ["DROP TABLE keypoints"],
    "other columns": ["DROP TABLE keypoints", "CREATE TABLE keypoints (image_id INTEGER, points TEXT)"],
    "short blob": ["UPDATE keypoints SET data = x'00'"],
    "long blob": ["UPDATE keypoints SET data = data || x'00000000'"],
    "no blob": ["UPDATE keypoints SET data = NULL"],
    "text in place of a blob": ["UPDATE keypoints SET data = 'keypoints'"],
    "huge number of rows": ["UPDATE keypoints SET rows = 4611686018427387904"],
    "negative number of rows": ["UPDATE keypoints SET rows = -1"],
    "text as a number of rows": ["UPDATE keypoints SET rows = 'many'"],
    "three columns": ["UPDATE keypoints SET cols = 3"],
    "no columns": ["UPDATE keypoints SET cols = 0"],
    "NaN": ["UPDATE keypoints SET data = CAST(x'0000c07f' || substr(data, 5) AS BLOB)"],
    "infinite": ["UPDATE keypoints SET data = CAST(substr(data, 1, 4) || x'0000807f' || substr(data, 9) AS BLOB)"],
    "no scale": ["UPDATE keypoints SET data = CAST(substr(data, 1, 8) || zeroblob(length(data) - 8) AS BLOB)"],
    "name of bytes": ["UPDATE images SET name = x'ff00'  WHERE rowid = 1"],
    "negative width": ["UPDATE cameras SET width = -5"],
    "text as a width": ["UPDATE cameras SET width = 'wide'"],
}


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = write_textures(tmp_path_factory.mktemp("database") / "photos", 2, 60, 80)
    points = {f"{number}.png": FEATURES.keypoints for number in range(2)}
    colmap_database.write_features(folder / "whole.db", folder, points)
    assert len(colmap_models.read_database(folder / "whole.db")) == 2
    return (folder / "whole.db").read_bytes()


@pytest.mark.parametrize("row", HOSTILE_DATABASES)
def test_l3_hostile_databases_are_refused(row: str, database: bytes, tmp_path: Path) -> None:
    path = tmp_path / "database.db"
    path.write_bytes(database)
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA ignore_check_constraints = 1")
        for statement in HOSTILE_DATABASES[row]:
            connection.execute(statement)
    with pytest.raises(UserError, match=r"database\.db"):
        colmap_models.read_database(path)


NOT_A_NUMBER, INFINITE = struct.pack("<d", np.nan), struct.pack("<d", np.inf)
# Of each file of a binary model: where bytes are written, and which.
HOSTILE_MODELS: dict[str, tuple[str, int, bytes]] = {
    **{f"huge number of {name}": (name, 0, struct.pack("<Q", 2**63)) for name in ("cameras", "images", "points3D", "frames")},
    **{f"{name} with the id -1": (name, 8, b"\xff" * 4) for name in ("cameras", "images", "points3D", "frames", "rigs")},
    "no cameras": ("cameras", 0, bytes(8)),
    "unknown camera": ("cameras", 12, struct.pack("<i", 999)),
    "no width": ("cameras", 16, bytes(8)),
    "huge width": ("cameras", 16, struct.pack("<Q", 2**63)),
    "focal length NaN": ("cameras", 32, NOT_A_NUMBER),
    "image without a camera": ("images", 68, struct.pack("<I", 77)),
    "rotation NaN": ("frames", 16, NOT_A_NUMBER * 4),
    "position NaN": ("frames", 48, NOT_A_NUMBER),
    "frame without a rig": ("frames", 12, struct.pack("<I", 77)),
    "huge number of sensors": ("rigs", 12, struct.pack("<I", 2**31)),
    "point NaN": ("points3D", 16, NOT_A_NUMBER),
    "point at infinity": ("points3D", 24, INFINITE),
    "huge track": ("points3D", 51, struct.pack("<Q", 2**60)),
    "track of no image": ("points3D", 59, struct.pack("<I", 77)),
    "track of no keypoint": ("points3D", 63, struct.pack("<I", 2**31)),
}  # fmt: skip


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    pycolmap = colmap_models.pycolmap
    pycolmap.set_random_seed(0)
    made = pycolmap.synthesize_dataset(pycolmap.SyntheticDatasetOptions(num_points3D=20))
    folder = tmp_path_factory.mktemp("model")
    made.write_binary(str(folder))
    assert colmap_models.read_model(folder).num_points3D() == 20
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("row", HOSTILE_MODELS)
def test_hostile_models_of_colmap_are_refused(row: str, model: dict[str, bytes], tmp_path: Path) -> None:
    """What is no number was read, and points and cameras there were trained with and drawn."""
    name, place, written = HOSTILE_MODELS[row]
    for file, data in model.items():
        (tmp_path / file).write_bytes(data)
    data = model[f"{name}.bin"]
    (tmp_path / f"{name}.bin").write_bytes(data[:place] + written + data[place + len(written) :])
    with pytest.raises(UserError, match=tmp_path.name):
        colmap_models.read_model(tmp_path)


def test_m7_a_small_image_of_a_huge_size_is_refused_before_memory_is_taken(tmp_path: Path) -> None:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")

    header = (2**15).to_bytes(4, "big") * 2 + b"\x08\0\0\0\0"
    parts = [chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(bytes(100))), chunk(b"IEND", b"")]
    (tmp_path / "huge.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(parts))
    with pytest.raises(UserError, match=r"huge\.png announces 32768x32768 pixels, more than its \d+ bytes can hold"):
        images.read_gray(tmp_path / "huge.png")


def test_m7_an_npz_that_unpacks_to_far_more_than_it_holds_is_refused(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "bomb.npz", model=np.zeros(10**7))
    with pytest.raises(UserError, match=r"bomb\.npz .* unpacks to far more than it holds"):
        feature_files.load_features(tmp_path / "bomb.npz")


@pytest.mark.parametrize("mode", ["mutual", "ratio", "mutual+ratio", "fginn", "nearest"])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_l5_a_descriptor_that_is_no_number_costs_its_own_match_only(mode: str, value: float) -> None:
    clean = made_features.descriptors(20)
    spoiled = clean.clone()
    spoiled[3, 5] = value
    place = (torch.arange(20.0)[:, None] * 50).expand(20, 2)
    a, b = (made_features.features(values, place) for values in (spoiled, clean))
    for side, found in enumerate((patchprint.match(a, b, mode), patchprint.match(b, a, mode))):  # type: ignore[arg-type]
        assert [pair for pair in found.indices.tolist() if pair[0] != 3] == [
            [row, row] for row in range(20) if row != 3
        ]
        assert found.distance.isfinite().all()
        assert 3 not in found.indices[:, side]


@pytest.mark.parametrize("scale", [1e20, 10**30, 1e308, -1.0])
def test_a_store_with_an_endless_patch_is_refused(scale: float, tmp_path: Path) -> None:
    """Found by the fuzzer: corners of such patches are no places in an image."""
    images, tracks, *_ = synthetic_tracks.plane_tracks(points=6, count=2)
    TrackStore.from_images(images, tracks).save(tmp_path / "store")
    path = tmp_path / "store" / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "patch_scale": scale}))
    with pytest.raises(UserError, match=r"manifest\.json is damaged: its patch scale is"):
        TrackStore.open(tmp_path / "store")
    tracks.scale[3] = 1e38
    with pytest.raises(UserError, match="or no size, in image"):
        tracks.check(["a", "b"])
