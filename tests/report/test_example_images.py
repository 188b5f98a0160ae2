"""Images out of a run, and files that hold none."""

from pathlib import Path

import numpy as np
import pytest

from patchprint.report.embedded_images import Gallery
from patchprint.report.example_images import KINDS, example_sections
from patchprint.report.runs import read_run
from support.made_runs import write_run


def test_hardest_pairs(tmp_path: Path) -> None:
    (hardest,) = example_sections([read_run(write_run(tmp_path / "mine"))])
    missed, confused = hardest.parts
    assert isinstance(missed, Gallery) and isinstance(confused, Gallery)
    assert [image.caption for image in missed.images] == ["1.20", "1.10", "1.00"]
    assert missed.images[0].size == (2 * 34, 2 * 67), "two framed patches above each other, twice as large"


def test_runs_that_recorded_none(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "mine")
    (folder / "hardest.npz").unlink()
    assert example_sections([read_run(folder)]) == []


@pytest.mark.parametrize(
    "arrays",
    [
        {"missed": np.zeros((2, 2, 4, 4), np.uint8), "missed_distance": np.zeros(2)},
        {f"{kind}{part}": np.zeros((2, 3, 4, 4), np.uint8) for kind in KINDS for part in ("", "_distance")},
        {f"{kind}{part}": np.zeros((2, 2, 4, 4), np.uint8) for kind in KINDS for part in ("", "_distance")},
    ],
)
def test_damaged_files_are_named(tmp_path: Path, arrays: dict[str, np.ndarray]) -> None:
    folder = write_run(tmp_path / "mine")
    np.savez(folder / "hardest.npz", **arrays)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"hardest\.npz"):
        example_sections([read_run(folder)])
