"""GPU kernels of the graph matcher agree with PyTorch's operations, stage by stage."""

import pytest

from support import kernels

NEAREST = """
from patchprint.ops import distances, distances_kernel
distances_kernel._PROGRAMS = 5  # so that columns are divided among programs, and a program has several blocks
sizes = (70, 200, 128, 4), (5, 2, 64, 4), (64, 129, 80, 3), (1, 300, 64, 8)
sizes += (70, 140, 128, 6), (3, 1, 64, 4), (66, 70, 100, 4), (2, 3, 64, 3)
for seed, (count, total, dim, k) in enumerate(sizes):
    torch.manual_seed(seed)
    queries, base = torch.randn(count, dim) * 30, torch.randn(total, dim) * 30
    if seed % 2:
        queries[count // 2, 5] = base[total // 2, 0] = torch.nan
        base[:, 3].abs_()  # their product with infinity is the largest
        queries[-1, 3], base[-1, 2] = torch.inf, -torch.inf
    elif seed:
        queries, base = (torch.randint(0, 256, each.shape, dtype=torch.uint8)[:, :16] for each in (queries, base))
    distance, index = torch.empty(count, k, device=device), torch.empty(count, k, dtype=torch.int64, device=device)
    distances_kernel.several_nearest(queries.to(device), base.to(device), distance, index, 7)
    distance, index = distance.cpu(), index.cpu()
    expected, _ = distances.nearest(queries, base, k, exact=True)
    torch.testing.assert_close(distance, expected.float(), rtol=1e-5, atol=1e-5)
    assert torch.equal(index < 0, expected.isinf())
    rows = index.clamp(min=7) - 7
    for column in range(k):
        there = index[:, column] >= 0
        of_index = distances.pair_distances(queries[there], base[rows[there, column]])
        torch.testing.assert_close(distance[there, column].double(), torch.from_numpy(of_index), rtol=1e-5, atol=1e-5)
    assert all(len(set(row[row >= 0].tolist())) == (row >= 0).sum() for row in index)
"""

PLACES = """
from patchprint.matching import candidate_graph_kernels as kernels
from patchprint.matching.candidate_graph import GraphOptions, nearest_places
from support.graph_weights import framed
kernels._COLUMNS = 16
for seed in range(8):
    points = framed((1, 2, 9, 17, 40, 60, 33, 50)[seed], seed).keypoints
    xy, scale = points.xy.clone(), points.scale
    if seed > 5:
        xy[::3] = xy[1]  # second angles of one place, and keypoints that are nowhere
        xy[4] = torch.inf
    for wanted in (16, 5):
        options = GraphOptions(neighbors=wanted)
        neighbor = torch.empty(len(xy), wanted, dtype=torch.int64, device=device)
        kernels.nearest_places(xy.to(device), scale.to(device), neighbor, 100)
        neighbor = torch.where(neighbor.cpu() < 0, -1, neighbor.cpu() - 100)
        away = torch.cdist(xy.double(), xy.double(), compute_mode="donot_use_mm_for_euclid_dist")
        away = torch.where((away > 0.1 * scale[:, None]) & away.isfinite(), away, torch.inf)
        expected = torch.nn.functional.pad(away, (0, wanted), value=torch.inf).topk(wanted, largest=False).values
        found = torch.nn.functional.pad(away, (0, 1), value=torch.inf).gather(1, neighbor % (len(xy) + 1))
        torch.testing.assert_close(found, expected)
        assert all(len(set(row[row >= 0].tolist())) == (row >= 0).sum() for row in neighbor)
        if seed < 6:
            assert torch.equal(neighbor, nearest_places(xy, scale, options))
"""

