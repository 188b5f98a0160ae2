"""What readers refuse, from inside; ``defects`` asks the command line, at the reviewed commit too."""

from __future__ import annotations

import dataclasses
import json
import resource
import sqlite3
import zlib
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch

import patchprint
from fuzz import mutators
from fuzz.cases import REFUSED, Bench
from patchprint import cli, networks
from patchprint.common.errors import UserError
from patchprint.data import Tracks, TrackStore, track_files
from patchprint.interop import colmap_models, colmap_sift, hloc, image_files
from patchprint.networks import weights
from patchprint.storage import feature_files, feature_formats
from patchprint.types import Features
from support import labeled_sets, made_features, synthetic_tracks
from support.known_images import texture

SMALL = ["--model", "pixels", "--max-keypoints", "20"]


@pytest.mark.parametrize("name", ["frames", "rigs", "cameras"])
def test_h6_no_cut_of_a_model_is_read_or_hangs(name: str, tmp_path: Path) -> None:
    options = colmap_models.pycolmap.SyntheticDatasetOptions(num_rigs=1, num_cameras_per_rig=1, num_frames_per_rig=3)
    colmap_models.pycolmap.synthesize_dataset(options).write_binary(tmp_path)
    path = tmp_path / f"{name}.bin"
    whole = path.read_bytes()
    for length in np.random.default_rng(0).integers(0, len(whole), 30):
        path.write_bytes(whole[:length])
        with pytest.raises(UserError, match="cut short or damaged"):
            colmap_models.read_model(tmp_path)


def test_h7_a_killed_matching_gives_the_names_back(tmp_path: Path) -> None:
    database = tmp_path / "database.db"
    with sqlite3.connect(database) as connection:
        connection.execute("CREATE TABLE images (name TEXT)")
        connection.execute("INSERT INTO images VALUES ('a b.jpg')")
    connection.close()
    colmap_sift._rename(database, " ", colmap_sift._SPACE)
    colmap_sift.restore_names(database)
    with sqlite3.connect(database) as connection:
        assert connection.execute("SELECT name FROM images").fetchall() == [("a b.jpg",)]
    connection.close()


@pytest.mark.parametrize("name", ["../x", "/tmp/x", "a/../../x", "C:\\x", "..\\x", "", 7])
def test_m3_names_in_a_folder_of_features_do_not_lead_out_of_it(name: object, tmp_path: Path) -> None:
    features = made_features.features(made_features.descriptors(4))
    feature_files.save(features, tmp_path / "x.npz")
    feature_folder = tmp_path / "features"
    feature_folder.mkdir()
    (feature_folder / feature_files.MANIFEST).write_text(json.dumps({"photos": [name], "settings": {}}))
    with pytest.raises(UserError, match="leads out of"):
        feature_formats.write_features(feature_files.FeatureFolder(feature_folder), tmp_path / "yml", "opencv-yml")


def test_m3_a_model_of_colmap_names_no_photo_elsewhere(tmp_path: Path) -> None:
    from patchprint.data.builders import sfm_scene

    scene = sfm_scene.SfmScene(["../secret.jpg"], [], *[np.zeros(0)] * 5)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="leads out of"):
        sfm_scene.find_images(scene, tmp_path)


def test_m7_weights_that_repeat_few_bytes_over_a_huge_shape_are_refused(tmp_path: Path) -> None:
    state = networks.create("tfeat", width=4, dim=8).state_dict()
    state["features.1.weight"] = torch.zeros(1).expand(20_000, 1, 7, 7)
    state["features.4.weight"] = torch.zeros(1).expand(40_000, 20_000, 6, 6)
    torch.save(state, tmp_path / "tfeat.pth")
    with pytest.raises(UserError, match=r"tfeat\.pth holds weights that are larger than the file"):
        weights.load_network(tmp_path / "tfeat.pth")


