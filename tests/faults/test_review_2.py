"""The defects that the second attack and a first hour of use found, each by its number in the review."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch

import patchprint
from patchprint import cli
from patchprint.common import distributed
from patchprint.common.errors import UserError
from patchprint.common.files import atomic_file, only_writer
from patchprint.features import load
from patchprint.interop import hloc
from patchprint.interop.image_files import limit, list_images, read_color, read_gray
from patchprint.storage import describe_jobs
from patchprint.types import Keypoints
from support import made_features
from support.checkout import environment
from support.known_images import texture, write_textures

FEW = ["--model", "pixels", "--max-keypoints", "50"]


@pytest.fixture
def turned_photo(tmp_path: Path) -> Path:
    """A photo that EXIF turns by a quarter."""
    ok, data = cv2.imencode(".jpg", texture(120, 200))
    assert ok
    # Little-endian TIFF with one entry: tag 0x0112 (orientation), SHORT, one value, 6.
    exif = b"Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0"
    path = tmp_path / "turned.jpg"
    path.write_bytes(b"\xff\xd8\xff\xe1" + (len(exif) + 2).to_bytes(2, "big") + exif + data.tobytes()[2:])
    assert cv2.imread(str(path), 0).shape == (200, 120)
    return path


def test_first_hour_1_keypoints_of_a_turned_photo_need_to_say_which_way(turned_photo: Path) -> None:
    pixels = cv2.imread(str(turned_photo), 0)
    found = [point for point in cv2.SIFT_create(50).detect(pixels) if point.pt[0] < 119 and point.pt[1] < 119]
    with pytest.raises(UserError, match=r"turned\.jpg is rotated by its EXIF orientation: give exif=True"):
        patchprint.extract(turned_photo, "pixels", keypoints=found)
    of_file = patchprint.extract(turned_photo, "pixels", keypoints=found, exif=True)
    assert torch.equal(of_file.descriptors, patchprint.extract(pixels, "pixels", keypoints=found).descriptors)
    as_stored = patchprint.extract(turned_photo, "pixels", keypoints=found, exif=False)
    assert as_stored.image_size == (200, 120) and of_file.image_size == (120, 200)
    assert len(patchprint.extract(turned_photo, "pixels", max_keypoints=20)) > 0


@pytest.mark.parametrize("place", [(5000.0, 5000.0), (-300.0, 2.0), (10.0, 121.5)])
def test_first_hour_1_keypoints_outside_of_the_image_are_refused(place: tuple[float, float]) -> None:
    points = Keypoints(torch.tensor([[10.0, 10.0], place]), torch.full((2,), 2.0), torch.zeros(2))
    for max_size in (None, 64):
        with pytest.raises(
            UserError, match=r"1 of 2 keypoints lie outside of the image of 200x120 pixels, the first at"
        ):
            patchprint.extract(texture(120, 200), "pixels", keypoints=points, max_size=max_size)


def test_first_hour_15_a_mask_may_be_a_file(tmp_path: Path) -> None:
    mask = np.zeros((120, 200), np.uint8)
    mask[:, :100] = 255
    cv2.imwrite(str(tmp_path / "mask.png"), mask)
    by_path = patchprint.extract(texture(120, 200), "pixels", mask=tmp_path / "mask.png")
    assert len(by_path) and torch.equal(
        by_path.keypoints.xy, patchprint.extract(texture(120, 200), "pixels", mask=mask).keypoints.xy
    )


def test_first_hour_19_a_list_of_paths_is_one_sentence() -> None:
    with pytest.raises(UserError, match="2 paths are given where one image is expected"):
        patchprint.extract(["a.jpg", "b.jpg"], "pixels")  # type: ignore[arg-type]


def test_first_hour_19_tensors_may_have_channels_first() -> None:
    rgb = np.stack([texture(60, 80, seed) for seed in range(3)], -1)
    planar = torch.from_numpy(rgb).permute(2, 0, 1)
    assert np.array_equal(read_gray(planar), read_gray(rgb)) and np.array_equal(read_color(planar), rgb)
    assert np.array_equal(read_gray(planar[:1]), rgb[..., 0])
    with pytest.raises(UserError, match=r"shape \(2, 60, 80\)"):
        read_gray(planar[:2])


def test_first_hour_19_keypoints_without_scale_are_one_sentence() -> None:
    with pytest.raises(UserError, match=r"need a scale"):
        Keypoints(torch.zeros(3, 2))  # type: ignore[call-arg]
    with pytest.raises(UserError, match=r"Keypoints\(xy, scale, angle\)"):
        patchprint.extract(texture(60, 80), "pixels", keypoints=np.zeros((3, 2)))


def test_m7_thin_images_are_described(tmp_path: Path) -> None:
    write_textures(tmp_path / "photos", 1, 120, 160)
    for name, shape in {"a-line.png": (1, 5000), "a-column.png": (5000, 1)}.items():
        cv2.imwrite(str(tmp_path / "photos" / name), np.full(shape, 128, np.uint8))
    command = ["describe", str(tmp_path / "photos"), "--out", str(tmp_path / "f"), *FEW, "--max-size", "64"]
    assert cli.main(command) == 0
    assert limit(np.zeros((1, 5000), np.uint8), 1024).shape == (1, 1024)


@pytest.mark.skipif(os.name == "nt", reason="drives have letters there")
def test_m9_l6_names_that_only_look_like_paths_stop_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "photos"
    write_textures(folder, 2, 120, 160)
    first, second = sorted(folder.iterdir())
    first.rename(folder / "A: first.png")
    (folder / r"a\..\b.png").write_bytes(second.read_bytes())
    assert list_images(folder) == [second.name, "A: first.png"]
    assert r"left out: 'a\\..\\b.png'" in capsys.readouterr().err
    assert cli.main(["describe", str(folder), "--out", str(tmp_path / "f"), *FEW]) == 0
    assert "2 images described with pixels, 1 left out" in capsys.readouterr().out


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes have names on Unix")
def test_l5_a_pipe_with_the_name_of_a_temporary_file_stops_nobody(tmp_path: Path) -> None:
    program = (
        "from patchprint.common.files import write_text\n"
        "from patchprint.common.errors import UserError\n"
        "write_text('out.txt', 'written')\n"
    )
    os.mkfifo(tmp_path / ".patchprint.abcdefgh.x")
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, env=environment(), timeout=60, check=True)
    assert (tmp_path / "out.txt").read_text() == "written"
    assert (tmp_path / ".patchprint.abcdefgh.x").is_fifo()
    os.mkfifo(tmp_path / ".folder.lock")
    with pytest.raises(UserError, match=r"\.folder\.lock is no file but a pipe"), only_writer(tmp_path / "folder"):
        pass
    with atomic_file(tmp_path / "other") as temporary:
        temporary.write_text("still")


@pytest.mark.parametrize("scale", [1e30, 1e7])
@pytest.mark.parametrize("affine", [False, True])
def test_l8_a_scale_beyond_all_images_is_refused(scale: float, affine: bool) -> None:
    frames = scale * torch.eye(2)[None] if affine else None
    keypoints = Keypoints(
        torch.tensor([[5.0, 5.0]]), torch.tensor([2.0 if affine else scale]), torch.zeros(1), None, frames
    )
    with pytest.raises(UserError, match=r"keypoint 0 of 1 .* none beyond 1e"):
        load("pixels").describe_keypoints(texture(60, 80), keypoints)
    large = Keypoints(torch.tensor([[5.0, 5.0]]), torch.tensor([1e6]), torch.zeros(1))
    assert load("pixels").describe_keypoints(texture(60, 80), large).isfinite().all()


def test_l9_a_closed_stdout_is_no_fault() -> None:
    done = subprocess.run(
        ["sh", "-c", '"$0" -m patchprint models >&-', sys.executable],
        env=environment(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("rank", "world", "said"),
    [("x", None, "RANK='x'"), ("1", None, "RANK is 1 and WORLD_SIZE is 1"), ("0", "many", "WORLD_SIZE='many'")],
)
def test_l9_odd_ranks_are_one_sentence(
    rank: str, world: str | None, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_textures(tmp_path / "photos", 1, 120, 160)
    monkeypatch.setenv("RANK", rank)
    if world is not None:
        monkeypatch.setenv("WORLD_SIZE", world)
    assert (
        cli.main(["describe", str(tmp_path / "photos"), "--out", str(tmp_path / "f"), *FEW]) == 0
    )  # only training asks
    with pytest.raises(UserError, match=said):
        distributed.place_by_torchrun()


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--model", "sift"], "--model is for images"),
        (["--detector", "harris"], "--detector is for images"),
        (["--max-keypoints", "5"], "--max-keypoints is for images"),
        (["--max-size", "500"], "--max-size is for images"),
        (["--upright"], "--upright is for images"),
        (["--exif"], "--exif is for images"),
    ],
)
def test_first_hour_2_settings_of_photos_are_refused_for_features(
    flags: list[str], said: str, described: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["match", str(described), *flags, "--out", str(tmp_path / "m.json")]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("flags", [["--pairs", "sequential"], ["--neighbors", "3"]])
def test_first_hour_2_settings_of_many_are_refused_for_two(
    flags: list[str], views: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["match", str(views / "view 0.png"), str(views / "view 1.png"), *flags]) == 2
    assert "is for many images" in capsys.readouterr().err


def test_first_hour_17_a_second_photo_that_was_forgotten(views: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for more in ([], ["--out", "m.json"]):
        assert cli.main(["match", str(views / "view 0.png"), *more]) == 2
        assert "the second image is missing" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("match a.jpg b.jpg --ratio abc", "--ratio: abc is not a number"),
        ("describe a --out b --workers abc", "--workers: abc is not a whole number"),
        ("export tfeat --untrained --out net.foo", "net.foo: networks are written as .onnx"),
        ("match https://example.com/a.jpg b.jpg", "https://example.com/a.jpg is a web page"),
    ],
)
def test_first_hour_20_small_ones(words: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(words.split()) == 2
    assert said in capsys.readouterr().err


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs Linux")
def test_first_hour_20_a_place_that_takes_no_files_is_found_before_the_work(
    views: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["match", str(views / "view 0.png"), str(views / "view 1.png"), *FEW, "--out", "/proc/x.png"]
    assert cli.main(command) == 1
    said = capsys.readouterr()
    assert "/proc takes no files" in said.err and said.out == ""


POISON = """
import os, signal, cv2
decode = cv2.imdecode
def imdecode(data, flags):
    if b"POISON" in data.tobytes():
        os.kill(os.getpid(), signal.SIGSEGV)
    return decode(data, flags)
