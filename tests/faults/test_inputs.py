"""What patchprint is given: odd names, odd numbers, files that announce too much, images that end a process."""

import dataclasses
import os
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import torch
from PIL import Image

import patchprint
from faults.conftest import Typed, snapshot
from patchprint import cli, networks
from patchprint.common import distributed
from patchprint.common.errors import UserError
from patchprint.common.files import atomic_file, exclusive_writer
from patchprint.common.types import Keypoints
from patchprint.data import TrackStore, track_files
from patchprint.features import load
from patchprint.features.extract import DescribeSettings
from patchprint.interop import colmap_sift
from patchprint.interop.images import LONGEST_NAME, read_gray
from patchprint.networks import weights
from patchprint.storage import describe_jobs, feature_folder
from support import children, synthetic_tracks
from support.checkout import environment
from support.children import Action, Ending
from support.known_images import texture, write_textures
from support.peak_memory import memory_grows_by_less_than
from support.small_sfm import wall
from support.weight_files import forged_weights

SMALL = "--model pixels --max-keypoints 50"
GOOD_NAMES = (
    "plain.png",
    "with space.png",
    "line\u2028separator.png",
    "\u00fcn\u00ef \u65e5\u672c.png",
    "A: first.png",
)
BAD_NAMES = {  # and how they are called
    "latin-\udce9.png": r"latin-\udce9.png",
    "new\nline.png": r"new\nline.png",
    r"a\..\b.png": r"'a\\..\\b.png'",
    f"{'a' * (LONGEST_NAME - 3)}.png": f"has a name of more than {LONGEST_NAME} bytes",
}
LONG_NAME = "\u00fc" * (LONGEST_NAME // 2 - 2) + ".png"  # which leaves room for ".npz"


def write_named(folder: Path, *names: str) -> None:
    folder.mkdir()
    for number, name in enumerate(names):
        (folder / name).write_bytes(cv2.imencode(".png", texture(80, 100, number))[1].tobytes())


@pytest.mark.skipif(os.name == "nt", reason="drives have letters there")
@pytest.mark.parametrize(("form", "ending"), [("npz", "npz"), ("opencv-yml", "yml")])
def test_l1_l6_odd_names_are_named_and_left_out_and_the_others_described(
    form: str, ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, typed: Typed
) -> None:
    """Names that are not UTF-8, lead out, or leave no room for an ending stopped all."""
    monkeypatch.chdir(tmp_path)
    write_named(tmp_path / "photos", *GOOD_NAMES, LONG_NAME, *BAD_NAMES)
    code, said = typed(f"describe photos --out out --format {form} {SMALL}")
    assert code == "0" and f"6 images described with pixels, {len(BAD_NAMES)} left out" in said
    assert [called for called in BAD_NAMES.values() if called not in said] == []
    described = {name for name in snapshot(tmp_path / "out") if name.endswith(ending)}
    assert described == {f"{name}.{ending}" for name in (*GOOD_NAMES, LONG_NAME)}


def test_l9_a_store_has_a_name_for_each_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, typed: Typed) -> None:
    """A line separator in a name shifted all that followed it."""
    monkeypatch.chdir(tmp_path)
    write_named(tmp_path / "photos", "plain.png", "line\u2028separator.png", "new\nline.png")
    assert typed("data build homographies photos store --views 2 --max-keypoints 30")[0] == "0"
    store = TrackStore.open("store")
    assert len(store.names.images) == len(store.images) == 6, "two images with two warped copies each"
    images, tracks, *_ = synthetic_tracks.plane_tracks(points=6, count=2)
    encoded = [cv2.imencode(".png", image)[1].tobytes() for image in images]
    tracks = dataclasses.replace(tracks, part=np.zeros(tracks.num_points, np.uint8))
    names = ["a\u2028b.png", "c\x85\r.png"]
    track_files.write(tmp_path / "odd", encoded, tracks, track_files.Names(names, ["scene"]))
    assert track_files.read(tmp_path / "odd").names.images == names
    with pytest.raises(UserError, match="line break"):
        track_files.write(tmp_path / "other", encoded, tracks, track_files.Names(["a\nb", "c"], ["scene"]))


@pytest.mark.slow
def test_h7_l12_names_with_spaces_are_matched_and_keep_their_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, typed: Typed
) -> None:
    """COLMAP splits the lines of a list of pairs at spaces, and its threads add an image when they are done with it."""
    monkeypatch.chdir(tmp_path)
    names = [f"photo {number}.png" for number in range(3)]
    (tmp_path / "photos").mkdir()
    for name, zoom in zip(names, (3, 1, 1), strict=True):  # the first takes longest
        cv2.imwrite(str(tmp_path / "photos" / name), cv2.resize(wall(0), None, fx=zoom, fy=zoom))
    typed("data build photos photos store --pairs retrieval --work work")  # which may find too little for a model
    with closing(sqlite3.connect("work/database.db")) as connection, connection:
        assert connection.execute("SELECT count(*) FROM matches").fetchone() == (3,)
        order = "SELECT images.name FROM images JOIN keypoints USING (image_id) ORDER BY images.image_id"
        assert [name for (name,) in connection.execute(order)] == names
    colmap_sift._rename(Path("work/database.db"), " ", colmap_sift._SPACE)  # a kill while they are matched
    colmap_sift.restore_names(Path("work/database.db"))
    with closing(sqlite3.connect("work/database.db")) as connection:
        assert [name for (name,) in connection.execute(order)] == names


