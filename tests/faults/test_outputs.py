"""What patchprint writes: nothing of the user's is lost, and what cannot be written is named."""

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from faults.conftest import Typed, snapshot
from patchprint.common.errors import UserError
from patchprint.common.files import atomic_folder
from patchprint.interop import colmap_models, colmap_sfm
from patchprint.training import checkpoint, resolve
from patchprint.training.loop import train
from patchprint.training.run_folder import RunFolder
from support import children, training_data
from support.full_disk import files_limited_to
from support.scenes import THREE_VIEWS, MatchedViews, write_sequence
from support.weight_files import forged_weights

SMALL = "--model pixels --max-keypoints 50"
WRITERS = {
    "build": "data build homographies photos {} --views 2",
    "yml": f"describe photos --out {{}} --format opencv-yml {SMALL}",
    "npz": f"describe photos --out {{}} {SMALL}",
    "sfm": f"sfm photos --out {{}} {SMALL}",
}
SHORT = {**training_data.SHORT, "steps": 2, "checkpoint_every": 1}


@pytest.fixture
def mine(desk: Path) -> Path:
    """A folder of the user's, with names in it that patchprint uses as well."""
    (desk / "mine" / "features").mkdir(parents=True)
    for name in ("letter.txt", "config.json", "manifest.json", "features.json", "features/features.json"):
        (desk / "mine" / name).write_text("{}")
    return desk / "mine"


def assert_is_refused(write: Callable[[], tuple[str, str]], words: str, folder: Path) -> None:
    before = snapshot(folder)
    code, said = write()
    assert code == "2" and words in said and snapshot(folder) == before, said


@pytest.mark.parametrize("writer", WRITERS)
def test_h1_an_output_that_is_or_holds_the_images_is_refused(writer: str, desk: Path, typed: Typed) -> None:
    (desk / "link").symlink_to("photos")
    for out in ("photos", ".", "link", "photos/../photos"):
        command = f"{WRITERS[writer]} --force".format(out)
        assert_is_refused(lambda command=command: typed(command), "is or holds the input", desk / "photos")


@pytest.mark.parametrize("writer", WRITERS)
def test_h1_force_leaves_folders_that_patchprint_did_not_make(writer: str, mine: Path, typed: Typed) -> None:
    assert_is_refused(lambda: typed(f"{WRITERS[writer]} --force".format("mine")), "mine", mine)


def assert_other_files_are_kept(write: Callable[[], tuple[str, str]], out: Path, name: Path) -> None:
    assert write()[0] == "0"
    (out / name).parent.mkdir()
    (out / name).write_text("years of work")
    assert_is_refused(write, f"holds {name}", out)
    (out / name).unlink()
    assert write()[0] == "0"


@pytest.mark.parametrize("writer", ["build", "yml", "npz"])
def test_h1_force_replaces_what_patchprint_made_unless_other_files_lie_in_it(
    writer: str, desk: Path, typed: Typed
) -> None:
    command = WRITERS[writer].format("out")
    assert typed(command)[0] == "0"
    assert_other_files_are_kept(lambda: typed(f"{command} --force"), desk / "out", Path("sub", "notes.txt"))


@pytest.mark.slow
def test_h1_sfm_with_force_starts_again_but_keeps_a_folder_with_other_files(desk: Path, typed: Typed) -> None:
    THREE_VIEWS.write(desk / "views")
    command = "sfm views --out out --model sift --single-camera --max-keypoints 600 --force"
    assert_other_files_are_kept(lambda: typed(command), desk / "out", Path("model", "dense", "fused.ply"))


