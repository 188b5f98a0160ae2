"""Long work says how far it is: by a bar on a terminal, by lines in a log."""

import json
import time
from pathlib import Path

import pytest

from patchprint.common import progress
from patchprint.common.errors import MissingPackageError, UserError


@pytest.fixture
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "FIRST_LINE", 0.02)
    monkeypatch.setattr(progress, "NEXT_LINES", 0.02)


def test_a_log_gets_lines_by_the_clock(hurry: None, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in progress.progress(["a", "b"], "describing", "photo"):
        time.sleep(0.1)
    out, err = capsys.readouterr()
    lines = err.splitlines()
    assert out == "" and len(lines) >= 3
    assert lines[0].startswith("describing: 0 of 2 photos, 0 s")
    assert any("1 of 2 photos" in line and "left" in line for line in lines)


def test_lines_come_while_nothing_is_counted(hurry: None, capsys: pytest.CaptureFixture[str]) -> None:
    with progress.Progress("verifying"):
        time.sleep(0.1)
    assert capsys.readouterr().err.startswith("verifying: 0 s\n")
    time.sleep(0.06)
    assert capsys.readouterr().err == "", "it is over"


def test_short_work_is_silent_and_items_pass(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(progress.progress(iter("abc"), "reading", "file", 3)) == ["a", "b", "c"]
    assert capsys.readouterr().err == ""


def test_a_terminal_gets_a_bar(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    assert list(progress.progress(range(3), "reading", "file")) == [0, 1, 2]
    assert "3/3" in capsys.readouterr().err


def test_time_left_follows_from_the_complete_units() -> None:
    work = progress.Progress("mapping", 6, "image")
    work._started -= 60
    assert work.line() == "mapping: 0 of 6 images, 60 s"
    work.update(3)
    assert work.line() == "mapping: 3 of 6 images, 60 s, 0.05 images/s, about 60 s left"
    work._started, work._counted = work._started - 15, work._counted - 15  # the next image is under way
    assert work.line() == "mapping: 3 of 6 images, 75 s, 0.05 images/s, about 45 s left"


def test_the_stations_of_a_pipeline_are_timed() -> None:
    stations = progress.Stations()
    work = progress.Progress("describing", 2, "image", stations)
    assert work.state()["stations_ms"] == {}
    for seconds in (0.01, 0.03):
        with stations.timed("read"):
            time.sleep(seconds)
    with pytest.raises(KeyError), stations.timed("write"):
        raise KeyError("disk")
    read, write = work.state()["stations_ms"].values()
    assert 20 <= read < 200 and write < 10
    assert work.line().endswith(f"read {read:g} ms, write {write:g} ms")


def test_what_is_left_out_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    said: list[str] = []
    progress.skip_or_raise(UserError("a.png is empty"), strict=False, report=said.append)
    assert said == ["left out: a.png is empty"]
    progress.skip_or_raise(UserError("b.png is empty"), strict=False)
    assert capsys.readouterr() == ("", "left out: b.png is empty\n")
    with pytest.raises(UserError, match=r"a\.png"):
        progress.skip_or_raise(UserError("a.png is empty"), strict=True)
    with pytest.raises(MissingPackageError):
        progress.skip_or_raise(MissingPackageError("no such package"), strict=False)


def test_programs_get_json_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "JSON_LINES", 0.02)
    with progress.json_lines(tmp_path / "p.jsonl"), progress.Progress("describing", 4, "photo") as work:
        work.update(2, failed=1)
        time.sleep(0.1)
        work.update(2)
    lines = [json.loads(line) for line in (tmp_path / "p.jsonl").read_text().splitlines()]
    assert len(lines) >= 2 and not lines[0]["ended"] and (lines[0]["done"], lines[0]["failed"]) == (2, 1)
    assert lines[0]["seconds_left"] is not None
    last = lines[-1]
    assert last["ended"] and (last["what"], last["unit"], last["done"], last["total"]) == ("describing", "photo", 4, 4)
    assert last["per_second"] == pytest.approx(4 / last["seconds"], rel=0.2)
    with pytest.raises(UserError, match="progress cannot be written"), progress.json_lines(tmp_path):
        pass