def extract_at(**changes: torch.Tensor) -> object:
    """Descriptors at three keypoints, of which the second is changed."""
    values = {"xy": torch.full((3, 2), 20.0), "scale": torch.full((3,), 2.0), "angle": torch.zeros(3)}
    if "affine" in changes:
        values["affine"] = torch.eye(2).repeat(3, 1, 1)
    for name, value in changes.items():
        values[name][1] = value
    return load("pixels").describe_keypoints(texture(60, 80), Keypoints(**values))


def test_l4_l8_keypoints_without_a_place_are_refused() -> None:
    nan, inf = float("nan"), float("inf")
    bad = {
        "xy": (nan, inf, 1e30),
        "scale": (nan, inf, 1e30, 1e7, -1.0),
        "angle": (nan, inf),
        "affine": (nan, inf, 1e30),
    }
    for field, values in bad.items():
        for value in values:
            with pytest.raises(UserError, match=r"keypoint 1 of 3 "):
                extract_at(**{field: torch.tensor(value)})
    assert extract_at(scale=torch.tensor(1e6)).isfinite().all()  # type: ignore[attr-defined]


@pytest.mark.parametrize("place", [(5000.0, 5000.0), (-300.0, 2.0), (10.0, 121.5)])
@pytest.mark.parametrize("max_size", [None, 64])
def test_keypoints_outside_of_the_image_are_refused(place: tuple[float, float], max_size: int | None) -> None:
    points = Keypoints(torch.tensor([[10.0, 10.0], place]), torch.full((2,), 2.0), torch.zeros(2))
    with pytest.raises(UserError, match=r"1 of 2 keypoints lie outside of the image of 200x120 pixels, the first at"):
        patchprint.extract(texture(120, 200), "pixels", keypoints=points, max_size=max_size)


def test_keypoints_of_a_turned_image_need_to_say_which_way(tmp_path: Path) -> None:
    path, exif = tmp_path / "turned.jpg", Image.Exif()
    exif[0x0112] = 6  # to be shown turned by a quarter
    Image.fromarray(texture(120, 200)).save(path, exif=exif)
    pixels = cv2.imread(str(path), 0)
    assert pixels.shape == (200, 120)
    found = [point for point in cv2.SIFT_create(50).detect(pixels) if point.pt[0] < 119 and point.pt[1] < 119]
    with pytest.raises(UserError, match=r"turned\.jpg is rotated by its EXIF orientation: give exif=True"):
        patchprint.extract(path, "pixels", keypoints=found)
    of_file = patchprint.extract(path, "pixels", keypoints=found, exif=True)
    assert torch.equal(of_file.descriptors, patchprint.extract(pixels, "pixels", keypoints=found).descriptors)
    as_stored = patchprint.extract(path, "pixels", keypoints=found, exif=False)
    assert as_stored.image_size == (200, 120) and of_file.image_size == (120, 200)
    assert len(patchprint.extract(path, "pixels", max_keypoints=20)) > 0


def test_m7_weights_that_announce_a_huge_network_take_no_memory(desk: Path, typed: Typed) -> None:
    forged_weights(desk / "huge.safetensors", options={"width": 1000})
    load("patchprint.tiny")
    with memory_grows_by_less_than(300):
        code, said = typed("describe photos --out new --model huge.safetensors")
    assert code == "2" and said.count("\n") == 1 and "huge.safetensors" in said


def test_m7_weights_that_repeat_few_bytes_over_a_huge_shape_are_refused(tmp_path: Path) -> None:
    state = networks.create("tfeat", width=4, dim=8).state_dict()
    state["features.1.weight"] = torch.zeros(1).expand(20_000, 1, 7, 7)
    state["features.4.weight"] = torch.zeros(1).expand(40_000, 20_000, 6, 6)
    torch.save(state, tmp_path / "tfeat.pth")
    with pytest.raises(UserError, match=r"tfeat\.pth holds weights that are larger than the file"):
        weights.load_network(tmp_path / "tfeat.pth")