def test_h1_h2_a_folder_of_a_run(mine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As other folders; and a second training in it at the same time is refused."""

    def learn(out: Path) -> tuple[str, str]:
        try:
            train(resolve("tfeat", **SHORT), training_data.images(), out=out, force=True)
        except UserError as error:
            return "2", str(error)
        return "0", ""

    assert_is_refused(lambda: learn(mine), "mine", mine)
    assert_other_files_are_kept(lambda: learn(tmp_path / "run"), tmp_path / "run", Path("sub", "notes.txt"))
    write, answers = checkpoint.write, []

    def start_another(*args: object) -> Path:
        monkeypatch.undo()
        answers.append(learn(tmp_path / "run"))
        return write(*args)

    monkeypatch.setattr(checkpoint, "write", start_another)
    assert learn(tmp_path / "run")[0] == "0"
    ((code, said),) = answers
    assert code == "2" and "another process is writing" in said


def test_h2_without_force_a_folder_that_appeared_meanwhile_stays(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with pytest.raises(UserError, match="exists already"), atomic_folder(store, "a test") as temporary:
        (temporary / "a.txt").write_text("ours")
        store.mkdir()
        (store / "letter.txt").write_text("theirs")
    assert snapshot(tmp_path) == {"store/letter.txt": b"theirs"}


def test_m3_the_name_in_a_weight_file_does_not_lead_out_of_the_results(desk: Path, typed: Typed) -> None:
    forged_weights(desk / "evil.safetensors", name="x/../../../ESCAPED")
    write_sequence(desk / "data" / "graf", images=2, side=100)
    before = set(snapshot(desk))
    typed("eval oxford --model evil.safetensors --data data --out a/b/results --no-cache --device cpu")
    written = set(snapshot(desk)) - before
    assert written and all(name.startswith("a/b/results/") for name in written), f"written: {', '.join(written)}"


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs Linux")
def test_a_place_that_takes_no_files_is_found_before_the_work(desk: Path, typed: Typed) -> None:
    code, said = typed(f"match photos/0.png photos/1.png --out /proc/x.png {SMALL}")
    assert code == "1" and "/proc/x.png cannot be written" in said and said.count("\n") == 1, said


def test_h5_a_model_cut_by_a_full_disk_gets_no_name_and_is_made_again(
    matched_views: MatchedViews, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    photos, features, matches = matched_views
    keypoints = {name: item.keypoints for name, item in features.items()}
    mapping, work = colmap_models.pycolmap.incremental_mapping, tmp_path / "work"

    def on_a_full_disk(*args: object, **options: object) -> dict:
        with files_limited_to(40_000):  # enough for SQLite's side files, not for images.bin
            return mapping(*args, **options)

    monkeypatch.setattr(colmap_models.pycolmap, "incremental_mapping", on_a_full_disk)
    with pytest.raises(OSError, match=r"sparse could not be written"):
        colmap_sfm.reconstruct(photos, keypoints, matches, work)
    assert not (work / "sparse").exists()
    monkeypatch.undo()
    assert colmap_sfm.reconstruct(photos, keypoints, matches, work).num_reg_images() == 3


@pytest.mark.parametrize("name", ["rigs", "cameras", "frames", "images", "points3D"])
def test_h5_h6_no_cut_of_a_model_is_read_or_hangs(name: str, tmp_path: Path) -> None:
    """Rigs of two cameras, so that all kinds of records occur."""
    options = colmap_models.pycolmap.SyntheticDatasetOptions(
        num_rigs=2, num_cameras_per_rig=2, num_frames_per_rig=2, num_points3D=20
    )
    colmap_models.pycolmap.synthesize_dataset(options).write_binary(tmp_path)
    assert colmap_models.is_complete(tmp_path)
    assert colmap_models.read_model(tmp_path).num_reg_images() == 8
    path = tmp_path / f"{name}.bin"
    whole = path.read_bytes()
    for length in {0, 4, 8, 9, *np.random.default_rng(0).integers(0, len(whole), 50).tolist()}:
        path.write_bytes(whole[:length])
        with pytest.raises(UserError, match="cut short or damaged"):
            colmap_models.read_model(tmp_path)


@pytest.mark.parametrize("events", [True, False])
def test_the_log_of_a_training_on_a_full_disk_is_named(
    events: bool, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The thread of TensorBoard's writer ended with a traceback, and the error of metrics.jsonl named no file."""
    pytest.importorskip("tensorboard")

    def log() -> None:
        run = RunFolder(tmp_path / "run", resolve("hardnet", tensorboard=events), resume=False)
        for step in range(200):
            run.log(step, {"loss/total": 0.1, **{f"value {number}": 0.1 for number in range(2 if events else 20)}})

    with files_limited_to(10_000 if events else 3000):
        ended = children.run(log)
    name = r"events\.out\S*" if events else r"metrics\.jsonl"
    assert ended.how == "refused" and re.search(rf"run/{name} could not be written: File too large", ended.said), ended
    assert capfd.readouterr().err == ""
