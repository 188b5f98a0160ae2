"""Errors of matches by the matches around them: exact ones have none, one that was moved has its own, and odd input."""

import math

import pytest
import torch
from torch import Tensor

from patchprint.matching.local_agreement import FEWEST, PER_PIXEL, local_errors
from support.graph_weights import framed


def matched(count: int = 80, tilt: float = 0.0) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Places that an affine map joins, or a homography with a ``tilt``; scales, and probabilities."""
    a = framed(count).keypoints.xy
    b = a @ torch.tensor([[1.2, 0.5], [-0.4, 0.9]]) + 30
    b = b / (1 + tilt * a[:, :1] / 400)
    return a, b, torch.full((count, 2), 2.0), torch.full((count,), 0.9)


def plain_error(a: Tensor, b: Tensor, row: int) -> float:
    """One way, without weights: the 16 nearest, least squares; what is left where all of them fit."""
    near = (a - a[row]).norm(dim=1).argsort()[1:17]
    x = torch.cat([(a[near] - a[row]), torch.ones(16, 1)], 1).double()
    fit = torch.linalg.lstsq(x, (b[near] - b[row]).double()).solution
    return float(fit[2].norm())


def test_no_error_under_an_affine_map() -> None:
    a, b, scale, score = matched()
    assert local_errors(a, b, scale, score).max() < 0.2
    assert max(plain_error(a, b, row) for row in range(len(a))) < 1e-3
    slanted = local_errors(*matched(400, tilt=0.4))
    assert slanted.median() < 0.2 and slanted.max() < 2


@pytest.mark.parametrize("off", [4.0, 12.0, 100.0])
def test_a_match_that_was_moved_and_no_other(off: float) -> None:
    a, b, scale, score = matched(200)
    inside = int((a - a.mean(0)).norm(dim=1).argmin())
    moved = b.clone()
    moved[inside] += torch.tensor([off * 0.6, off * 0.8])
    errors = local_errors(a, moved, scale, score)
    others = torch.arange(len(a)) != inside
    spread = (b[(a - a[inside]).norm(dim=1).argsort()[1:17]] - b[inside]).norm(dim=1).max()
    assert (
        off / (1 + PER_PIXEL * 1.1 * float(spread)) / 1.5 < errors[inside] < 1.01 * off and errors[others].max() < 0.5
    )


def test_a_third_of_wrong_matches() -> None:
    """Wrong ones are told, and do not spoil the others."""
    a, b, scale, _ = matched(300)
    generator = torch.Generator().manual_seed(1)
    wrong = torch.rand(300, generator=generator) < 0.33
    mixed = torch.where(wrong[:, None], 400 * torch.rand(300, 2, generator=generator), b)
    errors = local_errors(a, mixed, scale, torch.where(wrong, 0.3, 0.9))
    assert (errors[~wrong] < 2).float().mean() > 0.97 and (errors[wrong] > 2).float().mean() > 0.95


def test_order_and_direction_do_not_matter() -> None:
    a, b, scale, score = matched(120)
    b = b + torch.randn(120, 2, generator=torch.Generator().manual_seed(2))
    errors, order = local_errors(a, b, scale, score), torch.randperm(120, generator=torch.Generator().manual_seed(3))
    torch.testing.assert_close(
        local_errors(a[order], b[order], scale[order], score[order]), errors[order], atol=1e-4, rtol=1e-4
    )
    torch.testing.assert_close(local_errors(b, a, scale.flip(1), score), errors)


@pytest.mark.parametrize("turn", [1.0, math.pi / 2, math.pi])
def test_turned(turn: float) -> None:
    a, b, scale, score = matched(120)
    b = b + torch.randn(120, 2, generator=torch.Generator().manual_seed(2))
    cos, sin = math.cos(turn), math.sin(turn)
    turned = b @ torch.tensor([[cos, sin], [-sin, cos]]) + 100
    torch.testing.assert_close(
        local_errors(a, turned, scale, score), local_errors(a, b, scale, score), atol=1e-3, rtol=1e-3
    )


@pytest.mark.parametrize("count", [0, 1, 2, FEWEST - 1])
def test_too_few_to_judge(count: int) -> None:
    assert not local_errors(*(each[:count] for each in matched())).any()


def test_all_in_one_place_or_on_a_line() -> None:
    a, b, scale, score = matched(40)
    for given in (torch.zeros(40, 2), torch.stack([torch.arange(40.0), torch.zeros(40)], 1)):
        assert local_errors(given, given, scale, score).isfinite().all()
        assert (
            local_errors(given, b, scale, score).isfinite().all()
            and local_errors(a, given, scale, score).isfinite().all()
        )
    line = torch.stack([torch.arange(40.0), torch.zeros(40)], 1)
    assert local_errors(line, line + 5, scale, score).max() < 0.1