cv2.imdecode = imdecode
"""


@pytest.fixture
def poisoned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Photos, one of which kills the process that decodes it, if that was started after this."""
    (tmp_path / "poison").mkdir()
    (tmp_path / "poison" / "sitecustomize.py").write_text(POISON)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path / "poison"), environment()["PYTHONPATH"]]))
    write_textures(tmp_path / "photos", 8, 60, 80)
    with open(tmp_path / "photos" / "3.png", "ab") as stream:
        stream.write(b"POISON")
    return tmp_path / "photos"


@pytest.mark.slow
def test_m6_a_photo_that_kills_a_worker_is_named_and_left_out(
    poisoned: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["describe", str(poisoned), "--out", str(tmp_path / "f"), *FEW, "--device", "cpu", "--workers", "2"]
    assert cli.main(command) == 0
    said = capsys.readouterr()
    assert "7 images described with pixels, 1 left out" in said.out
    assert f"left out: {poisoned / '3.png'}: the process that worked on it alone was killed" in said.err


def test_m6_a_photo_that_kills_the_only_process_is_found_by_the_next_run(poisoned: Path, tmp_path: Path) -> None:
    command = ["-m", "patchprint", "describe", str(poisoned), "--out", str(tmp_path / "f"), *FEW, "--device", "cpu"]

    def describe() -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, *command], capture_output=True, text=True, check=False)

    assert describe().returncode == -signal.SIGSEGV
    second = describe()
    assert second.returncode == 0 and "7 images described with pixels, 1 left out" in second.stdout
    assert f"left out: {poisoned / '3.png'}: the process that worked on it alone was killed" in second.stderr
    assert [path.name for path in (tmp_path / "f").iterdir() if "in-hand" in path.name] == []


