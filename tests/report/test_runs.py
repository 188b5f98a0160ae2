"""Training runs as sections of a page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from patchprint.report.runs import read_run, run_section


def test_training_run(tmp_path: Path) -> None:
    lines = [{"step": step, "loss/total": 1.0 / step, "val/fpr95": 0.1} for step in (1, 2, 3)]
    (tmp_path / "metrics.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n")
    (tmp_path / "config.json").write_text('{"recipe": "hardnet"}')
    section = run_section(read_run(tmp_path))
    assert len(section.figures) == 2
    assert "hardnet" in section.code
    assert "3 steps" in section.paragraphs[0]


def test_other_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is not a training run"):
        read_run(tmp_path)
