"""Defects of a review: what patchprint writes, and what it must not touch."""

from __future__ import annotations

from pathlib import Path

import pytest

from faults.defects.material import SMALL, forged_weights, snapshot
from support.command_server import CommandServer
from support.scenes import write_sequence

BUILD = "data build homographies photos {} --views 2 --max-keypoints 30"


def test_h3_opencv_yml_on_a_full_disk_is_an_error(server: CommandServer, desk: Path) -> None:
    """OpenCV's writer says nothing: the command ended with 0 and left cut files."""
    command = "describe photos --out yml --format opencv-yml --model rootsift --max-keypoints 200"
    ended = server.command(command, desk, file_bytes=200_000)  # room for each .npz, not for each .yml
    assert ended.code == 1 and ended.is_sentence and "yml could not be written" in ended.said, ended
    assert not (desk / "yml").exists()
    assert server.command(command, desk).code == 0
    assert all(text.rstrip().endswith(b"]") for name, text in snapshot(desk / "yml").items() if name.endswith(".yml"))


def test_m3_the_name_in_a_weight_file_does_not_lead_out_of_the_results(server: CommandServer, tmp_path: Path) -> None:
    forged_weights(tmp_path / "evil.safetensors", name="x/../../../ESCAPED")
    write_sequence(tmp_path / "data" / "graf", images=2, side=100)
    before = set(snapshot(tmp_path))
    server.command(
        "eval oxford --model evil.safetensors --data data --out a/b/results --no-cache --device cpu", tmp_path
    )
    written = set(snapshot(tmp_path)) - before
    assert written and all(name.startswith("a/b/results/") for name in written), f"written: {', '.join(written)}"


@pytest.mark.parametrize("form", ["hloc", "colmap"])
def test_m6_a_full_disk_is_a_sentence_that_names_the_file(form: str, server: CommandServer, desk: Path) -> None:
    """The error named no file, at some sizes HDF5 ended the process (SIGSEGV), SQLite's error was a traceback."""
    command = f"describe photos --out made --format {form} --model rootsift --max-keypoints 60"
    assert server.command(command, desk).code == 0
    whole, before = (desk / "made").stat().st_size, snapshot(desk)
    for part in (0.5, 0.7, 0.9, 0.99):
        ended = server.command(f"{command} --force", desk, file_bytes=int(part * whole))
        assert ended.code == 1 and ended.is_sentence and "made" in ended.said, f"{part:.0%} of it fit: {ended}"
        assert snapshot(desk)["made"] == before["made"]
    assert server.command(f"{command} --force", desk).code == 0
    assert set(snapshot(desk)) == set(before), "something was left behind"


def test_m8_sfm_does_not_write_among_the_photos(server: CommandServer, desk: Path) -> None:
    """The next run took its own picture for a photo."""
    ended = server.command(f"sfm photos --out photos/sfm {SMALL}", desk)
    written = sorted(name for name in snapshot(desk) if "sfm" in name)
    assert not written, f"written: {', '.join(written)}"
    assert ended.code == 2 and ended.is_sentence, ended