@pytest.mark.slow
def test_m6_a_photo_that_kills_workers_of_a_cluster_is_named_and_left_out(poisoned: Path, tmp_path: Path) -> None:
    pytest.importorskip("ray")
    command = ["-m", "patchprint", "describe", str(poisoned), "--out", str(tmp_path / "f"), *FEW, "--engine", "ray"]
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "7 images described with pixels, 1 left out" in done.stdout, done.stderr[-2000:]
    assert f"left out: {poisoned / '3.png'}: the process that worked on it alone was killed" in done.stderr


def test_m7_an_error_of_opencv_is_that_of_one_photo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_textures(tmp_path / "photos", 3, 60, 80)
    finding = describe_jobs.find_keypoints

    def find(image: Path, **settings: object) -> object:
        if image.name == "1.png":
            cv2.resize(np.zeros((1, 1), np.uint8), (0, 0))  # raises cv2.error
        return finding(image, **settings)

    monkeypatch.setattr(describe_jobs, "find_keypoints", find)
    assert cli.main(["describe", str(tmp_path / "photos"), "--out", str(tmp_path / "f"), *FEW]) == 0
    said = capsys.readouterr()
    assert "2 images described with pixels, 1 left out" in said.out and "1.png" in said.err


HOSTILE: dict[str, tuple[str, Callable[[np.ndarray], np.ndarray]]] = {
    "keypoint 0 of 4 lies at": ("keypoints", lambda xy: xy * np.nan),
    "none beyond 1e": ("keypoints", lambda xy: xy + 1e30),
    "the scale above zero": ("scales", lambda scale: -scale),
    "pixels wide and": ("image_size", lambda size: -size),
}


