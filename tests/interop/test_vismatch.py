"""vismatch's own base class runs our matcher."""

from pathlib import Path

import cv2
import numpy as np
import pytest
import torch

import patchprint
from support.known_images import texture, turned

pytest.importorskip("vismatch", reason="vismatch is not installed (it needs a kornia of its own)", exc_type=ImportError)
from patchprint.interop.vismatch import PatchprintMatcher


@pytest.mark.parametrize("matcher", ["mutual+ratio", "graph"])
def test_matches_are_ours_and_the_homography_is_found(matcher: str, tmp_path: Path) -> None:
    image = texture(200, 240, seed=3)
    other, matrix = turned(image, 20)
    for name, pixels in (("a.png", image), ("b.png", other)):
        cv2.imwrite(str(tmp_path / name), pixels)
    network = PatchprintMatcher(max_num_keypoints=300, matcher=matcher)
    found = network(tmp_path / "a.png", tmp_path / "b.png")
    a, b = (patchprint.extract(pixels, "patchprint", max_keypoints=300) for pixels in (image, other))
    expected = patchprint.match(a, b, matcher)
    inside = (expected.points(a, b)[1] >= 0).all(1)  # vismatch drops the others
    assert np.array_equal(found["matched_kpts0"], expected.points(a, b)[0][inside].numpy()) and len(expected) > 50
    assert np.array_equal(found["all_desc0"], a.descriptors.numpy())
    assert (found["matched_confidences"] is None) == (matcher != "graph")
    corners = np.array([[[0.0, 0.0]], [[239.0, 0.0]], [[239.0, 199.0]], [[0.0, 199.0]]])
    truth = cv2.transform(corners, matrix)
    assert np.abs(cv2.perspectiveTransform(corners, found["H"]) - truth).max() < 1.5
    assert found["num_inliers"] > 0.8 * len(expected)
    assert network.extract(tmp_path / "a.png")["all_kpts0"].shape == (len(a), 2)


def test_images_without_keypoints_have_no_matches() -> None:
    found = PatchprintMatcher(model="patchprint.tiny")(torch.full((3, 60, 60), 0.4), torch.full((3, 80, 60), 0.4))
    assert found["num_inliers"] == 0 and found["matched_kpts0"].shape == (0, 2)
