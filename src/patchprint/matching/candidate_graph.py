"""A small network on candidate matches: nodes are candidates, edges say how well the candidates of neighbors fit.

The candidates of a keypoint are its nearest descriptors in the other image. The frames (scale, angle) of a candidate pair are a
similarity, which predicts where the neighbors of the keypoint must be in the other image; a neighbor's candidate that is
there supports the pair. All inputs are ratios of distances, of scales and differences of angles, so that nothing changes
where an image is turned, moved or scaled. Cost and memory grow linearly with the number of keypoints, but for the search of
candidates and neighbors.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from patchprint.common.errors import require
from patchprint.ops.distances import nearest

CANDIDATES, NEIGHBORS, WIDTH, ROUNDS = 4, 16, 32, 4
SAME_PLACE = 0.1  # in units of scale: keypoints as near as this are one place with several angles
# How far a neighbor's candidate may be off: part of the distance between the neighbors, natural logarithm of the scale.
_PLACE, _ZOOM = 0.35, 0.7
_NODE_FEATURES, _EDGE_FEATURES = 10, 6
LEAST_WEIGHT = 1e-3  # edges below it tell nothing
_CELLS = 1 << 23  # numbers held at a time


@dataclass(frozen=True, eq=False)
class Frames:
    """Keypoints with their descriptors, on one device: xy (N, 2), scale (N,), angle (N,), descriptors (N, D)."""

    xy: Tensor
    scale: Tensor
    angle: Tensor
    descriptors: Tensor

    def __len__(self) -> int:
        return len(self.xy)


@dataclass(frozen=True, eq=False)
class CandidateGraph:
    """Candidates of N keypoints and the edges between them.

    Shape:
        index (N, K) int64 into the other image, -1 where there is no candidate; distance (N, K) of descriptors; node (N, K, F);
        target (L,) and source (L,) int64 into the flattened nodes: a candidate, and the candidate of a neighbor that fits it
        best; edge (L, G), whose first column is the weight of the edge.
    """

    index: Tensor
    distance: Tensor
    node: Tensor
    target: Tensor
    source: Tensor
    edge: Tensor


@dataclass(frozen=True, eq=False)
class Candidates:
    """The nearest descriptors in the other image: distance (N, K), index (N, K) int64, -1 where there are fewer."""

    distance: Tensor
    index: Tensor

    @staticmethod
    def find(a: Frames, b: Frames) -> Candidates:
        distance, index = nearest(a.descriptors, b.descriptors, CANDIDATES)
        return Candidates(distance.to(a.xy.device), index.to(a.xy.device))


def both_graphs(a: Frames, b: Frames) -> tuple[CandidateGraph, CandidateGraph]:
    """Build the graph of the candidates of ``a`` in ``b``, and that of the candidates of ``b`` in ``a``."""
    there, back = Candidates.find(a, b), Candidates.find(b, a)
    return build_graph(a, b, there, back), build_graph(b, a, back, there)


def build_graph(a: Frames, b: Frames, found: Candidates, back: Candidates) -> CandidateGraph:
    """Build the graph of ``found``, the candidates of ``a`` in ``b``; ``back`` are those of ``b`` in ``a``."""
    neighbor = nearest_places(a.xy, a.scale)
    support, target, source, edge = [], [], [], []
    for rows in _slices(len(a), 4 * CANDIDATES * CANDIDATES * NEIGHBORS):
        sources, features = fitting_edges(a, b, found.index, neighbor, rows)
        weight = features[..., 0]
        support.append(torch.stack([weight.sum(-1).log1p(), weight.amax(-1)], -1))
        kept = (weight > LEAST_WEIGHT).nonzero()
        target.append((kept[:, 0] + rows.start) * CANDIDATES + kept[:, 1])
        source.append(sources[*kept.unbind(1)])
        edge.append(features[*kept.unbind(1)])
    node = torch.cat([node_features(a, b, found, back), torch.cat(support)], -1)
    return CandidateGraph(found.index, found.distance, node, torch.cat(target), torch.cat(source), torch.cat(edge))


def or_first(index: Tensor) -> Tensor:
    """Return an index with 0 in place of -1 (OpenCV does not clip integers)."""
    return torch.where(index >= 0, index, 0)


def nearest_places(xy: Tensor, scale: Tensor) -> Tensor:
    """Find the nearest keypoints at other places.

    Shape:
        xy (N, 2), scale (N,) -> (N, NEIGHBORS) int64, -1 where there are fewer.
    """
    count, more = len(xy), 2 * NEIGHBORS  # of which some may be at the same place
    if xy.device.type == "cpu" and importlib.util.find_spec("scipy"):
        places = xy.double().numpy()
        tree = require("scipy.spatial", extra="sfm").cKDTree(places)
        found, number = tree.query(places, k=range(1, more + 1))
        distance, index = torch.from_numpy(found).float(), torch.from_numpy(number)
    else:
        parts = []
        for part in xy.split(max(1, _CELLS // max(1, count))):
            every = torch.cdist(part, xy, compute_mode="donot_use_mm_for_euclid_dist")
            parts.append(every.topk(min(more, count), largest=False))
        distance = torch.cat([part.values for part in parts])
        index = torch.cat([part.indices for part in parts])
    apart = (distance > SAME_PLACE * scale[:, None]) & distance.isfinite()
    order = (~apart).int().argsort(dim=1, stable=True)[:, :NEIGHBORS]
    chosen = torch.where(apart, index, -1).gather(1, order)
    return torch.nn.functional.pad(chosen, (0, NEIGHBORS - chosen.shape[1]), value=-1)


def _slices(count: int, cells: int) -> Iterator[slice]:
    """Yield slices of ``count`` rows with so many numbers each that fit into memory."""
    step = max(1, _CELLS // cells)
    return (slice(start, start + step) for start in range(0, max(count, 1), step))


def _unit(distance: Tensor, descriptors: Tensor) -> Tensor:
    """Convert distances of descriptors to those of unit vectors, for bits by the angle between their signs."""
    if descriptors.dtype == torch.uint8:
        return 2 * (distance / (8 * descriptors.shape[1])).clamp(max=1).sqrt()
    length = descriptors[:1000].float().square().sum(1).sqrt()
    usable = length.isfinite()
    mean = torch.where(usable, length, 0).sum() / usable.float().sum().clamp(min=1)
    return torch.where(distance.isfinite(), distance / mean.clamp(min=1e-9), 2).clamp(max=2)


def node_features(a: Frames, b: Frames, found: Candidates, back: Candidates) -> Tensor:
    """Compute the features of candidates (N, K, F): of the distance, of its rivals on both sides, and of the scales."""
    known, column = found.index >= 0, or_first(found.index)
    distance, theirs = _unit(found.distance, b.descriptors), _unit(back.distance, a.descriptors)
    rank = torch.arange(CANDIDATES, device=column.device).expand_as(column)
    rival_a = torch.where(rank == 0, distance[:, 1:2], distance[:, :1])
    is_best = back.index[column, 0] == torch.arange(a.xy.shape[0], device=column.device)[:, None]
    rival_b = torch.where(is_best, theirs[column, 1], theirs[column, 0])
    to_a, to_b = ((distance / rival.clamp(min=1e-6)).clamp(max=4) for rival in (rival_a, rival_b))
    zoom = (b.scale[column] / a.scale[:, None]).clamp(min=1e-9).log()
    # The median of nearest descriptors is taken off, since images may be of any size.
    nearest_known = found.index[:, 0] >= 0
    ordered = torch.where(nearest_known, zoom[:, 0], torch.inf).sort().values
    middle = ((nearest_known.float().sum() - 1) / 2).clamp(min=0).long()
    median = ordered.index_select(0, middle[None])
    zoom = torch.where(known, zoom - median, 0)
    features = [
        distance,
        1 - distance.square() / 2,
        to_a,
        to_b,
        is_best.float(),
        (rank == 0).float(),
        rank / CANDIDATES,
        zoom.abs().clamp(max=4),
    ]
    return torch.stack(features, -1) * known[..., None]


def fitting_edges(a: Frames, b: Frames, index: Tensor, neighbor: Tensor, rows: slice) -> tuple[Tensor, Tensor]:
    """Find the source (R, K, E) and the features (R, K, E, G) of the edges to the candidates of ``rows``."""
    other = or_first(neighbor[rows])  # (R, E)
    own_known, theirs_known = index[rows] >= 0, index[other] >= 0  # (R, K), (R, E, L): candidates of the neighbors
    own, theirs = or_first(index[rows]), or_first(index[other])
    offset = a.xy[other] - a.xy[rows][:, None]
    length = offset.norm(dim=-1).clamp(min=1e-6)
    zoom = (b.scale[own] / a.scale[rows][:, None]).clamp(min=1e-9)[..., None]  # (R, K, 1)
    turn = (b.angle[own] - a.angle[rows][:, None])[..., None]
    cos, sin = zoom * turn.cos(), zoom * turn.sin()
    x, y = offset[:, None].unbind(-1)  # (R, 1, E)
    predicted_x, predicted_y = cos * x - sin * y + b.xy[own][..., :1], sin * x + cos * y + b.xy[own][..., 1:]
    there_x, there_y = b.xy.unbind(1)
    off = (there_x[theirs][:, None] - predicted_x[..., None]).square()  # (R, K, E, L)
    off += (there_y[theirs][:, None] - predicted_y[..., None]).square()
    off /= (zoom * length[:, None]).square()[..., None]
    their_zoom = (b.scale[theirs] / a.scale[other][..., None]).clamp(min=1e-9).log()
    change = their_zoom[:, None] - zoom.log()[..., None]
    their_turn = b.angle[theirs] - a.angle[other][..., None]
    alike = their_turn.cos()[:, None] * turn.cos()[..., None] + their_turn.sin()[:, None] * turn.sin()[..., None]
    cost = off / _PLACE**2 + (change / _ZOOM).square() - (0.5 + 0.5 * alike).clamp(min=1e-6).log()
    usable = theirs_known[:, None] & (neighbor[rows] >= 0)[:, None, :, None] & own_known[:, :, None, None]
    cost = cost.masked_fill(~usable, 1e9)
    least, best = cost.min(-1, keepdim=True)

    def chosen(values: Tensor) -> Tensor:
        return values.expand_as(cost).gather(-1, best)[..., 0]

    weight = torch.exp(-least[..., 0].clamp(max=60)) * chosen(usable)
    twist = chosen(their_turn[:, None]) - turn
    features = [
        weight,
        chosen(off).sqrt().clamp(max=4),
        chosen(change).clamp(-3, 3),
        torch.cos(twist),
        torch.sin(twist),
        (length / a.scale[rows][:, None]).log1p()[:, None].expand_as(twist),
    ]
    return other[:, None] * CANDIDATES + best[..., 0], torch.stack(features, -1)


class GraphNetwork(nn.Module):
    """Rounds of messages between candidates, then one logit of each.

    A message is what a neighbor's candidate tells, by its own state and by how well it fits; a candidate takes sum and maximum
    of the messages, and what its keypoint's other candidates are.
    """

    def __init__(self, width: int = WIDTH, rounds: int = ROUNDS) -> None:
        super().__init__()
        self.width, self.rounds = width, rounds
        self.start = nn.Sequential(nn.Linear(_NODE_FEATURES, width), nn.SiLU(), nn.Linear(width, width))
        self.layers = nn.ModuleList(Round(width) for _ in range(rounds))
        self.end = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, 1))

    def forward(self, graph: CandidateGraph) -> Tensor:
        """Compute the logits (N, K) of candidates; minus infinity where there is none."""
        state = self.start(graph.node)
        for layer in self.layers:
            state = layer(state, graph.target, graph.source, graph.edge)
        return self.end(state)[..., 0].masked_fill(graph.index < 0, -math.inf)


class Round(nn.Module):
    """One round of messages."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width
        self.norm = nn.LayerNorm(width)
        self.told = nn.Linear(width, width)
        self.asked = nn.Linear(width, width)
        self.fits = nn.Linear(_EDGE_FEATURES, width)
        self.mix = nn.Linear(4 * width, 2 * width)
        self.out = nn.Linear(width, width)

    def forward(self, state: Tensor, target: Tensor, source: Tensor, edge: Tensor) -> Tensor:
        """Compute the next state: state (N, K, W), target (L,), source (L,), edge (L, G) -> (N, K, W)."""
        normed = self.norm(state)
        told, asked = self.told(normed).flatten(0, 1), self.asked(normed).flatten(0, 1)
        # A candidate without some of the edges hears nothing, 0, there.
        complete = torch.bincount(target, minlength=len(told)) == NEIGHBORS
        most = torch.where(complete[:, None], -math.inf, told.new_zeros(told.shape))
        total = torch.zeros_like(told)
        for part in _slices(len(target), 4 * self.width):
            message = nn.functional.silu(told[source[part]] + asked[target[part]] + self.fits(edge[part]))
            message = message * edge[part, :1]
            total = total.index_add(0, target[part], message)
            most = most.scatter_reduce(0, target[part, None].expand_as(message), message, "amax")
        return self.update(state, normed, torch.cat([total / 4, most], -1).unflatten(0, state.shape[:2]))

    def update(self, state: Tensor, normed: Tensor, heard: Tensor) -> Tensor:
        """Compute the next state of the normed state (N, K, W), and of sum and maximum of the messages (N, K, 2 W)."""
        siblings = (normed.sum(1, keepdim=True) - normed) / (CANDIDATES - 1)
        value, gate = self.mix(torch.cat([normed, heard, siblings], -1)).chunk(2, -1)
        return state + self.out(nn.functional.silu(value) * torch.sigmoid(gate))


def best_matches(logits: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
    """Select the candidates that are the best of both their keypoints.

    Shape:
        logits (N, K), index (N, K) -> rows (M,) and columns (M,) of these candidates in the tables, by row.
    """
    best, place = logits.max(1)
    most = logits.new_full((int(index.max()) + 2 if index.numel() else 1,), -math.inf)
    most.scatter_reduce_(0, (index + 1).flatten(), logits.flatten(), "amax")  # place 0 is that of no candidate
    other = index.gather(1, place[:, None])[:, 0]
    rows = torch.nonzero((best > -math.inf) & (best == most[other + 1]))[:, 0]
    return rows, place[rows]