def test_m7_an_hdf5_file_takes_no_more_memory_than_it_holds_and_reads_no_other_file(tmp_path: Path) -> None:
    import h5py

    def spoiled(**options: object) -> Path:
        path = tmp_path / "features.h5"
        hloc.write_features(path, [("a.jpg", made_features.features(made_features.descriptors(4)))])
        with h5py.File(path, "r+") as store:
            del store["a.jpg/keypoints"]
            store["a.jpg"].create_dataset("keypoints", dtype="f4", **options)
        return path

    with pytest.raises(UserError, match=r"features\.h5: keypoints in it announces 8589934592 bytes"):
        list(hloc.read_features(spoiled(shape=(2**30, 2), chunks=(1024, 2))))
    secret = tmp_path / "secret"
    secret.write_bytes(bytes(32))
    with pytest.raises(UserError, match="keypoints in it lies in another file"):
        list(hloc.read_features(spoiled(shape=(4, 2), external=[(str(secret), 0, 32)])))


def test_no_text_is_read_out_of_a_heap_of_hdf5_which_may_have_no_end(tmp_path: Path) -> None:
    """Found by ``make fuzz``: an entry of the heap that takes no room made HDF5 look at it for ever."""
    import h5py

    path = tmp_path / "features.h5"
    hloc.write_features(path, [("a.jpg", made_features.features(made_features.descriptors(4)))])
    with h5py.File(path, "r+") as store:
        store["a.jpg"].attrs["model"] = "hardnet"
    data = bytearray(path.read_bytes())
    entry = data.index(b"GCOL") + 16
    data[entry : entry + 16] = bytes(16)
    path.write_bytes(data)
    with pytest.raises(UserError, match=r"features\.h5: model in it has no fixed length"):
        list(hloc.read_features(path))


def png_of(width: int, height: int) -> bytes:
    """A PNG file of few bytes that announces any size."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")

    header = width.to_bytes(4, "big") + height.to_bytes(4, "big") + b"\x08\0\0\0\0"
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(100))) + chunk(b"IEND", b"")
    )


def test_m7_a_small_picture_of_a_huge_size_is_refused_before_memory_is_taken(tmp_path: Path) -> None:
    (tmp_path / "huge.png").write_bytes(png_of(2**15, 2**15))
    with pytest.raises(UserError, match=r"huge\.png announces 32768x32768 pixels, more than its \d+ bytes can hold"):
        image_files.read_gray(tmp_path / "huge.png")


def test_m7_an_npz_that_unpacks_to_far_more_than_it_holds_is_refused(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "bomb.npz", model=np.zeros(10**7))
    with pytest.raises(UserError, match=r"bomb\.npz .* unpacks to far more than it holds"):
        feature_files.load(tmp_path / "bomb.npz")


def test_m10_faults_of_the_program_keep_their_traceback_and_ask_for_a_report(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(_: list[str]) -> int:
        raise IndexError("a mistake of ours")

    monkeypatch.setattr(cli, "_dispatch", broken)
    assert cli.main([]) == 1
    said = capsys.readouterr().err
    assert "IndexError: a mistake of ours" in said and "please report it" in said


def test_m10_a_killed_worker_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from concurrent.futures.process import BrokenProcessPool

    from patchprint.features.settings import DescribeSettings
    from patchprint.storage import describe_jobs, feature_folder

    class Killed:
        def __init__(self, *_: object) -> None: ...
        def __enter__(self) -> Killed:
            return self

        def __exit__(self, *_: object) -> None: ...
        def submit(self, *_: object) -> None:
            raise BrokenProcessPool("a child died")

    monkeypatch.setattr(describe_jobs, "ProcessPoolExecutor", Killed)
    for number in range(2):
        cv2.imwrite(str(tmp_path / f"{number}.png"), texture(60, 80, number))
    settings = DescribeSettings(model="pixels", max_keypoints=5)
    with pytest.raises(OSError, match="a worker process was killed"):
        feature_folder.describe_folder(tmp_path, tmp_path.with_name("out"), settings, workers=2)


def test_l9_a_store_keeps_names_with_line_separators_and_refuses_line_breaks(tmp_path: Path) -> None:
    pictures, tracks, *_ = synthetic_tracks.plane_tracks(points=6, count=2)
    encoded = [cv2.imencode(".png", picture)[1].tobytes() for picture in pictures]
    tracks = dataclasses.replace(tracks, part=np.zeros(tracks.num_points, np.uint8))
    names = ["a\u2028b.png", "c\x85\r.png"]
    track_files.write(tmp_path / "store", encoded, tracks, track_files.Names(names, ["scene"]))
    assert track_files.read(tmp_path / "store").names.images == names
    with pytest.raises(UserError, match="line break"):
        track_files.write(tmp_path / "other", encoded, tracks, track_files.Names(["a\nb", "c"], ["scene"]))
    assert isinstance(tracks, Tracks)


@pytest.mark.parametrize("mode", ["mutual", "ratio", "mutual+ratio", "fginn", "nearest"])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("side", ["a", "b"])
def test_l5_a_descriptor_that_is_no_number_costs_its_own_match_only(mode: str, value: float, side: str) -> None:
    clean = made_features.descriptors(20)
    spoiled = clean.clone()
    spoiled[3, 5] = value
    place = torch.arange(20.0)[:, None] * 50

    def features(descriptors: torch.Tensor) -> Features:
        return made_features.features(descriptors, place.expand(20, 2))

    a, b = (features(spoiled), features(clean)) if side == "a" else (features(clean), features(spoiled))
    found = patchprint.match(a, b, matcher=mode)  # type: ignore[arg-type]
    right = [[row, row] for row in range(20) if row != 3]
    assert [pair for pair in found.indices.tolist() if pair[0] != 3] == right
    assert found.distance.isfinite().all()
    assert 3 not in found.indices[:, 0 if side == "a" else 1]


@pytest.mark.parametrize("seed", [14, 17, 46])
def test_a_damaged_mat_file_does_not_end_the_process(
    seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Found by the fuzzer: with these bits flipped, scipy's reader ends the process (SIGSEGV)."""
    labeled_sets.write_cars(tmp_path / "cars", 3, 2)
    path = tmp_path / "cars" / "cars_annos.mat"
    path.write_bytes(mutators.flip_bits(path.read_bytes(), np.random.default_rng(seed)))
    assert cli.main(["data", "build", "images", str(tmp_path / "cars"), str(tmp_path / "out")]) == 2
    assert "cars_annos.mat" in capsys.readouterr().err


