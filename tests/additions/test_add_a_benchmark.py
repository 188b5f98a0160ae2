"""A benchmark is two files, itself and its test: a throw-away one is added to a copy, and the command line has it at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from additions.trial import trial

pytestmark = pytest.mark.slow

BENCHMARK = '''"""How many keypoints of an image have a descriptor that no other has."""

from __future__ import annotations

from dataclasses import dataclass

from patchprint.benchmarks._benchmark import Benchmark, Run, Scores
from patchprint.benchmarks._features import KeypointSettings, features_of
from patchprint.ops.distances import nearest
from patchprint.common.errors import UserError
from patchprint.interop.images import read_gray


@dataclass(frozen=True)
class Settings:
    # Keypoints to describe.
    keypoints: int = 50
    # Smallest distance of descriptors that count as different.
    apart: float = 0.1


class Yours(Benchmark):
    """Part of the keypoints that stand alone."""

    settings = Settings
    scoring = frozenset({"apart"})
    lower_is_better = frozenset({"crowded"})

    def evaluate(self, run: Run, settings: Settings) -> Scores:
        if not run.folder.is_file():
            raise UserError(f"{run.folder} is not an image")
        found = features_of(run, read_gray(run.folder), "image", KeypointSettings("dog", settings.keypoints))
        distance, _ = nearest(found.descriptors, found.descriptors, 2, exact=True)
        return {"alone": float((distance[:, 1] > settings.apart).double().mean())}

    def headline(self, scores: Scores) -> dict[str, float]:
        return {"alone": scores["alone"], "crowded": 1 - scores["alone"]}
'''

TEST = """import json

import cv2

from patchprint.cli import main
from support.known_images import texture


def test_pixels_stand_alone_more_often_than_nothing(tmp_path, capsys):
    cv2.imwrite(str(tmp_path / "a.png"), texture(120, 160))
    command = ["eval", "yours", "--data", str(tmp_path / "a.png"), "--cache", str(tmp_path / "cache"), "--apart", "0.05"]
    assert main([*command, "--model", "pixels", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert 0 < result["scores"]["alone"] <= 1
    assert result["settings"] == {"keypoints": 50, "apart": 0.05}
    assert main([*command, "--model", "pixels", "--model", "sift"]) == 0
    assert "crowded" in capsys.readouterr().out
"""


def test_a_benchmark_is_two_files(tmp_path: Path) -> None:
    touched = trial(
        tmp_path,
        files={"src/patchprint/benchmarks/yours.py": BENCHMARK, "tests/benchmarks/test_yours.py": TEST},
        run=["tests/benchmarks/test_yours.py", "tests/benchmarks/test_benchmark.py", "tests/cli/test_eval.py"],
        keyword="yours or key",
    )
    assert touched == ["src/patchprint/benchmarks/yours.py", "tests/benchmarks/test_yours.py"]
