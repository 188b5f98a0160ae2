"""``patchprint report``: results become a page."""

from __future__ import annotations

import json
from pathlib import Path

import cv2
import pytest

from patchprint.cli import main
from support.known_images import texture
from support.made_runs import bench_result, oxford_result


def test_precision_recall_curves(sequences: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "r.json")
    assert main(["eval", "oxford", "--model", "pixels", "--data", sequences, "--curves", "--out", out]) == 0
    curve = json.loads(Path(out).read_text())["scores"]["pairs"]["one/1-2"]["curve"]
    assert curve["recall"] == sorted(curve["recall"])
    assert main(["report", out, "--out", str(tmp_path / "page.html")]) == 0
    assert "Precision and recall along sequences" in (tmp_path / "page.html").read_text()


def test_rotation_of_a_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cv2.imwrite(str(tmp_path / "p.png"), texture(128, 128))
    out = tmp_path / "r.json"
    arguments = [
        "eval",
        "rotation",
        "--model",
        "sift",
        "--data",
        str(tmp_path / "p.png"),
        "--step",
        "90",
        "--out",
        str(out),
    ]
    assert main(arguments) == 0
    assert main(["report", str(out), "--out", str(tmp_path / "page.html")]) == 0
    assert "Robustness to rotation" in (tmp_path / "page.html").read_text()


def test_speed_beside_accuracy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = oxford_result("mine", 0.5)
    timed = {"patchprint mine": {"best_ms": 100.0, "sha256": result["model"]["sha256"]}}
    (tmp_path / "oxford.json").write_text(json.dumps(result))
    (tmp_path / "bench.json").write_text(json.dumps(bench_result(timed)))
    sources = [str(tmp_path / name) for name in ("oxford.json", "bench.json")]
    assert main(["report", *sources, "--out", str(tmp_path / "page.html"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["benches"] == 1
    assert "Speed and accuracy, 2 cores, a processor" in (tmp_path / "page.html").read_text()
