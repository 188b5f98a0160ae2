"""Every script in perf/ is in its README, imports, and answers --help with what it is for."""

import importlib
import sys
from pathlib import Path

import pytest

PERF = Path(__file__).resolve().parents[2] / "perf"
FILES = [file for file in PERF.glob("*/*.py") if not file.stem.startswith("_")]
PROGRAMS = [file.parent for file in PERF.glob("*/*/__main__.py")]  # of several files
SCRIPTS = sorted(f"perf.{path.parent.name}.{path.stem}" for path in FILES + PROGRAMS)


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_says_what_it_is_for(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _, group, stem = name.split(".")
    module = f"{name}.__main__" if (PERF / group / stem).is_dir() else name
    script = importlib.import_module(module)
    monkeypatch.setattr(sys, "argv", [name, "--help"])
    with pytest.raises(SystemExit) as stop:
        script.main()
    assert stop.value.code == 0
    text = capsys.readouterr().out
    assert script.__doc__.strip().splitlines()[0] in text and f"python -m {name} " in script.__doc__
    assert "--help" in text.split("options:")[1]
    section = (PERF / "README.md").read_text().split(f"## {group}:")[1].split("\n## ")[0]
    assert f"| `{stem}` |" in section
