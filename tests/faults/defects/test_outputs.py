"""Defects H1, H2, H3, H5, M3, M6, M8 and L10: what patchprint writes, and what it must not touch."""

from __future__ import annotations

from pathlib import Path

import pytest

from faults.defects.material import SMALL, forged_weights, killed_when, snapshot
from faults.defects.tree import Tree
from support.scenes import THREE_VIEWS, write_sequence

BUILD = "data build homographies photos {} --views 2 --max-keypoints 30"


@pytest.mark.parametrize(
    "command",
    [
        "data build homographies photos {} --views 2",
        f"describe photos --out {{}} --format opencv-yml {SMALL}",
        f"describe photos --out {{}} {SMALL}",
        f"sfm photos --out {{}} {SMALL}",
        "train tfeat --data {store} --out {} --steps 1 --batch 16",
    ],
    ids=["store", "yml", "npz", "sfm", "train"],
)
def test_h1_force_leaves_folders_that_patchprint_did_not_make(
    command: str, tree: Tree, desk: Path, store: Path
) -> None:
    """``--force`` removed any folder, that of the photos among them."""
    for name in ("letter.txt", "config.json", "manifest.json", "features.json", "features/features.json"):
        (desk / "mine" / name).parent.mkdir(parents=True, exist_ok=True)
        (desk / "mine" / name).write_text("{}")
    before = snapshot(desk)
    for out in ("mine", "photos"):
        ended = tree.command(f"{command.format(out, store=store)} --force", desk)
        lost = sorted(name for name, data in before.items() if snapshot(desk).get(name) != data)
        assert not lost, f"{', '.join(lost)} lost: {ended}"
        assert ended.code == 2 and ended.is_sentence and out in ended.said, ended
        assert snapshot(desk) == before


@pytest.mark.parametrize("moment", [2, 1, 3])
def test_h2_a_kill_during_a_replacement_keeps_a_store(moment: int, tree: Tree, desk: Path) -> None:
    """The old store was deleted before the new one had its name: after a kill there was none."""
    assert tree.command(BUILD.format("store"), desk).code == 0
    is_folder_renamed = "event == 'os.rename' and os.path.isdir(arguments[0])"
    kill = killed_when(f"{is_folder_renamed} and (seen.append(event) or len(seen) == {moment})")
    ended = tree.command(f"{BUILD.format('store')} --seed 1 --force", desk, kill)
    assert ended.code == -9 or (moment == 3 and ended.code == 0), ended
    refused = tree.command(BUILD.format("store"), desk)
    assert refused.code == 2 and "exists already" in refused.said, f"the store was gone: {refused}"
    assert tree.command("data info store --verify", desk).code == 0
    left = {path.name for path in desk.iterdir()} - {"photos", "store"}
    assert not left, f"left behind: {', '.join(left)}"


def test_h3_opencv_yml_on_a_full_disk_is_an_error(tree: Tree, desk: Path) -> None:
    """OpenCV's writer says nothing: the command ended with 0 and left cut files."""
    command = "describe photos --out yml --format opencv-yml --model rootsift --max-keypoints 200"
    ended = tree.command(command, desk, file_bytes=200_000)  # room for each .npz, not for each .yml
    assert ended.code == 1 and ended.is_sentence and "yml could not be written" in ended.said, ended
    assert not (desk / "yml").exists()
    assert tree.command(command, desk).code == 0
    assert all(text.rstrip().endswith(b"]") for name, text in snapshot(desk / "yml").items() if name.endswith(".yml"))


@pytest.mark.slow
def test_h5_a_model_that_a_full_disk_cut_is_made_again(tree: Tree, tmp_path: Path) -> None:
    """The cut model got its name, and every later run refused it."""
    full = """
import resource, pycolmap
mapping = pycolmap.incremental_mapping
def on_a_full_disk(*given, **options):
    resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))
    return mapping(*given, **options)
pycolmap.incremental_mapping = on_a_full_disk
"""
    THREE_VIEWS.write(tmp_path / "photos")
    command = "sfm photos --out out --model rootsift --max-keypoints 600 --single-camera"
    ended = tree.command(command, tmp_path, full)
    assert ended.code not in (0, None), ended
    again = tree.command(command, tmp_path)
    assert again.code == 0, f"it cannot go on: {again}"


def test_m3_the_name_in_a_weight_file_does_not_lead_out_of_the_results(tree: Tree, tmp_path: Path) -> None:
    forged_weights(tree, tmp_path / "evil.safetensors", name="x/../../../ESCAPED")
    write_sequence(tmp_path / "data" / "graf", images=2, side=100)
    before = set(snapshot(tmp_path))
    tree.command("eval oxford --model evil.safetensors --data data --out a/b/results --no-cache --device cpu", tmp_path)
    written = set(snapshot(tmp_path)) - before
    assert written and all(name.startswith("a/b/results/") for name in written), f"written: {', '.join(written)}"


@pytest.mark.parametrize("form", ["hloc", "colmap"])
def test_m6_a_full_disk_is_a_sentence_that_names_the_file(form: str, tree: Tree, desk: Path) -> None:
    """The error named no file, at some sizes HDF5 ended the process (SIGSEGV), SQLite's error was a traceback."""
    command = f"describe photos --out made --format {form} --model rootsift --max-keypoints 60"
    assert tree.command(command, desk).code == 0
    whole, before = (desk / "made").stat().st_size, snapshot(desk)
    for part in (0.5, 0.7, 0.9, 0.99):
        ended = tree.command(f"{command} --force", desk, file_bytes=int(part * whole))
        assert ended.code == 1 and ended.is_sentence and "made" in ended.said, f"{part:.0%} of it fit: {ended}"
        assert snapshot(desk)["made"] == before["made"]
    assert tree.command(f"{command} --force", desk).code == 0
    assert set(snapshot(desk)) == set(before), "something was left behind"


def test_m8_sfm_does_not_write_among_the_photos(tree: Tree, desk: Path) -> None:
    """The next run took its own picture for a photo."""
    ended = tree.command(f"sfm photos --out photos/sfm {SMALL}", desk)
    written = sorted(name for name in snapshot(desk) if "sfm" in name)
    assert not written, f"written: {', '.join(written)}"
    assert ended.code == 2 and ended.is_sentence, ended


def test_l10_what_a_killed_run_left_is_removed_by_the_next(tree: Tree, desk: Path) -> None:
    command = f"describe photos --out {{}} {SMALL}"
    assert tree.command(command.format("whole"), desk).code == 0
    kill = killed_when("event == 'os.rename' and str(arguments[1]).endswith('1.png.npz')")
    assert tree.command(command.format("out"), desk, kill).code == -9
    assert tree.command(command.format("out"), desk).code == 0
    left = set(snapshot(desk / "out")) - set(snapshot(desk / "whole"))
    assert not left, f"left behind: {', '.join(left)}"
