"""``patchprint report``: results become a page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from patchprint.cli import main


def test_precision_recall_curves(sequences: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "r.json")
    assert main(["eval", "oxford", "--model", "pixels", "--data", sequences, "--curves", "--out", out]) == 0
    curve = json.loads(Path(out).read_text())["scores"]["pairs"]["one/1-2"]["curve"]
    assert curve["recall"] == sorted(curve["recall"])
    assert main(["report", out, "--out", str(tmp_path / "page.html")]) == 0
    assert "Precision and recall along sequences" in (tmp_path / "page.html").read_text()
