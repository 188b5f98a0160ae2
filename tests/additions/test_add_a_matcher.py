"""A matcher is two files, itself and its test: a throw-away one is added to a copy, and every command has it at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from additions.trial import trial

pytestmark = pytest.mark.slow

MATCHER = '''"""The best few of the nearest neighbors, with a score."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from patchprint.ops.distances import nearest
from patchprint.common.types import Features, Matches


@dataclass(frozen=True, kw_only=True)
class Best:
    """At most ``count`` matches, those of the least distance."""

    count: int = 50

    def __call__(self, a: Features, b: Features, device: torch.device) -> Matches:
        distance, index = (found[:, 0] for found in nearest(a.descriptors.to(device), b.descriptors.to(device), 1))
        kept = distance.argsort()[: self.count].sort().values if len(b) else torch.zeros(0, dtype=torch.int64)
        return Matches(torch.stack([kept, index[kept]], 1), distance[kept], score=1 / (1 + distance[kept]))


def best(*, count: int = 50) -> Best:
    """The nearest neighbors of the least distance."""
    return Best(count=count)


MATCHERS: dict[str, Callable[..., Best]] = {"yours": best}
'''

TEST = """import json

import cv2
import pytest

import patchprint
from patchprint.cli import main
from patchprint.storage.match_folder import read_matches
from support.known_images import texture


def test_commands_and_python_know_it(tmp_path, capsys):
    paths = [str(tmp_path / "a.png"), str(tmp_path / "b.png")]
    for path in paths:
        cv2.imwrite(path, texture(120, 160))
    a, b = (patchprint.extract(path, "pixels", max_keypoints=60) for path in paths)
    assert len(patchprint.match(a, b, "yours", count=20)) == 20
    settings = patchprint.MatchSettings(matcher="yours", geometry="none")
    assert patchprint.match_and_verify(a, b, settings).score is not None
    command = ["match", *paths, "--matcher", "yours", "--model", "pixels", "--out", str(tmp_path / "m.npz"), "--json"]
    assert main(command) == 0
    assert len(json.loads(capsys.readouterr().out)["score"]) == 50
    assert read_matches(tmp_path / "m.npz")["a.png", "b.png"].score.shape == (50,)
    with pytest.raises(ValueError, match="a ratio belongs to the matchers ratio, mutual.ratio, fginn, not to yours"):
        patchprint.MatchSettings(matcher="yours", ratio=0.8)
    assert main(["match", "--help"]) == 0
    assert "yours}" in capsys.readouterr().out
"""


def test_a_matcher_is_two_files(tmp_path: Path) -> None:
    """The tests that run over all matchers find it; here is one of its own."""
    touched = trial(
        tmp_path,
        files={"src/patchprint/matching/matchers/yours.py": MATCHER, "tests/matching/test_yours.py": TEST},
        run=["tests/matching/test_yours.py", "tests/matching/test_nearest_neighbors.py"],
        keyword="yours or tiny",
    )
    assert touched == ["src/patchprint/matching/matchers/yours.py", "tests/matching/test_yours.py"]