def test_a_name_that_leaves_no_room_for_an_ending_is_named_and_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Features are called NAME.npz, and a name has at most 255 bytes."""
    photos, longest = tmp_path / "photos", image_files.LONGEST_NAME
    photos.mkdir()
    kept, too_long = "ü" * (longest // 2 - 2) + ".png", "a" * (longest - 3) + ".png"
    for name in (kept, too_long):
        (photos / name).write_bytes(cv2.imencode(".png", texture(60, 80))[1].tobytes())
    for form, ending in (("npz", "npz"), ("opencv-yml", "yml")):
        command = ["describe", str(photos), "--out", str(tmp_path / form), "--format", form, *SMALL]
        assert cli.main(command) == 0
        assert f"{too_long!r} in {photos} has a name of more than {longest} bytes" in capsys.readouterr().err
        assert [path.name for path in (tmp_path / form).glob(f"*.{ending}")] == [f"{kept}.{ending}"]


@pytest.mark.slow
def test_a_small_mat_file_does_not_take_all_memory(tmp_path: Path) -> None:
    """Found by the fuzzer: 6 kB for which scipy's reader takes a gigabyte after the other."""
    outcome, why = Bench("Cars196", tmp_path / "sample").case(425)
    assert outcome == REFUSED and "cars_annos.mat" in why
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss < 4 << 20  # in KiB


@pytest.mark.parametrize("scale", [1e20, 10**30, 1e308, -1.0])
def test_a_store_with_an_endless_patch_is_refused(scale: float, tmp_path: Path) -> None:
    """Found by the fuzzer: corners of such patches are no places in a photo."""
    pictures, tracks, *_ = synthetic_tracks.plane_tracks(points=6, count=2)
    TrackStore.from_images(pictures, tracks).save(tmp_path / "store")
    path = tmp_path / "store" / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "patch_scale": scale}))
    with pytest.raises(UserError, match=r"manifest\.json is damaged: its patch scale is"):
        TrackStore.open(tmp_path / "store")


def test_tracks_with_an_endless_scale_are_refused() -> None:
    """Found by the fuzzer, in the same way."""
    _, tracks, *_ = synthetic_tracks.plane_tracks(points=6, count=2)
    scale = tracks.scale.copy()
    scale[3] = 1e38
    with pytest.raises(UserError, match="or no size, in image"):
        dataclasses.replace(tracks, scale=scale).check(["a", "b"])
