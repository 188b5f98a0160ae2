"""perf/README.md names every script, and every script runs as it says: as a module, from the root."""

from __future__ import annotations

from pathlib import Path

import pytest

PERF = Path(__file__).resolve().parents[2] / "perf"
SCRIPTS = sorted(file for file in PERF.glob("*/*") if file.suffix in (".py", ".sh") and file.stem != "__init__")


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_every_script_is_explained(script: Path) -> None:
    section = (PERF / "README.md").read_text().split(f"## {script.parent.name}:")[1].split("\n## ")[0]
    assert f"| `{script.stem if script.suffix == '.py' else script.name}` |" in section
    text = script.read_text()
    assert "sys.path" not in text
    assert script.suffix == ".sh" or f"python -m perf.{script.parent.name}.{script.stem} " in text
