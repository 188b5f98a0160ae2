"""Records of measurements: what is left out is empty, and the command is one that can be typed again."""

import functools
import json
import runpy
import sys
import time
from pathlib import Path

import pytest

from patchprint.common import provenance

SCRIPT = "from patchprint.common import provenance; print(provenance.run_info()['command'])"


def test_a_record_has_every_field_and_survives_json() -> None:
    result = provenance.record("speed", settings={"n": 1}, scores={"ms": 2.0}, started=time.monotonic() - 5)
    stored = json.loads(json.dumps(result.to_json()))
    assert (stored["benchmark"], stored["settings"], stored["scores"]) == ("speed", {"n": 1}, {"ms": 2.0})
    assert (stored["model"], stored["data"], stored["seed"], stored["schema"]) == ({}, {}, None, 1)
    assert 5 <= stored["run"]["seconds"] < 60
    assert set(stored["run"]) == {"command", "version", "machine", "date", "seconds", "peak_mib"}


def test_modules_and_programs_are_recorded_as_they_were_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """``python`` and ``python -m`` run what they are given as `runpy` does here."""
    (tmp_path / "box").mkdir()
    for file in (tmp_path / "tool.py", tmp_path / "box" / "one.py", tmp_path / "box" / "__main__.py"):
        file.write_text(SCRIPT)
    monkeypatch.syspath_prepend(tmp_path)
    run_module = functools.partial(runpy.run_module, alter_sys=True)
    for run, name, words, command in (
        (runpy.run_path, str(tmp_path / "tool.py"), ["--x", "a b"], "tool.py --x 'a b'"),
        (run_module, "box.one", ["3"], "python -m box.one 3"),
        (run_module, "box", [], "python -m box"),
    ):
        monkeypatch.setattr(sys, "argv", ["", *words])
        run(name, run_name="__main__")
        assert capsys.readouterr().out.strip() == command
