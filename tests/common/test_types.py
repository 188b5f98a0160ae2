"""The values that travel between the parts."""

import dataclasses
import math

import numpy as np
import pytest
import torch

from patchprint.common.types import Features, Keypoints, Matches, ModelId
from patchprint.losses import DescriptorBatch
from patchprint.ops.geometry import wrap_angle


def three() -> Keypoints:
    return Keypoints(
        xy=torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]),
        scale=torch.tensor([1.0, 2.0, 3.0]),
        angle=torch.tensor([0.0, math.pi / 2, -1.0]),
        score=torch.tensor([0.3, 0.2, 0.1]),
    )


def test_frame_turns_the_x_axis_towards_the_y_axis() -> None:
    frame = three().frames()[1]
    assert torch.allclose(frame @ torch.tensor([1.0, 0.0]), torch.tensor([0.0, 2.0]), atol=1e-6)


def test_affine_round_trip_keeps_scale_and_angle() -> None:
    keypoints = three()
    again = Keypoints.from_affine(keypoints.xy, keypoints.frames())
    assert torch.allclose(again.scale, keypoints.scale)
    assert torch.allclose(again.angle, keypoints.angle)
    assert torch.equal(again.frames(), keypoints.frames())


@pytest.mark.parametrize("index", [slice(1, 3), torch.tensor([1, 2]), torch.tensor([False, True, True])])
def test_selection_keeps_rows_together(index: slice | torch.Tensor) -> None:
    chosen = three()[index]
    assert chosen.scale.tolist() == [2.0, 3.0]
    assert chosen.score is not None and chosen.score.tolist() == pytest.approx([0.2, 0.1])


def test_matched_coordinates_in_one_call() -> None:
    a, b = three(), three()[torch.tensor([2, 1, 0])]
    matches = Matches(torch.tensor([[0, 1], [2, 0]]), torch.tensor([0.1, 0.2]))
    features = Features(a, torch.zeros(3, 8), (10, 10), None, ModelId("x"))
    for first in (a, features):
        in_a, in_b = matches.points(first, b)
        assert in_a.tolist() == [[1, 2], [5, 6]] and in_b.tolist() == [[3, 4], [5, 6]]
    with pytest.raises(ValueError, match="without inliers"):
        matches.points(a, b, inliers_only=True)
    verified = dataclasses.replace(matches, inliers=torch.tensor([False, True]))
    in_a, in_b = verified.points(a, b, inliers_only=True)
    assert in_a.tolist() == in_b.tolist() == [[5, 6]]
    with pytest.raises(ValueError, match=r"not of Keypoints\(2.*the features that were matched"):
        matches.points(a[:2], b)


def test_wrong_shapes_are_named() -> None:
    with pytest.raises(ValueError, match="scale has shape"):
        Keypoints(torch.zeros(3, 2), torch.zeros(2), torch.zeros(3))
    with pytest.raises(ValueError, match=r"\(3, D\)"):
        Features(three(), torch.zeros(2, 8), (10, 10), None, ModelId("x"))
    with pytest.raises(ValueError, match="points, views"):
        DescriptorBatch(torch.zeros(4, 8), torch.zeros(4, 8))


def test_progress_and_step_may_be_numbers() -> None:
    batch = DescriptorBatch(torch.zeros(4, 2, 8), torch.zeros(4, 2, 8), progress=1, step=3)
    assert isinstance(batch.progress, torch.Tensor) and batch.progress.dtype == torch.float32
    assert isinstance(batch.step, torch.Tensor) and batch.step.dtype == torch.int64
    assert (batch.progress.item(), batch.step.item()) == (1.0, 3)
    step = torch.tensor(5)
    assert DescriptorBatch(batch.desc, batch.raw, step=step).step is step


def test_wrap_angle() -> None:
    assert torch.allclose(
        wrap_angle(torch.tensor([3 * math.pi, -math.pi / 2, 7.0])),
        torch.tensor([-math.pi, -math.pi / 2, 7 - 2 * math.pi]),
        atol=1e-5,
    )


SHAPES = torch.tensor([[[2.0, 1.0], [0.0, 3.0]]] * 3)