def test_m7_an_error_of_opencv_is_that_of_one_image(desk: Path, monkeypatch: pytest.MonkeyPatch, typed: Typed) -> None:
    finding, bad = describe_jobs.find_keypoints, describe_jobs.read_gray(desk / "photos" / "1.png")

    def find(image: np.ndarray, settings: Any, **more: Any) -> object:
        if np.array_equal(image, bad):
            cv2.resize(np.zeros((1, 1), np.uint8), (0, 0))  # raises cv2.error
        return finding(image, settings, **more)

    monkeypatch.setattr(describe_jobs, "find_keypoints", find)
    code, said = typed(f"describe photos --out f {SMALL}")
    assert code == "0" and "2 images described with pixels, 1 left out" in said and "1.png" in said


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
    """Images, one of which kills the process that decodes it, if that was started after this."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "poison").mkdir()
    (tmp_path / "poison" / "sitecustomize.py").write_text(POISON)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path / "poison"), environment()["PYTHONPATH"]]))
    write_textures(tmp_path / "photos", 8, 60, 80)
    with open(tmp_path / "photos" / "3.png", "ab") as stream:
        stream.write(b"POISON")
    return tmp_path


@pytest.mark.parametrize(
    "how",
    [
        "--device cpu",  # the process itself dies, and the next run finds out why
        pytest.param("--device cpu --workers 2", marks=pytest.mark.slow),
        pytest.param("--engine ray", marks=pytest.mark.slow),
    ],
)
def test_m6_an_image_that_kills_a_process_is_named_and_left_out(how: str, poisoned: Path, typed: Typed) -> None:
    command = f"describe photos --out f {SMALL} {how}"

    def run(action: Action) -> Ending:
        def with_poison() -> object:
            exec(POISON, {})
            return action()

        return children.run(with_poison)

    if "ray" in how:
        pytest.importorskip("ray")
        program = [sys.executable, "-m", "patchprint", *command.split()]
        done = subprocess.run(program, capture_output=True, text=True, check=False)
        code, said = str(done.returncode), done.stdout + done.stderr
    elif "workers" in how:
        code, said = typed(command)
    else:
        assert typed(command, run)[0] == "crashed"
        code, said = typed(command, run)
    assert code == "0" and "7 images described with pixels, 1 left out" in said, said[-2000:]
    assert "photos/3.png: the process that worked on it alone was killed" in said
    assert [path.name for path in (poisoned / "f").iterdir() if "in-hand" in path.name] == []


def test_m10_a_killed_worker_is_said(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (desk / "sitecustomize.py").write_text("import os; os._exit(9)")
    monkeypatch.setenv("PYTHONPATH", str(desk))
    settings = DescribeSettings(model="pixels", max_keypoints=5)
    with pytest.raises(OSError, match="a worker process was killed"):
        feature_folder.describe_folder(desk / "photos", desk / "out", settings, workers=2)


def test_m10_faults_of_the_program_keep_their_traceback_and_ask_for_a_report(
    monkeypatch: pytest.MonkeyPatch, typed: Typed
) -> None:
    def broken(_: list[str]) -> int:
        raise IndexError("a mistake of ours")

    monkeypatch.setattr(cli, "_dispatch", broken)
    code, said = typed("")
    assert code == "1" and "IndexError: a mistake of ours" in said and "please report it" in said


@pytest.mark.skipif(os.name == "nt", reason="needs users as on Unix")
def test_an_image_that_this_user_may_not_read_is_refused_as_others_are() -> None:
    """It was a failure (exit code 1); all tests ran as the superuser, who may read everything."""

    def read() -> None:
        if os.geteuid() == 0:
            os.setuid(65534)
        read_gray(folder / "closed.png")

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        cv2.imwrite(str(folder / "closed.png"), texture(20, 30))
        (folder / "closed.png").chmod(0)
        ended = children.run(read)
    assert ended.how == "refused" and ended.said.endswith(
        "closed.png may not be read by this user; change its permissions"
    )


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes have names on Unix")
def test_l5_a_pipe_with_the_name_of_a_temporary_file_stops_nobody(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / ".patchprint.abcdefgh.x")
    program = "from patchprint.common.files import write_text; write_text('out.txt', 'written')"
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, env=environment(), timeout=60, check=True)
    assert (tmp_path / "out.txt").read_text() == "written"
    assert (tmp_path / ".patchprint.abcdefgh.x").is_fifo()
    os.mkfifo(tmp_path / ".folder.lock")
    with pytest.raises(UserError, match=r"\.folder\.lock is no file but a pipe"), exclusive_writer(tmp_path / "folder"):
        pass
    with atomic_file(tmp_path / "other") as temporary:
        temporary.write_text("still")


def test_l9_a_closed_stdout_is_no_fault() -> None:
    command = ["sh", "-c", '"$0" -m patchprint models >&-', sys.executable]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("rank", "world", "said"),
    [("x", "", "RANK='x'"), ("1", "", "RANK=1 and WORLD_SIZE=1"), ("0", "many", "WORLD_SIZE='many'")],
)
def test_l9_odd_ranks_are_one_sentence(
    rank: str, world: str, said: str, desk: Path, monkeypatch: pytest.MonkeyPatch, typed: Typed
) -> None:
    monkeypatch.setenv("RANK", rank)
    if world:
        monkeypatch.setenv("WORLD_SIZE", world)
    assert typed(f"describe photos --out f {SMALL}")[0] == "0"  # only training asks
    with pytest.raises(UserError, match=said):
        distributed.rank_from_torchrun()
