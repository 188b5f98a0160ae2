"""Nothing of the user's is lost, and runs can go on."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from patchprint import cli
from patchprint.data import manifest
from patchprint.interop import colmap_models, colmap_sfm
from patchprint.training import resolve
from patchprint.training.loop import train
from support import children, training_data
from support.full_disk import files_limited_to
from support.known_images import write_textures
from support.scenes import THREE_VIEWS, MatchedViews

SMALL = ["--model", "pixels", "--max-keypoints", "50"]


@pytest.fixture
def images(tmp_path: Path) -> Path:
    return write_textures(tmp_path / "photos", 3, 120, 160)


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """A folder of the user's, with names in it that patchprint uses as well."""
    folder = tmp_path / "mine"
    (folder / "features").mkdir(parents=True)
    for name in ("letter.txt", "config.json", "manifest.json", "features.json", "features/features.json"):
        (folder / name).write_text("{}")
    return folder


def snapshot(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def build(source: Path, out: Path, *flags: str) -> int:
    return cli.main(["data", "build", "homographies", str(source), str(out), "--views", "2", *flags])


def describe(source: Path, out: Path, form: str, *flags: str) -> int:
    return cli.main(["describe", str(source), "--out", str(out), "--format", form, *SMALL, *flags])


def sfm(source: Path, out: Path, *flags: str) -> int:
    return cli.main(["sfm", str(source), "--out", str(out), *SMALL, *flags])


def training(_: Path, out: Path, *flags: str) -> int:
    config = resolve("tfeat", **{**training_data.SHORT, "steps": 1})
    try:
        train(config, training_data.images(), out=out, force="--force" in flags)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def yml(source: Path, out: Path, *flags: str) -> int:
    return describe(source, out, "opencv-yml", *flags)


def npz(source: Path, out: Path, *flags: str) -> int:
    return describe(source, out, "npz", *flags)


Writer = Callable[..., int]


@pytest.mark.parametrize("write", [build, yml, npz, sfm])
def test_h1_an_output_that_is_or_holds_the_photos_is_refused(
    write: Writer, images: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = snapshot(images)
    (tmp_path / "link").symlink_to(images)
    for out in (images, tmp_path, tmp_path / "link", images / ".." / "photos"):
        assert write(images, out, "--force") == 2
        assert "is or holds the input" in capsys.readouterr().err
    assert snapshot(images) == before


@pytest.mark.parametrize("write", [build, yml, npz, sfm, training])
def test_h1_force_leaves_folders_that_patchprint_did_not_make(
    write: Writer, images: Path, mine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = snapshot(mine)
    assert write(images, mine, "--force") == 2
    assert "mine" in capsys.readouterr().err
    assert snapshot(mine) == before


@pytest.mark.parametrize("write", [build, yml, npz, training])
def test_h1_force_replaces_what_patchprint_made_unless_other_files_lie_in_it(
    write: Writer, images: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert write(images, out) == 0
    assert write(images, out, "--force") == 0
    (out / "sub").mkdir()
    (out / "sub" / "notes.txt").write_text("years of work")
    before = snapshot(out)
    assert write(images, out, "--force") == 2
    assert f"holds {Path('sub') / 'notes.txt'}" in capsys.readouterr().err
    assert snapshot(out) == before
    (out / "sub" / "notes.txt").unlink()
    assert write(images, out, "--force") == 0


@pytest.mark.slow
def test_h1_sfm_with_force_starts_again_but_keeps_a_folder_with_other_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    THREE_VIEWS.write(tmp_path / "photos")
    command = ["sfm", str(tmp_path / "photos"), "--out", str(tmp_path / "out"), "--model", "sift", "--single-camera"]
    command += ["--max-keypoints", "600"]
    assert cli.main(command) == 0
    dense = tmp_path / "out" / "model" / "dense"
    dense.mkdir()
    (dense / "fused.ply").write_text("made by COLMAP itself in a week")
    before = snapshot(tmp_path / "out")
    assert cli.main([*command, "--force"]) == 2
    assert "fused.ply" in capsys.readouterr().err
    assert snapshot(tmp_path / "out") == before
    (dense / "fused.ply").unlink()
    assert cli.main([*command, "--force"]) == 0


def write_store(folder: Path, text: str, force: bool) -> None:
    with manifest.new_store(folder, force) as temporary:
        for name in ("a.txt", "b.txt"):
            (temporary / name).write_text(text)
        manifest.write(temporary, "test", {})


def test_h2_a_kill_at_any_moment_of_a_replacement_keeps_the_old_or_the_new_store(tmp_path: Path) -> None:
    store, moment = tmp_path / "store", 0
    write_store(store, "old", force=False)
    texts, rubbish = set(), set()
    while children.kill_at(moment := moment + 1, lambda: write_store(store, "new", force=True)).how == "killed":
        # The next run that writes there finds what the killed one left, even if it fails itself.
        with pytest.raises(RuntimeError), manifest.new_store(store, force=True):
            raise RuntimeError
        manifest.verify(store)
        texts.add((store / "a.txt").read_text())
        rubbish |= {path.name for path in tmp_path.iterdir()} - {"store"}
        write_store(store, "old", force=True)
    assert moment > 10 and texts == {"old", "new"} and not rubbish


def test_h2_the_second_of_two_writers_is_refused(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with manifest.new_store(store, force=False) as temporary:
        (temporary / "a.txt").write_text("first")
        with pytest.raises(ValueError, match=r"another process is writing .*store"):
            write_store(store, "second", force=True)
    assert (store / "a.txt").read_text() == "first"
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


def test_h2_without_force_a_folder_that_appeared_meanwhile_stays(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with pytest.raises(ValueError, match="exists already"), manifest.new_store(store, force=False) as temporary:
        (temporary / "a.txt").write_text("ours")
        store.mkdir()
        (store / "letter.txt").write_text("theirs")
    assert snapshot(tmp_path) == {"store/letter.txt": b"theirs"}


def test_h2_a_second_training_in_the_same_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from patchprint.training import checkpoint

    config = resolve("tfeat", **{**training_data.SHORT, "steps": 2, "checkpoint_every": 1})
    write = checkpoint.write

    def start_another(*args: object) -> Path:
        monkeypatch.undo()
        with pytest.raises(ValueError, match="another process is writing"):
            train(config, training_data.images(), out=tmp_path / "run", force=True)
        return write(*args)

    monkeypatch.setattr(checkpoint, "write", start_another)
    assert train(config, training_data.images(), out=tmp_path / "run").steps == 2


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
def test_h5_every_file_of_a_model_is_checked(name: str, tmp_path: Path) -> None:
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
        with pytest.raises(ValueError, match="cut short or damaged"):
            colmap_models.read_model(tmp_path)
