"""Keypoints that were found beside their places are moved to where the pixels agree."""

import dataclasses
import math

import numpy as np
import pytest
import torch

cv2 = pytest.importorskip("cv2")
pytest.importorskip("skimage.data")

from patchprint.common.errors import UserError  # noqa: E402
from patchprint.common.types import Features, Keypoints, ModelId  # noqa: E402
from patchprint.data.builders import bundled_images  # noqa: E402
from patchprint.detectors import detect  # noqa: E402
from patchprint.matching import MatchSettings, match_and_verify  # noqa: E402
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


def features_of(image: np.ndarray, keypoints: Keypoints) -> Features:
    generator = torch.Generator().manual_seed(len(keypoints))
    descriptors = torch.nn.functional.normalize(torch.randn(len(keypoints), 8, generator=generator))
    return Features(keypoints, descriptors, image.shape[::-1], None, ModelId("made up"))


def test_refined_matches_give_a_better_geometry() -> None:
    images, first, second = warped_pair()
    generator = torch.Generator().manual_seed(0)
    error = torch.randn(len(second), 2, generator=generator)
    wrong = Keypoints(second.xy + error, second.scale, second.angle)
    a, b = features_of(images[0], first), features_of(images[1], wrong)
    b = dataclasses.replace(b, descriptors=a.descriptors)
    settings = MatchSettings(matcher="mutual", geometry="homography")
    plain, refined = (
        match_and_verify(a, b, dataclasses.replace(settings, refine=refine), images=images) for refine in (False, True)
    )
    assert plain.refined is None and refined.refined is not None
    assert torch.equal(plain.indices, refined.indices)
    points_a, points_b = refined.points(a, b, inliers_only=True)
    assert torch.equal(points_a, first.xy[refined.indices[refined.inliers, 0]])
    assert torch.equal(points_b, refined.refined[refined.inliers])
    off = [(each.points(a, b)[1] - second.xy[each.indices[:, 1]]).norm(dim=1).median() for each in (plain, refined)]
    assert off[1] < 0.25 * off[0]
    assert refined.num_inliers >= plain.num_inliers


def test_pixels_of_other_images_are_refused() -> None:
    images, first, second = warped_pair()
    a, b = features_of(images[0], first), features_of(images[1], second)
    settings = MatchSettings(matcher="mutual", refine=True)
    with pytest.raises(UserError, match="pixels of both images"):
        match_and_verify(a, b, settings)
    with pytest.raises(UserError, match="features are of"):
        match_and_verify(a, b, settings, images=[images[0], images[1][:100]])


def test_no_matches_need_no_refinement() -> None:
    images, first, second = warped_pair()
    a, b = features_of(images[0], first[:0]), features_of(images[1], second)
    found = match_and_verify(a, b, MatchSettings(matcher="mutual", refine=True), images=images)
    assert len(found) == 0 and len(found.points(a, b)[1]) == 0