@pytest.mark.parametrize("said", HOSTILE)
def test_hostile_numbers_in_hdf5_are_refused(said: str, tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    hloc.write_features(tmp_path / "f.h5", [("a.png", made_features.features(made_features.descriptors(4)))])
    name, change = HOSTILE[said]
    with h5py.File(tmp_path / "f.h5", "r+") as store:
        changed = change(store["a.png"][name][()])
        del store["a.png"][name]
        store["a.png"][name] = changed
    with pytest.raises(UserError, match=rf"f\.h5: .*{said}"):
        list(hloc.read_features(tmp_path / "f.h5"))


@pytest.mark.parametrize("ratio", [float("nan"), -1.0, 7.0])
def test_hostile_ratios_in_hdf5_are_refused(ratio: float, tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    hloc.write_features(tmp_path / "f.h5", [("a.png", made_features.features(made_features.descriptors(4)))])
    with h5py.File(tmp_path / "f.h5", "r+") as store:
        store["a.png"].attrs["ratio"] = ratio
    with pytest.raises(UserError, match=r"f\.h5: the ratio of the features is"):
        list(hloc.read_features(tmp_path / "f.h5"))


@pytest.mark.parametrize("name", ["a\nb", "x..\\..\\evil"])
def test_hostile_names_in_hdf5_are_refused(name: str, tmp_path: Path) -> None:
    pytest.importorskip("h5py")
    hloc.write_features(tmp_path / "f.h5", [(name, made_features.features(made_features.descriptors(4)))])
    with pytest.raises(UserError, match=r"f\.h5: the name .* in it has"):
        list(hloc.read_features(tmp_path / "f.h5"))
