"""Matching against a plain NumPy search, by every matcher, for vectors and bits; settings that are refused."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

import patchprint
from patchprint.common.types import Features, Matches
from patchprint.matching import MATCHERS, MatchSettings, match, match_and_verify, verify
from support.known_images import texture, turned
from support.made_features import all_distances, descriptors, features, packed


@pytest.mark.parametrize("make", [descriptors, packed])
def test_matchers(make: object) -> None:
    a, b = make(60, seed=1), make(80, seed=2)  # type: ignore[operator]
    table = all_distances(a, b)
    forward, backward = table.argmin(1), table.argmin(0)
    order = np.sort(table, axis=1)
    mutual = {(i, j) for i, j in enumerate(forward) if backward[j] == i}
    passes = {(i, j) for i, j in enumerate(forward) if order[i, 0] < 0.9 * order[i, 1]}

    def found(**options: object) -> set[tuple[int, int]]:
        rows = match(features(a), features(b), **options).indices.tolist()  # type: ignore[arg-type]
        return {(i, j) for i, j in rows}

    if make is descriptors:  # bits tie, and any of equals may be the nearest
        assert found(matcher="mutual") == mutual
        assert found(matcher="ratio", ratio=0.9) == passes
        assert found(ratio=0.9) == mutual & passes
        assert len(found(matcher="nearest")) == 60
    assert found(ratio=0.9) <= found(matcher="ratio", ratio=0.9)
    limit = float(np.median(order[:, 0]))
    assert all(table[i, j] <= limit + 1e-5 for i, j in found(matcher="mutual", max_distance=limit))


def test_without_options_the_ratio_of_the_features_decides() -> None:
    a, b = features(descriptors(60, seed=1)), features(descriptors(80, seed=2))
    for ratio in (0.85, 0.95):
        calibrated = dataclasses.replace(a, ratio=ratio)
        assert torch.equal(match(calibrated, b).indices, match(a, b, ratio=ratio).indices)
        assert torch.equal(match(calibrated, b, ratio=0.9).indices, match(a, b, ratio=0.9).indices)
    assert torch.equal(match(a, b).indices, match(a, b, ratio=0.8).indices), "Lowe's, where nothing was calibrated"


@pytest.mark.parametrize("bits", [False, True])
def test_fginn_ignores_second_neighbors_at_the_same_place(bits: bool) -> None:
    base = packed(20) if bits else descriptors(20)
    twice = torch.cat([base, base])  # every structure detected twice
    xy = torch.rand(20, 2, generator=torch.Generator().manual_seed(0)) * 1000
    twin = features(twice, torch.cat([xy, xy + 3]))
    query = base.clone()
    query[:, 0] = query[:, 0] ^ 1 if bits else query[:, 0] + 0.05
    a = features(query, xy)
    assert len(match(a, twin, "mutual+ratio", ratio=0.8)) == 0
    assert len(match(a, twin, "fginn", ratio=0.8, radius=10.0)) == 20
    assert len(match(a, twin, "fginn", ratio=0.8, radius=1.0)) == 0


def test_what_cannot_be_matched_is_refused() -> None:
    with pytest.raises(ValueError, match="two different models"):
        match(features(descriptors(3), model="a"), features(descriptors(3), model="b"))
    with pytest.raises(ValueError, match="cannot compare"):
        match(features(descriptors(3, 8)), features(descriptors(3, 16)))
    with pytest.raises(ValueError, match="ratio must lie"):
        match(features(descriptors(3)), features(descriptors(3)), ratio=1.5)
    with pytest.raises(ValueError, match="not to mutual"):
        match(features(descriptors(3)), features(descriptors(3)), "mutual", ratio=0.8)
    with pytest.raises(ValueError, match="there is no matcher 'best'; did you mean nearest"):
        match(features(descriptors(3)), features(descriptors(3)), "best")
    with pytest.raises(ValueError, match="has no option 'radios'; did you mean radius"):
        match(features(descriptors(3)), features(descriptors(3)), "fginn", radios=3)


@pytest.mark.parametrize(("n", "m"), [(0, 5), (5, 0), (0, 0), (1, 1)])
@pytest.mark.parametrize("matcher", sorted(set(MATCHERS) - {"graph"}))  # test_graph.py has its own, with weights
@pytest.mark.parametrize("make", [descriptors, packed])
def test_empty_and_tiny(n: int, m: int, matcher: str, make: object) -> None:
    a, b = features(make(n, seed=1)), features(make(m, seed=2))  # type: ignore[operator]
    found = match(a, b, matcher)
    assert found.indices.shape == (len(found), 2)
    assert verify(a, b, found).num_inliers == 0


def test_what_are_no_features_is_said() -> None:
    with pytest.raises(ValueError, match=r"given as str; make them with patchprint\.extract"):
        match("a.jpg", "b.jpg")  # type: ignore[arg-type]


def test_a_matcher_of_your_own_takes_the_place_of_a_name() -> None:
    def first_only(a: Features, b: Features, device: torch.device) -> Matches:
        return Matches(torch.tensor([[0, 1]]), torch.zeros(1), score=torch.ones(1))

    found = match(features(descriptors(3)), features(descriptors(3)), first_only)
    assert found.indices.tolist() == [[0, 1]] and found.score is not None


def test_the_same_as_by_hand() -> None:
    image = texture(200, 220)
    a, b = (patchprint.extract(each, "rootsift", max_keypoints=300) for each in (image, turned(image, 12)[0]))
    expected = patchprint.verify(a, b, patchprint.match(a, b, ratio=0.9))
    found = match_and_verify(a, b, MatchSettings(ratio=0.9))
    assert len(found) > 20 and torch.equal(found.indices, expected.indices)
    assert found.verdict == expected.verdict
    assert match_and_verify(a, b, MatchSettings(geometry="none")).inliers is None
