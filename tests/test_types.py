"""The values that travel between the parts."""

from __future__ import annotations

import math

import pytest
import torch

from patchprint.types import DescriptorBatch, Features, Keypoints, ModelId, wrap_angle


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


def test_upright_drops_the_angle_only() -> None:
    upright = three().upright()
    assert upright.angle.tolist() == [0.0, 0.0, 0.0]
    assert torch.equal(upright.xy, three().xy)


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


def test_bits_are_told_by_their_type() -> None:
    assert Features(three(), torch.zeros(3, 32, dtype=torch.uint8), (9, 9), None, ModelId("x")).is_binary
    assert not Features(three(), torch.zeros(3, 32), (9, 9), None, ModelId("x")).is_binary


def test_wrap_angle() -> None:
    assert torch.allclose(
        wrap_angle(torch.tensor([3 * math.pi, -math.pi / 2, 7.0])),
        torch.tensor([-math.pi, -math.pi / 2, 7 - 2 * math.pi]),
        atol=1e-5,
    )
