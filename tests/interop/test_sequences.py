"""Sequences of images with homographies, in the layouts of Oxford and of HPatches."""

import pytest

from patchprint.data.builders import hpatches_sequences
from patchprint.interop.sequences import find_sequences
from support.scenes import write_sequence


def test_broken_sequences_are_named(tmp_path):
    write_sequence(tmp_path / "s" / "v_a", images=6, layout="hpatches")
    (tmp_path / "s" / "v_a" / "H_1_4").write_text("1 2 3\n")
    with pytest.raises(ValueError, match=r"H_1_4 is not a homography"):
        find_sequences(tmp_path / "s")
    (tmp_path / "s" / "v_a" / "H_1_4").unlink()
    with pytest.raises(ValueError, match=r"H1to4p is missing; each image after the first needs its homography"):
        find_sequences(tmp_path / "s")
    with pytest.raises(ValueError, match="holds no sequences"):
        find_sequences(tmp_path)
    for name in ("4.ppm", "4.png"):
        (tmp_path / "s" / "v_a" / name).unlink(missing_ok=True)
    with pytest.raises(ValueError, match="v_a lacks image 4"):
        hpatches_sequences.build(tmp_path / "s", tmp_path / "out")


def test_a_link_keeps_the_name_it_has_here(tmp_path):
    """HPatches tells light from viewpoint by the beginning of the name."""
    write_sequence(tmp_path / "elsewhere" / "17", images=2, layout="hpatches")
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "i_dome").symlink_to(tmp_path / "elsewhere" / "17")
    assert [s.name for s in find_sequences(tmp_path / "set")] == ["i_dome"]
    assert [s.name for s in find_sequences(tmp_path / "set" / "i_dome")] == ["i_dome"]


def test_oxford_sequences_are_found(shared):
    sequences = find_sequences(shared("oxford"))
    assert {s.name for s in sequences} == {"bikes", "boat", "graf", "leuven", "ubc", "wall"}
    assert all(list(s.paths) == [1, 2, 3, 4, 5, 6] and list(s.homographies) == [2, 3, 4, 5, 6] for s in sequences)
