"""Keypoints that were found beside their places are moved to where the pixels agree."""

import math

import numpy as np
import pytest
import torch

cv2 = pytest.importorskip("cv2")
pytest.importorskip("skimage.data")

from patchprint.common.types import Keypoints  # noqa: E402
from patchprint.data.builders import bundled_images  # noqa: E402
from patchprint.detectors import detect  # noqa: E402
from patchprint.matching.keypoint_refinement import RefineSettings, refine  # noqa: E402
from patchprint.ops.geometry import transport  # noqa: E402

TURN, ZOOM = 0.3, 1.2


def warped_pair() -> tuple[list[np.ndarray], Keypoints, Keypoints]:
    """An image and a turned, zoomed, relit copy; keypoints of the first, and their true counterparts in the second."""
    image = bundled_images.image("camera")
    cosine, sine = ZOOM * math.cos(TURN), ZOOM * math.sin(TURN)
    homography = np.array([[cosine, -sine, 60.0], [sine, cosine, -80.0], [2e-5, 1e-5, 1.0]])
    copy = cv2.warpPerspective(image, homography, (image.shape[1], image.shape[0]), borderMode=cv2.BORDER_REFLECT_101)
    keypoints = detect(image, "dog-published", max_keypoints=400, spread=False)
    moved = transport(keypoints, homography)
    inside = ((moved.xy > 40) & (moved.xy < torch.tensor([472.0, 472.0]))).all(1)
    inside &= ((keypoints.xy > 40) & (keypoints.xy < 472)).all(1)
    lit = (copy * 0.7 + 30).astype(np.uint8)
    return [image, lit], keypoints[inside], moved[inside]


def test_views_move_to_their_true_places() -> None:
    images, first, second = warped_pair()
    generator = torch.Generator().manual_seed(0)
    error = torch.randn(len(second), 2, generator=generator) * 0.2 * second.scale[:, None].clamp(max=2.0)
    wrong = Keypoints(second.xy + error, second.scale * 1.1, second.angle + 0.1)
    both = Keypoints.concatenate([first, wrong])
    image = torch.arange(2).repeat_interleave(len(first))
    reference = torch.arange(len(first)).repeat(2)
    xy, aligned = refine(images.__getitem__, image, both, reference)
    n = len(first)
    assert n > 100
    assert torch.equal(xy[:n], first.xy) and not aligned[:n].any(), "a reference stays"
    assert aligned[n:].float().mean() > 0.8
    before, after = ((each - second.xy).norm(dim=1)[aligned[n:]] for each in (wrong.xy, xy[n:]))
    assert float(after.median()) < 0.25 * float(before.median())


def test_a_view_of_something_else_keeps_its_place() -> None:
    images, first, second = warped_pair()
    n = len(first)
    both = Keypoints.concatenate([first, second[torch.arange(n).roll(n // 2)]])
    reference = torch.arange(n).repeat(2)
    xy, aligned = refine(
        images.__getitem__, torch.arange(2).repeat_interleave(n), both, reference, RefineSettings(correlation=0.95)
    )
    assert aligned.float().mean() < 0.05
    assert torch.equal(xy[~aligned], both.xy[~aligned])
