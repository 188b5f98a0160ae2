"""A study is one file: the one that the documents show is added to a copy, and tests and command line have it."""

from __future__ import annotations

from pathlib import Path

import pytest

from additions.trial import trial
from support.checkout import ROOT
from support.documents import blocks

pytestmark = pytest.mark.slow


def test_a_study_is_one_file(tmp_path: Path) -> None:
    page = ROOT / "docs" / "evidence" / "studies.md"
    (shown,) = (block.code for block in blocks(page) if block.language == "python" and "\nSTUDIES = " in block.code)
    touched = trial(
        tmp_path,
        files={"src/patchprint/studies/yours.py": shown},
        run=["tests/studies/test_studies.py"],
        keyword="your-margins",
    )
    assert touched == ["src/patchprint/studies/yours.py"]