GRAPH = """
import math
from patchprint.matching import candidate_graph, candidate_graph_kernels as kernels
from patchprint.matching.matchers.graph import SHIPPED, frames_of, read_weights
from support.graph_weights import framed, overlapping, random_network
cpu = torch.device("cpu")
candidate_graph._keeps_all_edges = lambda device: True
brief = {"rounds": 2}
changed = {}, {}, brief, {"candidates": 8, "neighbors": 4, "rounds": 2}, brief, {"width": 16, "rounds": 1}, brief, brief
for seed, options in enumerate(changed):
    a, b = overlapping(seed, 20, 6, bits=seed == 4)
    if seed == 5:
        a.descriptors[3] = b.descriptors[7] = torch.nan
    if seed == 6:
        a, b = framed(2, 1), framed(3, 2)  # fewer than there are candidates
    network = random_network(seed, **options)
    if seed < 2:
        network = read_weights(SHIPPED, cpu).network
    with torch.no_grad():
        built = candidate_graph.build_graph([(frames_of(a, cpu), frames_of(b, cpu))], network.options)
        expected = network(built)
        tables = kernels.PairTables(frames_of(a, device), frames_of(b, device), network.options)
        logits = kernels.logits(network.to(device), tables)
    assert torch.equal(tables.index.cpu().long(), built.index)
    torch.testing.assert_close(tables.distance.cpu(), built.distance, rtol=1e-4, atol=1e-5)
    node = tables.node.cpu().unflatten(1, built.index.shape).permute(1, 2, 0)
    torch.testing.assert_close(node, built.node, rtol=1e-4, atol=1e-4)
    weight, *rest = tables.edge.cpu().unflatten(2, built.index.shape).permute(0, 2, 3, 1)
    torch.testing.assert_close(weight, built.edge[..., 0], rtol=1e-3, atol=1e-5)
    tells = built.edge[..., 0] > 1e-5
    assert seed == 6 or (tells.float().mean() > 0.02 and not tells.all())
    source = tables.source.cpu().unflatten(1, built.index.shape).permute(1, 2, 0)
    assert torch.equal(source[tells].long(), built.source[tells])
    for number, feature in enumerate(rest):
        torch.testing.assert_close(feature[tells], built.edge[..., number + 1][tells], rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(logits.cpu(), expected, rtol=1e-4, atol=1e-4)
    matched, logit, distance = candidate_graph.pair_matches(expected, built, False)
    threshold = (0.0, 0.4, 0.9)[seed % 3]
    kept = logit.sigmoid() >= threshold
    images = frames_of(a, device), frames_of(b, device)
    indices, far, score = kernels.match_pair(network, *images, threshold, math.inf)
    assert torch.equal(indices, matched[kept]), (indices, matched[kept])
    torch.testing.assert_close(far, distance[kept], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(score, logit.sigmoid()[kept], rtol=1e-4, atol=1e-4)
"""

ERRORS = """
from patchprint.matching import candidate_graph_kernels as kernels
from patchprint.matching.local_agreement import FEWEST, local_errors
from support.graph_weights import framed
for seed in range(8):
    count = (FEWEST, 12, 20, 30, 25, 33, 16, 17)[seed]
    torch.manual_seed(seed)
    a = framed(count, seed).keypoints.xy
    b = a @ torch.tensor([[1.2, 0.5], [-0.4, 0.9]]) + 30 + torch.randn(count, 2)
    b[::5] += 40 * torch.rand(len(b[::5]), 2)
    if seed == 6:
        a = a[:1].expand(count, 2).contiguous()  # all in one place: no neighbors
    scale, score = 1 + torch.rand(count, 2), torch.rand(count)
    expected = local_errors(a, b, scale, score)
    # Rows without a match, which lie nowhere, change nothing.
    there = torch.randperm(count + 9)[:count].sort().values
    places, scales = torch.full((2, count + 9, 2), torch.inf), torch.ones(2, count + 9)
    places[:, there], scales[:, there] = torch.stack([a, b]), scale.T
    scores, found = torch.zeros(count + 9), torch.empty(count + 9, device=device)
    scores[there] = score
    kernels.match_errors(places.to(device), scales.to(device), scores.to(device), found)
    torch.testing.assert_close(found.cpu()[there], expected, rtol=1e-4, atol=1e-5)
    assert seed == 6 or expected.max() > 2
"""

MATCHES = """
from patchprint.matching import candidate_graph_kernels as kernels
from patchprint.matching.candidate_graph import build_graph, pair_matches
from patchprint.matching.local_agreement import local_errors
from patchprint.matching.matchers.graph import SHIPPED, frames_of, read_weights
from support.graph_weights import overlapping
cpu = torch.device("cpu")
for seed, count in enumerate((1, 2, 6, 40)):
    a, b = overlapping(seed, count, min(count - 1, 5))
    network = read_weights(SHIPPED, cpu).network
    for tolerance in (2.0, 0.1):
        with torch.no_grad():
            built = build_graph([(frames_of(a, cpu), frames_of(b, cpu))], network.options)
            matched, logit, _ = pair_matches(network(built), built, False)
        kept = logit.sigmoid() >= 0.02
        rows, columns = matched[kept].unbind(1)
        scale = torch.stack([a.keypoints.scale[rows], b.keypoints.scale[columns]], 1)
        errors = local_errors(a.keypoints.xy[rows], b.keypoints.xy[columns], scale, logit.sigmoid()[kept])
        found, _, score = kernels.match_pair(network.to(device), frames_of(a, device), frames_of(b, device), 0.02, tolerance)
        network.to(cpu)
        assert torch.equal(found, matched[kept][errors < tolerance])
        assert count < 40 or len(found) > 20
"""


CASES = {"nearest": NEAREST, "places": PLACES, "graph": GRAPH, "errors": ERRORS, "matches": MATCHES}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_kernels_equal_the_operations(case: str) -> None:
    kernels.run(CASES[case])
