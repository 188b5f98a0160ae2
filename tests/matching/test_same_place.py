"""What speaks for one place, and what is said about it."""

from __future__ import annotations

import dataclasses
import json
import math

import numpy as np
import pytest
import torch

from patchprint.common.types import Features, Keypoints, Matches, ModelId, Verdict
from patchprint.matching.two_view_geometry import (
    FITTED,
    THRESHOLD,
    Evidence,
    Kind,
    estimate_geometry,
    exceeds_chance,
    judge,
    verify,
    weigh,
)
from support.two_cameras import by_chance, seen_by_two_cameras


@pytest.mark.parametrize("kind", ["auto", "homography", "fundamental"])
@pytest.mark.parametrize("count", [0, 3, 12, 100, 1000])
def test_chance_gives_no_model(kind: Kind, count: int) -> None:
    a, b, matches = by_chance(count, seed=count)
    found = verify(a, b, matches, kind)
    assert found.verdict is not None and found.verdict.answer == "unsure" and found.verdict.probability < 0.6
    assert found.model is None and found.num_inliers == 0
    assert len(found) == count


@pytest.mark.parametrize("kind", ["auto", "homography", "fundamental"])
def test_one_place_gives_a_model(kind: Kind) -> None:
    a, b, matches = seen_by_two_cameras("flat", 100, 0.5, noise=0.5, seed=0)
    found = verify(a, b, matches, kind)
    assert found.verdict is not None and found.verdict.answer == "same" and found.verdict.probability > 0.99
    assert found.model is not None and (found.num_inliers or 0) > 40


def test_the_estimate_itself_asks_no_verdict() -> None:
    a, b, matches = by_chance(100, seed=0)
    found = estimate_geometry(a, b, matches, "homography")
    assert found.model is not None and (found.num_inliers or 0) >= 4
    assert found.verdict is None


def _seen(turns: np.ndarray, scale: float = 1.0) -> Evidence:
    """Evidence of 60 right matches of a flat scene, whose keypoints in the second image are turned and zoomed."""
    a, b, matches = seen_by_two_cameras("flat", 60, 0.0, noise=0.3, seed=1)
    rng = np.random.default_rng(0)
    angles = torch.from_numpy(rng.uniform(-math.pi, math.pi, 60))
    a = _with_frames(a, angles, torch.ones(60))
    b = _with_frames(b, angles + torch.from_numpy(turns), torch.full((60,), scale))
    return weigh(a, b, estimate_geometry(a, b, matches, "homography"), THRESHOLD["homography"])


def _with_frames(features: Features, angle: torch.Tensor, scale: torch.Tensor) -> Features:
    keypoints = dataclasses.replace(features.keypoints, angle=angle.float(), scale=scale.float())
    return dataclasses.replace(features, keypoints=keypoints)


def test_inliers_that_turn_alike_count_and_others_do_not() -> None:
    alike = _seen(np.full(60, 3.0), scale=5.0)  # also across the end of the circle, and at any zoom
    other = _seen(np.where(np.arange(60) < 40, 3.0, 0.0))
    assert alike.agreeing >= 57
    assert 35 <= other.agreeing <= 40
    assert alike.by_frame == pytest.approx(1 / 6, abs=0.05)
    assert alike.accidents < other.accidents


def test_keypoints_without_angles_say_nothing_by_them() -> None:
    a, b, matches = seen_by_two_cameras("flat", 60, 0.0, noise=0.3, seed=1)
    evidence = weigh(a, b, estimate_geometry(a, b, matches, "homography"), 3.0)
    assert evidence.by_frame == 1.0
    assert evidence.agreeing >= 57


def test_a_place_counts_once() -> None:
    a, b, matches = seen_by_two_cameras("flat", 60, 0.0, noise=0.3, seed=1)
    found = estimate_geometry(a, b, matches, "homography")
    assert found.inliers is not None
    twice = Matches(
        found.indices.repeat(2, 1), found.distance.repeat(2), found.inliers.repeat(2), found.model, "homography"
    )
    assert weigh(a, b, twice, 3.0) == weigh(a, b, found, 3.0)


def test_accidents_are_the_number_of_false_alarms() -> None:
    evidence = Evidence("homography", matches=10, agreeing=6, by_position=1e-3, by_frame=0.1)
    expected = (10 - 4) * math.comb(10, 6) * math.comb(6, 4) * 1e-3 ** (6 - 4) * 0.1 ** (6 - 1)
    assert evidence.accidents == pytest.approx(math.log10(expected))
    four = dataclasses.replace(evidence, matches=4, agreeing=4)  # a homography can be made of any four
    assert four.accidents == math.inf
    assert judge(four) == judge(Evidence(None)) == judge(Evidence("homography", matches=10))
    assert judge(four).answer == "unsure" and not exceeds_chance(judge(four))


def test_more_evidence_is_more_probable() -> None:
    probabilities = [
        judge(Evidence("fundamental", 200, agreeing, 0.005, 0.1)).probability for agreeing in (0, 7, 12, 20, 100, 200)
    ]
    assert probabilities == sorted(probabilities)
    assert probabilities[0] < 0.05 and probabilities[-1] > 0.99


def test_the_fit_says_where_it_comes_from() -> None:
    fitted = json.loads(FITTED.read_text())
    assert set(fitted["weights"]) == set(Evidence("homography").numbers())
    assert fitted["without_evidence"] < fitted["different_below"] < fitted["same_from"]
    assert {"command", "version", "machine", "date"} <= set(fitted["made"]["run"])


def test_matches_that_chose_each_other_count_once_in_a_small_part_of_the_image() -> None:
    """An ornament that two places share is no evidence, however many of its keypoints a learned matcher matches."""
    for size, answer in ((12, "unsure"), (380, "same")):
        generator = torch.Generator().manual_seed(0)
        xy = torch.rand(40, 2, generator=generator) * size
        rest = torch.rand(300, 2, generator=generator) * 400
        scale, angle = torch.full((340,), 2.0), 6.28 * torch.rand(340, generator=generator)
        keypoints = (Keypoints(torch.cat([each, rest]), scale, angle) for each in (xy, xy + 3))
        a, b = (Features(each, torch.zeros(340, 8), (400, 400), None, ModelId("m")) for each in keypoints)
        indices = torch.arange(40)[:, None].expand(-1, 2)
        nearest = verify(a, b, Matches(indices, torch.zeros(40)))
        assert nearest.verdict is not None and nearest.verdict.answer == "same"
        learned = verify(a, b, Matches(indices, torch.zeros(40), score=torch.ones(40)))
        assert learned.verdict is not None and learned.verdict.answer == answer


def test_a_verdict_is_a_sentence() -> None:
    """First hour, point 4: "not the same place, probability 0.032" read as 3 % sure of the answer."""
    assert str(Verdict("same", 0.976)) == "same place (probability 0.98)"
    assert str(Verdict("same", 0.9951)) == "same place (probability above 0.99)"
    said = str(Verdict("unsure", 0.032))
    assert said.startswith("cannot tell whether they show the same place (probability 0.03 by the matches found); try ")
    assert all(
        flag in said for flag in ("--matcher mutual", "--detector hessian-affine", "--max-keypoints", "--max-size")
    )
    after = Verdict("unsure", 0.032).sentence("--matcher mutual", "--detector dog")
    assert after == said.replace("--matcher mutual, ", ""), "what was tried is no advice"


def test_a_geometry_is_kept_by_its_probability_whatever_the_answer() -> None:
    kept = [exceeds_chance(Verdict("unsure", probability)) for probability in (0.032, 0.59, 0.6, 0.89)]
    assert kept == [False, False, True, True]