def same(a: Keypoints, b: Keypoints) -> bool:
    one, other = a.to_arrays(), b.to_arrays()
    return one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)


def test_concatenated_parts_keep_their_order() -> None:
    whole = three()
    assert same(Keypoints.concatenate([whole[:1], Keypoints.empty(), whole[1:]]), whole)
    assert len(Keypoints.concatenate([])) == len(Keypoints.concatenate([Keypoints.empty()])) == 0


def test_concatenation_keeps_scores_only_where_all_have_them_and_shapes_where_any_has() -> None:
    plain = dataclasses.replace(three(), score=None)
    shaped = Keypoints.from_affine(three().xy, SHAPES)
    joined = Keypoints.concatenate([three(), plain])
    assert joined.score is None and joined.affine is None and len(joined) == 6
    joined = Keypoints.concatenate([plain, shaped])
    assert joined.affine is not None
    assert torch.equal(joined.affine, torch.cat([plain.frames(), SHAPES]))


def test_one_keypoint_for_each_place_is_the_strongest_in_the_old_order() -> None:
    xy = torch.tensor([[5.0, 5.0], [1.0, 1.0], [5.0, 5.0], [5.0, 5.0]])
    angle, score = torch.tensor([0.0, 1.0, 2.0, 3.0]), torch.tensor([0.2, 0.1, 0.9, 0.5])
    twins = Keypoints(xy, torch.tensor([2.0, 2.0, 2.0, 4.0]), angle, score)
    assert twins.unique_places().angle.tolist() == [1.0, 2.0, 3.0], "another scale is another place"
    assert dataclasses.replace(twins, score=None).unique_places().angle.tolist() == [0.0, 1.0, 3.0], "else the first"
    assert len(Keypoints.empty().unique_places()) == 0


def test_with_a_cell_places_are_squares_whatever_the_scale() -> None:
    xy = torch.tensor([[10.0, 10.0], [10.4, 9.8], [12.0, 10.0]])
    close = Keypoints(xy, torch.tensor([1.0, 5.0, 1.0]), torch.zeros(3), torch.tensor([0.1, 0.2, 0.3]))
    assert close.unique_places(cell=1.0).scale.tolist() == [5.0, 1.0]
    assert len(close.unique_places(cell=100.0)) == 1
    assert len(close.unique_places()) == 3


def test_moved_keypoints_cover_the_same_pixels_of_the_larger_image() -> None:
    for keypoints in (three(), Keypoints.from_affine(three().xy, SHAPES)):
        moved = keypoints.rescale(2.0, (10.0, -3.0))
        assert torch.equal(moved.xy, keypoints.xy * 2 + torch.tensor([10.0, -3.0]))
        assert torch.equal(moved.angle, keypoints.angle)
        torch.testing.assert_close(moved.scale, 2 * keypoints.scale)
        torch.testing.assert_close(moved.frames(), 2 * keypoints.frames())


def test_arrays_hold_what_is_given_and_come_back() -> None:
    for keypoints in (three(), Keypoints.from_affine(three().xy, SHAPES), Keypoints.empty()):
        arrays = keypoints.to_arrays()
        assert all(array.dtype == np.float32 for array in arrays.values())
        assert same(Keypoints.from_arrays({**arrays, "descriptors": np.zeros(3)}), keypoints)
    assert set(three().to_arrays()) == {"xy", "scale", "angle", "score"}


def test_keypoints_need_a_scale_and_no_angle() -> None:
    points = Keypoints([[60, 40], [10, 20]], 3.0)
    assert points.scale.tolist() == [3.0, 3.0] and points.angle.tolist() == [0.0, 0.0]
    assert Keypoints(np.array([[60.0, 40.0]]), [2], 0.5).angle.tolist() == [0.5]
    with pytest.raises(ValueError, match="keypoints need a scale"):
        Keypoints([[60, 40]])
    with pytest.raises(ValueError, match=r"Keypoints\.angle has shape \(1,\), expected \(2,\)"):
        Keypoints([[60, 40], [10, 20]], 3.0, [0.5])
