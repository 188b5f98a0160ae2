"""The notebooks run from top to bottom, and are kept without what they print."""

import importlib.util
import json
import re
import subprocess
import sys
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


@EVERY_NOTEBOOK
@pytest.mark.parametrize("source", ["", "https://a.b/patchprint-9.9-py3-none-any.whl", "clone"])
def test_its_first_cell_installs_patchprint(
    source: str, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only where it is missing, from the index, a wheel or a clone; the notebook names no place of one machine."""
    first = next("".join(cell["source"]) for cell in cells(file) if cell["cell_type"] == "code")
    assert '\nSOURCE = ""  # @param' in first, "Colab makes a form of it"
    monkeypatch.chdir(tmp_path)
    (tmp_path / "clone").mkdir()
    ran: list[list[str]] = []
    monkeypatch.setattr(subprocess, "run", lambda command, check: ran.append(command))
    install = compile(first.replace('""', repr(source), 1), "the first cell", "exec")
    exec(install, {})
    assert ran == [], "it is here already"
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    exec(install, {})
    address = (tmp_path / "clone").as_uri() if source == "clone" else source
    wanted = "patchprint[images,eval]" + (f" @ {address}" if source else "")
    assert ran == [[sys.executable, "-m", "pip", "install", "--quiet", wanted]]
    assert not re.search(r"/(home|root|work|tmp|Users)/|shared/", file.read_text("utf-8"))


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
