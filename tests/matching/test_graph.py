"""The graph matcher: its edges and one round of messages against plain loops, what it does not depend on, bad input."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import patchprint
from patchprint.common.errors import UserError
from patchprint.common.types import Features, Matches, ModelId
from patchprint.matching import candidate_graph, match, verify
from patchprint.matching.candidate_graph import (
    CandidateGraph,
    GraphNetwork,
    GraphOptions,
    best_matches,
    build_graph,
    nearest_places,
    pair_matches,
    together,
)
from patchprint.matching.local_agreement import local_errors
from patchprint.matching.matchers.graph import LEAST, SHIPPED, TOLERANCE, frames_of, read_weights, shipped_models
from support.graph_weights import framed, moved, random_network, write_weights
from support.largest_tensor import LargestTensor
from support.made_features import descriptors, features

CPU = torch.device("cpu")


OPTIONS = GraphOptions()
CANDIDATES, NEIGHBORS = OPTIONS.candidates, OPTIONS.neighbors


def graph_of(a: Features, b: Features, options: GraphOptions = OPTIONS) -> CandidateGraph:
    return build_graph([(frames_of(a, CPU), frames_of(b, CPU))], options)


def pair(count: int = 60, turn: float = 0.4, zoom: float = 1.3, noise: float = 0.3) -> tuple[Features, Features]:
    a = framed(count)
    return a, moved(a, turn, zoom, torch.randperm(count, generator=torch.Generator().manual_seed(5)), noise)


def unchecked(a: Features, b: Features, weights: str) -> Matches:
    """All that are mutually best: random weights choose matches of which few agree."""
    return match(a, b, "graph", weights=weights, tolerance=math.inf)


def plain_edge(a: Features, b: Features, i: int, j: int, other: int, candidates: list[int]) -> tuple[int, list[float]]:
    """The candidate of a neighbor that fits best, and the features of the edge, in plain numbers."""
    xy_a, xy_b = a.keypoints.xy.double().numpy(), b.keypoints.xy.double().numpy()
    (scale_a, angle_a), (scale_b, angle_b) = (
        (each.keypoints.scale.double().numpy(), each.keypoints.angle.double().numpy()) for each in (a, b)
    )
    zoom, turn = scale_b[j] / scale_a[i], angle_b[j] - angle_a[i]
    offset = complex(*(xy_a[other] - xy_a[i]))
    expected = complex(*xy_b[j]) + zoom * np.exp(1j * turn) * offset
    best: tuple[float, int, list[float]] = (math.inf, -1, [])
    for place, theirs in enumerate(candidates):
        off = abs(complex(*xy_b[theirs]) - expected) / (zoom * abs(offset))
        change = math.log(scale_b[theirs] / scale_a[other] / zoom)
        twist = angle_b[theirs] - angle_a[other] - turn
        gate = math.exp(-((off / 0.35) ** 2) - (change / 0.7) ** 2) * (0.5 + 0.5 * math.cos(twist))
        told = [gate, min(off, 4), min(max(change, -3), 3), math.cos(twist), math.sin(twist)]
        cost = (off / 0.35) ** 2 + (change / 0.7) ** 2 - math.log(max(0.5 + 0.5 * math.cos(twist), 1e-6))
        best = min(best, (cost, place, [*told, math.log1p(abs(offset) / scale_a[i])]))
    return best[1], best[2]


def test_edges_and_a_round_of_messages_are_those_of_plain_loops() -> None:
    a, b = pair(40)
    graph, layer = graph_of(a, b), random_network().layers[0].double()
    assert graph.target is not None
    neighbor = nearest_places(a.keypoints.xy, a.keypoints.scale)
    state = torch.randn(80, CANDIDATES, 32, generator=torch.Generator().manual_seed(1)).double()
    found = layer(state, dataclasses.replace(graph, edge=graph.edge.double()))
    candidates = (graph.index - 40)[:40]
    kept = {(int(to), int(of) // CANDIDATES): (int(of) % CANDIDATES, edge)
            for to, of, edge in zip(graph.target, graph.source, graph.edge, strict=True)}  # fmt: skip
    normed, silu = layer.norm(state), nn.functional.silu
    for i in (0, 7, 39):
        away = (a.keypoints.xy - a.keypoints.xy[i]).norm(dim=1)
        assert sorted(neighbor[i].tolist()) == sorted(away.argsort()[1 : NEIGHBORS + 1].tolist())
        for k in range(CANDIDATES):
            messages = []
            for other in neighbor[i].tolist():
                theirs, edge = plain_edge(a, b, i, int(candidates[i, k]), other, candidates[other].tolist())
                if (i * CANDIDATES + k, other) not in kept:
                    assert edge[0] < 1.01e-3
                    messages.append(torch.zeros(32).double())
                    continue
                place, edge_here = kept[i * CANDIDATES + k, other]
                assert place == theirs
                np.testing.assert_allclose(edge_here.numpy(), edge, atol=2e-4)
                told = layer.told(normed[other, theirs]) + layer.asked(normed[i, k])
                messages.append(silu(told + layer.fits(edge_here.double())) * edge_here[0].double())
            assert sum(to // CANDIDATES == i for to, _ in kept) > 0
            stacked = torch.stack(messages)
            others = normed[i, [c for c in range(CANDIDATES) if c != k]].mean(0)
            heard = torch.cat([normed[i, k], stacked.sum(0) / 4, stacked.max(0).values, others])
            value, gate = layer.mix(heard).chunk(2)
            expected = state[i, k] + layer.out(silu(value) * torch.sigmoid(gate))
            torch.testing.assert_close(found[i, k], expected)


@pytest.mark.parametrize(("turn", "zoom"), [(0.0, 3.0), (math.pi / 2, 1.0), (math.pi, 0.5), (2.5, 1.0)])
def test_turned_moved_and_scaled_images_have_the_same_logits(turn: float, zoom: float) -> None:
    a, network, same = framed(80), random_network(), torch.arange(80)
    b = moved(a, 0.3, 1.2, same)
    logits = network(graph_of(a, b))
    torch.testing.assert_close(network(graph_of(a, moved(b, turn, zoom, same, noise=0))), logits, atol=2e-3, rtol=1e-3)
    torch.testing.assert_close(network(graph_of(moved(a, turn, zoom, same, noise=0), b)), logits, atol=2e-3, rtol=1e-3)


def test_another_order_of_keypoints_gives_the_same_matches(tmp_path: Path) -> None:
    (a, b), weights = pair(80), write_weights(tmp_path / "w.safetensors")
    order_a, order_b = (torch.randperm(80, generator=torch.Generator().manual_seed(seed)) for seed in (1, 2))
    shuffled = (dataclasses.replace(each, keypoints=each.keypoints[order], descriptors=each.descriptors[order])
                for each, order in ((a, order_a), (b, order_b)))  # fmt: skip
    one, other = unchecked(a, b, weights), unchecked(*shuffled, weights)
    found = {(int(order_a[i]), int(order_b[j])): float(s) for (i, j), s in zip(other.indices, other.score, strict=True)}
    expected = {(int(i), int(j)): float(s) for (i, j), s in zip(one.indices, one.score, strict=True)}
    assert found.keys() == expected.keys() and len(expected) > 40
    assert all(found[key] == pytest.approx(expected[key], abs=1e-4) for key in expected)
    back = unchecked(b, a, weights)
    assert {(i, j) for j, i in back.indices.tolist()} == set(expected), "and from the second image to the first"


def test_second_angles_are_no_neighbors() -> None:
    xy = torch.tensor([[10.0 * i, 3.0 * (i % 3)] for i in range(20)]).repeat(2, 1)
    neighbor = nearest_places(xy, torch.full((40,), 2.0))
    assert (neighbor.fmod(20) != torch.arange(40)[:, None].fmod(20)).all()


def test_neighbors_are_the_same_without_scipy(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [framed(count).keypoints for count in (1, 9, 200)]
    expected = [nearest_places(each.xy, each.scale) for each in points]
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    for each, neighbor in zip(points, expected, strict=True):
        assert torch.equal(nearest_places(each.xy, each.scale), neighbor)


def test_only_the_best_of_both_keypoints_is_kept() -> None:
    logits, index = (
        torch.tensor([[2.0, 1.0], [3.0, 0.5], [-math.inf, -math.inf]]),
        torch.tensor([[0, 1], [0, 2], [-1, -1]]),
    )
    rows, place = best_matches(logits, index)
    assert (rows.tolist(), place.tolist()) == ([1], [0])
    back, back_index = torch.tensor([[5.0, 7.0], [0.0, 0.0], [4.0, 0.0]]), torch.tensor([[1, 0], [5, 6], [1, 5]])
    mean = together(logits, index, back, back_index)
    assert mean.tolist() == [[4.5, -math.inf], [4.0, 2.25], [-math.inf, -math.inf]]
    assert together(logits, index, back, back_index, one_sided=True).tolist()[:2] == [[4.5, 1.0], [4.0, 2.25]]


def test_a_candidate_of_one_keypoint_alone_counts_where_it_is_asked_for() -> None:
    """Of two images with two and three keypoints; the third of the other image has candidates that do not have it."""
    index = torch.tensor([[2, 3], [3, 2], [0, 1], [1, 0], [0, 1]])
    logits = torch.tensor([[1.0, -9.0], [-5.0, -9.0], [1.0, -9.0], [-5.0, -9.0], [3.0, 4.0]])
    empty = torch.zeros(0)
    graph = CandidateGraph(index, torch.zeros(5, 2), empty, None, empty, empty, (2, 3))
    both, logit, _ = pair_matches(logits, graph, one_sided=False)
    assert (both.tolist(), logit.tolist()) == ([[0, 0], [1, 1]], [1.0, -5.0])
    either, logit, _ = pair_matches(logits, graph, one_sided=True)
    assert (either.tolist(), logit.tolist()) == ([[1, 2]], [4.0]), "the first keypoint's best prefers another"


CHANGED = [
    {"one_sided": True}, {"frames": False}, {"edges": False}, {"by_scale": True}, {"affine": True}, {"descriptors": 32},
    {"candidates": 8, "neighbors": 8, "rounds": 2, "width": 16},
]  # fmt: skip


@pytest.mark.parametrize("options", CHANGED, ids=lambda options: "-".join(options))
def test_every_option_makes_another_network_that_is_read_again(options: dict[str, object], tmp_path: Path) -> None:
    (a, b), weights = pair(60), write_weights(tmp_path / "w.safetensors", options=options)
    found = unchecked(a, b, weights)
    assert len(found) > 10 and found.score is not None
    network = random_network(**options)
    assert network.options.changed() == options
    graph = graph_of(a, b, network.options)
    logits = network(graph)
    matched, logit, _ = pair_matches(logits, graph, network.options.one_sided)
    assert torch.equal(matched, found.indices)
    torch.testing.assert_close(logit.sigmoid(), found.score)
    if network.options.frames:
        same = torch.arange(60)
        turned = network(graph_of(moved(a, 1.0, 2.0, same, noise=0), b, network.options))
        torch.testing.assert_close(turned[:60], logits[:60], atol=5e-3, rtol=1e-2)


def test_a_network_without_frames_needs_none() -> None:
    a, b = pair(60, turn=0.0, zoom=1.0)
    network = random_network(frames=False)
    bare = (
        dataclasses.replace(
            each, keypoints=dataclasses.replace(each.keypoints, angle=torch.rand(60), scale=torch.ones(60))
        )
        for each in (a, b)
    )
    index = graph_of(a, b, network.options)
    other = graph_of(*bare, network.options)
    torch.testing.assert_close(other.node, index.node)


def test_options_that_are_none_are_refused() -> None:
    with pytest.raises(UserError, match="has no option 'candidate'; did you mean"):
        GraphNetwork(candidate=3)
    with pytest.raises(UserError, match="needs 2 candidates"):
        GraphNetwork(candidates=1)


@pytest.mark.parametrize("options", [{}, {"affine": True, "candidates": 6}, {"edges": False}])
def test_edges_of_fixed_shape_give_the_same_logits(options: dict[str, object], monkeypatch: pytest.MonkeyPatch) -> None:
    """On a GPU no edge is left out, so that nothing waits for the host."""
    (a, b), network = pair(70), random_network(**options)
    pairs = [(frames_of(a, CPU), frames_of(b, CPU)), (frames_of(b, CPU), frames_of(framed(30), CPU))]
    some = build_graph(pairs, network.options)
    monkeypatch.setattr(candidate_graph, "_keeps_all_edges", lambda device: True)
    every = build_graph(pairs, network.options)
    assert every.target is None or not network.layers
    torch.testing.assert_close(network(every), network(some))
    alone = network(graph_of(a, b, network.options))
    torch.testing.assert_close(network(some)[:140], alone, msg="pairs do not touch each other")


def test_memory_grows_no_faster_than_the_keypoints() -> None:
    largest = []
    for count in (3000, 12000):
        a = framed(count, dim=8)
        with LargestTensor() as tensors, torch.no_grad():
            random_network()(graph_of(a, a))
        largest.append(tensors.numel)
    assert largest[1] <= max(4.2 * largest[0], 1 << 24)


@pytest.mark.parametrize("bits", [False, True])
@pytest.mark.parametrize(("n", "m"), [(0, 5), (5, 0), (0, 0), (1, 1), (2, 3), (7, 40)])
def test_few_keypoints_of_any_kind(n: int, m: int, bits: bool, tmp_path: Path) -> None:
    a, b = framed(n, 1, bits=bits), framed(m, 2, bits=bits)
    found = match(a, b, "graph", weights=write_weights(tmp_path / "w.safetensors"))
    assert len(found) == (0 if not n or not m else len(found)) <= min(n, m)
    assert found.score is not None and found.score.shape == (len(found),)
    assert verify(a, b, found).num_inliers == 0 or len(found) > 8


def test_descriptors_that_are_not_numbers_are_left_out(tmp_path: Path) -> None:
    a, b = pair(60)
    broken = a.descriptors.clone()
    broken[3] = torch.nan
    found = unchecked(dataclasses.replace(a, descriptors=broken), b, write_weights(tmp_path / "w.safetensors"))
    assert len(found) > 30 and 3 not in found.indices[:, 0] and found.score.isfinite().all()


@pytest.mark.slow
def test_a_hundred_thousand_keypoints_are_matched_in_little_memory() -> None:
    a = framed(100_000, dim=16)
    order = a.keypoints.xy.norm(dim=1).argsort()[:500]
    b = moved(a, 0.4, 1.3, order, noise=0.5)
    network = read_weights(SHIPPED, CPU).network
    with LargestTensor() as tensors, torch.no_grad():
        graph = graph_of(a, b)
        matched, _, _ = pair_matches(network(graph), graph, one_sided=False)
    assert graph.index.shape == (100_500, CANDIDATES)
    assert (order[matched[:, 1]] == matched[:, 0]).sum() > 450
    assert tensors.numel < 1 << 26, "no table of all pairs"


def test_what_it_cannot_match_is_said(tmp_path: Path) -> None:
    bare = features(descriptors(20))
    weights = write_weights(tmp_path / "w.safetensors")
    with pytest.raises(UserError, match="needs keypoints with scale and angle"):
        match(bare, bare, "graph", weights=weights)
    framed_or_not = write_weights(tmp_path / "no-frames.safetensors", options={"frames": False})
    assert match(bare, bare, "graph", weights=framed_or_not).score is not None
    a = framed(20)
    with pytest.raises(UserError, match=r"no weights for descriptors of m .*take another --matcher"):
        match(a, a, "graph")
    other = dataclasses.replace(a, model=ModelId("other", "1234"))
    with pytest.raises(UserError, match=r"w\.safetensors was trained on descriptors of m, not of other 1234"):
        match(other, other, "graph", weights=weights)
    (tmp_path / "text.safetensors").write_text("no weights")
    with pytest.raises(UserError, match=r"text\.safetensors"):
        match(a, a, "graph", weights=str(tmp_path / "text.safetensors"))
    with pytest.raises(UserError, match="there is no file"):
        match(a, a, "graph", weights=str(tmp_path / "none.safetensors"))
    with pytest.raises(UserError, match="a ratio belongs to"):
        patchprint.MatchSettings(matcher="graph", ratio=0.8)


def test_a_file_of_weights_is_a_matcher(tmp_path: Path) -> None:
    (a, b), weights = pair(40), write_weights(tmp_path / "w.safetensors", threshold=0.4)
    settings = patchprint.MatchSettings(matcher=weights, geometry="none")
    found = patchprint.match_and_verify(a, b, settings)
    assert torch.equal(found.indices, match(a, b, "graph", weights=weights).indices)
    assert float(unchecked(a, b, weights).score.min()) >= 0.4


def test_matches_are_checked_by_those_around_them(tmp_path: Path) -> None:
    """From a lower probability on than without the check, and all that lie as near as the tolerance says."""
    (a, b), weights = pair(300), write_weights(tmp_path / "w.safetensors", threshold=0.4)
    every = match(a, b, "graph", weights=weights, threshold=LEAST, tolerance=math.inf)
    rows, columns = every.indices.unbind(1)
    scale = torch.stack([a.keypoints.scale[rows], b.keypoints.scale[columns]], 1)
    errors = local_errors(a.keypoints.xy[rows], b.keypoints.xy[columns], scale, every.score)
    wide = float(errors.median())
    for tolerance in (TOLERANCE, wide):
        found = match(a, b, "graph", weights=weights, tolerance=tolerance)
        assert torch.equal(found.indices, every.indices[errors < tolerance])
    assert 0 < len(found) < len(every)
    with pytest.raises(UserError, match="tolerance of the matcher graph must be above 0 pixels, got 0"):
        match(a, b, "graph", weights=weights, tolerance=0)


@pytest.mark.parametrize("model", shipped_models())
def test_shipped_weights_find_more_than_the_ratio_test(model: str) -> None:
    """Between an image and the image turned by 90 degrees, blurred and with noise."""
    import cv2

    from support.known_images import texture

    assert SHIPPED.stat().st_size < 1 << 20
    image = texture(300, 300)
    noise = np.random.default_rng(0).normal(0, 28, image.shape)
    other = np.clip(cv2.GaussianBlur(np.rot90(image, -1).copy(), (0, 0), 1.2) + noise, 0, 255).astype(np.uint8)
    a, b = (patchprint.extract(each, model, max_keypoints=500) for each in (image, other))

    def right(matcher: str) -> tuple[int, int]:
        found = match(a, b, matcher)
        one, two = found.points(a, b)
        expected = torch.stack([299 - one[:, 1], one[:, 0]], 1)
        return int(((expected - two).norm(dim=1) < 3).sum()), len(found)

    (graph, found), (ratio, _) = right("graph"), right("mutual+ratio")
    assert graph > ratio and graph > 0.9 * found


def test_both_directions_are_built_of_the_same_candidates() -> None:
    a, b = pair(50)
    there, back = graph_of(a, b), graph_of(b, a)
    torch.testing.assert_close(there.index[:50] - 50, back.index[50:])
    torch.testing.assert_close(there.node, torch.cat([back.node[50:], back.node[:50]]))


@pytest.mark.parametrize("bits", [False, True])
@pytest.mark.parametrize("options", [{}, {"affine": True, "by_scale": True}, {"frames": False}, {"edges": False}])
def test_on_a_device_no_value_is_read_by_the_host(options: dict[str, object], bits: bool) -> None:
    """Tensors of the device "meta" have none, and refuse to be mixed with those of the CPU."""
    device = torch.device("meta")
    images = [frames_of(framed(count, bits=bits), device) for count in (90, 70, 50, 60)]
    network = random_network(**options).to(device)
    graph = build_graph([(images[0], images[1]), (images[2], images[3])], network.options)
    logits = network(graph)
    every = (graph.index, graph.node, graph.source, graph.edge, logits)
    assert {tensor.device for tensor in (*every, together(logits, graph.index, logits, graph.index))} == {device}
    assert logits.shape == (270, CANDIDATES)
