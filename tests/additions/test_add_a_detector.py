"""A detector is two files, itself and its test: throw-away ones are added to a copy, and every command has them at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from additions.trial import trial

pytestmark = pytest.mark.slow

BLOBS = '''"""Blobs of a higher contrast."""

from __future__ import annotations

import numpy as np

from patchprint.detectors import Detector
from patchprint.detectors.dog import find_dog
from patchprint.common.types import Keypoints


def find(
    image: np.ndarray, max_keypoints: int | None = None, mask: np.ndarray | None = None, contrast: float = 0.03
) -> Keypoints:
    return find_dog(image, max_keypoints, mask, contrast)


detector = Detector("blobs of a higher contrast", "blobs", find, {"strict": {"contrast": 0.05}})
'''

POINTS = '''"""A detector that knows neither scale nor angle, as learned ones often do."""

from __future__ import annotations

import cv2
import numpy as np
import torch

from patchprint.detectors import Detector, keep_inside
from patchprint.common.types import Keypoints


def find(image: np.ndarray, max_keypoints: int | None = None, mask: np.ndarray | None = None) -> Keypoints:
    found = cv2.goodFeaturesToTrack(image, max_keypoints or 1000, 0.01, 5)
    xy = torch.from_numpy(np.zeros((0, 2), np.float32) if found is None else found.reshape(-1, 2))
    score = torch.arange(len(xy), 0, -1).float()
    return keep_inside(Keypoints(xy, torch.full((len(xy),), 3.0), torch.zeros(len(xy)), score), mask)


detector = Detector("corners without scale or angle", "other", find)
'''

TEST = """import json

import cv2

import patchprint
from patchprint.cli import main
from support.known_images import texture


def test_commands_and_python_know_it(tmp_path, capsys):
    cv2.imwrite(str(tmp_path / "a.png"), texture(120, 160))
    for name in ("yours", "yours-strict", "points"):
        found = patchprint.extract(tmp_path / "a.png", "pixels", detector=name, max_keypoints=40)
        assert 0 < len(found) <= 40
        assert main(["match", *2 * [str(tmp_path / "a.png")], "--detector", name, "--model", "pixels", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["matches"] > 0
    assert main(["match", "a.png", "b.png", "--detector", "yuors"]) == 2
"""


def test_a_detector_is_two_files(tmp_path: Path) -> None:
    """Two detectors and one test here: one with scale and angle, which the tests of conventions find, and one without."""
    touched = trial(
        tmp_path,
        files={
            "src/patchprint/detectors/yours.py": BLOBS,
            "src/patchprint/detectors/points.py": POINTS,
            "tests/detectors/test_yours.py": TEST,
        },
        run=["tests/detectors"],
        keyword="yours or mask",
    )
    assert touched == [
        "src/patchprint/detectors/points.py",
        "src/patchprint/detectors/yours.py",
        "tests/detectors/test_yours.py",
    ]
