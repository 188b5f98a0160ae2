"""Every script in perf/ imports, and answers --help with what it is for."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

PERF = Path(__file__).resolve().parents[2] / "perf"
SCRIPTS = sorted(
    f"perf.{file.parent.name}.{file.stem}" for file in PERF.glob("*/*.py") if not file.stem.startswith("_")
)


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_says_what_it_is_for(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = importlib.import_module(name)
    monkeypatch.setattr(sys, "argv", [name, "--help"])
    with pytest.raises(SystemExit) as stop:
        script.main()
    assert stop.value.code == 0
    text = capsys.readouterr().out
    assert script.__doc__.strip().splitlines()[0] in text
    assert "--help" in text.split("options:")[1]
