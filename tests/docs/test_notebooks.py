"""The notebooks run from top to bottom, and are kept without what they print."""

import json
from pathlib import Path
from typing import Any

import pytest

from support.checkout import ROOT

NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
pytestmark = [
    pytest.mark.skipif(not NOTEBOOKS, reason="docs/ is not in this copy of the repository"),
    pytest.mark.usefixtures("small_calibration"),
]
EVERY_NOTEBOOK = pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)


def cells(file: Path) -> list[dict[str, Any]]:
    return json.loads(file.read_text(encoding="utf-8"))["cells"]


@EVERY_NOTEBOOK
def test_it_is_kept_without_output(file: Path) -> None:
    code = [cell for cell in cells(file) if cell["cell_type"] == "code"]
    assert code and not any(cell["outputs"] or cell["execution_count"] for cell in code)


@pytest.mark.slow
@EVERY_NOTEBOOK
def test_it_runs(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its cells in their order, in a folder of their own; a notebook's last cell says what must have come of it."""
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pytest.importorskip("skimage.data")
    pyplot.switch_backend("agg")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "__main__"}
    for cell in cells(file):
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), f"{file.name}, {cell['id']}", "exec"), names)
    pyplot.close("all")
