"""Images out of a run, and files that hold none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from patchprint.report.embedded_images import Gallery
from patchprint.report.example_images import example_sections
from patchprint.report.runs import read_run
from support.made_runs import write_run


def test_hardest_pairs_and_learned_points(tmp_path: Path) -> None:
    hardest, learned = example_sections([read_run(write_run(tmp_path / "mine"))])
    missed, confused = hardest.parts
    assert isinstance(missed, Gallery) and isinstance(confused, Gallery)
    assert [image.caption for image in missed.images] == ["1.20", "1.10", "1.00"]
    assert missed.images[0].size == (2 * 34, 2 * 67), "two framed patches above each other, twice as large"
    (points,) = learned.parts
    assert isinstance(points, Gallery)
    assert [image.size[0] for image in points.images] == [2 * 67, *[2 * 199] * 3], "the first has two views"


def test_runs_that_recorded_none(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "mine")
    (folder / "hardest.npz").unlink()
    np.savez(folder / "patches.npz")
    assert example_sections([read_run(folder)]) == []


@pytest.mark.parametrize(
    ("file", "arrays"),
    [
        ("patches.npz", {"patches": np.zeros((2, 3, 4, 4)), "valid": np.ones((2, 3), bool)}),
        ("patches.npz", {"patches": np.zeros((2, 3, 4, 4, 2), np.uint8), "valid": np.ones((2, 3), bool)}),
        ("patches.npz", {"patches": np.zeros((2, 3, 4, 4, 1), np.uint8)}),
        ("hardest.npz", {"missed": np.zeros((2, 2, 4, 4), np.uint8), "missed_distance": np.zeros(2)}),
    ],
)
def test_damaged_files_are_named(tmp_path: Path, file: str, arrays: dict[str, np.ndarray]) -> None:
    folder = write_run(tmp_path / "mine")
    np.savez(folder / file, **arrays)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=file):
        example_sections([read_run(folder)])
