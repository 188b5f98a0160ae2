"""A small network on candidate matches: nodes are candidates, edges say how well the candidates of neighbors fit.

The candidates of a keypoint are its nearest descriptors in the other image. The frames (scale, angle) of a candidate pair are a
similarity, which predicts where the neighbors of the keypoint must be in the other image; a neighbor's candidate that is
there supports the pair. All inputs are ratios of distances, of scales and differences of angles, so that nothing changes
where an image is turned, moved or scaled. Cost and memory grow linearly with the number of keypoints, but for the search of
candidates and neighbors.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from patchprint.common.devices import supports_triton
from patchprint.common.errors import UserError, require
from patchprint.common.registry import check_options
from patchprint.ops.distances import as_vectors, nearest, nearest_on_device

SAME_PLACE = 0.1  # in units of scale: keypoints as near as this are one place with several angles
# How far a neighbor's candidate may be off: part of the distance between the neighbors, natural logarithm of the scale.
PLACE, ZOOM = 0.35, 0.7
NODE_FEATURES, EDGE_FEATURES = 10, 6
LEAST_WEIGHT = 1e-3  # edges below it tell nothing
LENGTHS = 1000  # descriptors whose mean length is taken
_CELLS, _CELLS_ON_GPU = 1 << 23, 1 << 28  # numbers held at a time


@dataclass(frozen=True, kw_only=True)
class GraphOptions:
    """What a network is told of candidates, and how large it is; saved with its weights.

    Attributes:
        candidates: nearest descriptors in the other image that are candidates of a keypoint.
        neighbors: nearest keypoints whose candidates are asked.
        width: numbers in the state of a candidate.
        rounds: rounds of messages.
        one_sided: keep candidates that are among the nearest of one of their keypoints only.
        frames: use scale and angle of keypoints; without them neighbors must move alike.
        edges: use neighbors at all.
        by_scale: prefer neighbors of similar scale.
        affine: correct the similarity of a candidate by what those of the neighbors say of it.
        descriptors: dimension of descriptors whose products are told too; 0: only distances are.
    """

    candidates: int = 4
    neighbors: int = 16
    width: int = 32
    rounds: int = 4
    one_sided: bool = False
    frames: bool = True
    edges: bool = True
    by_scale: bool = False
    affine: bool = False
    descriptors: int = 0

    def __post_init__(self) -> None:
        if self.candidates < 2 or min(self.neighbors, self.width, self.rounds) < 1 or self.descriptors < 0:
            raise UserError(f"a graph network needs 2 candidates, and one neighbor, number and round; got {self}")

    def changed(self) -> dict[str, Any]:
        """Return the options that are not the default."""
        return {name: value for name, value in vars(self).items() if value != getattr(_DEFAULT, name)}


_DEFAULT = GraphOptions()


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
    """Candidates of the keypoints of pairs of images, N in all, and the edges between candidates.

    A candidate of a keypoint lies in the other image of its pair, in both directions. Edges without weight are left out on
    the CPU; on a GPU, where all shapes are fixed so that nothing waits for the host, ``target`` is None.

    Shape:
        index (N, K) int64 among the N keypoints, -1 where there is no candidate; distance (N, K) of descriptors; node (N, K,
        F); target (L,) and source (L,) int64 into the flattened nodes: a candidate, and the candidate of a neighbor that fits
        it best; edge (L, G), whose first column is the weight. Without target: source (N, K, E), edge (N, K, E, G). sizes:
        keypoints of each image.
    """

    index: Tensor
    distance: Tensor
    node: Tensor
    target: Tensor | None
    source: Tensor
    edge: Tensor
    sizes: tuple[int, ...]

    @property
    def pair_sizes(self) -> list[tuple[int, int]]:
        """Numbers of keypoints of both images, for each pair."""
        return list(zip(self.sizes[::2], self.sizes[1::2], strict=True))


@dataclass(frozen=True, eq=False)
class Candidates:
    """The nearest descriptors in the other image: distance (N, K), index (N, K) int64, -1 where there are fewer."""

    distance: Tensor
    index: Tensor

    @staticmethod
    def find(a: Frames, b: Frames, count: int) -> Candidates:
        search = nearest if a.xy.device.type == "cpu" else nearest_on_device
        return Candidates(*search(a.descriptors, b.descriptors, count))


def build_graph(pairs: Sequence[tuple[Frames, Frames]], options: GraphOptions = _DEFAULT) -> CandidateGraph:
    """Build the graph of the candidates of pairs of images, in both directions."""
    images = [image for pair in pairs for image in pair]
    sizes = tuple(map(len, images))
    starts = list(itertools.accumulate(sizes, initial=0))
    names = [each.name for each in dataclasses.fields(Frames)]
    every = Frames(*(torch.cat([getattr(image, name) for image in images]) for name in names))
    distances, indices = [], []
    for number, image in enumerate(images):
        here = Candidates.find(image, images[number ^ 1], options.candidates)
        distances.append(here.distance)
        indices.append(torch.where(here.index >= 0, here.index + starts[number ^ 1], -1))
    found = Candidates(torch.cat(distances), torch.cat(indices))
    node = node_features(every, every, found, found, options, sizes)
    if not options.edges:
        empty = found.index.new_zeros(0)
        none = node.new_zeros(0, EDGE_FEATURES)
        return CandidateGraph(found.index, found.distance, with_support(node, None), empty, empty, none, sizes)
    places = [nearest_places(image.xy, image.scale, options) for image in images]
    neighbor = torch.cat(
        [torch.where(each >= 0, each + start, -1) for each, start in zip(places, starts, strict=False)]
    )
    parts = [
        fitting_edges(every, every, found.index, neighbor, rows, options)
        for rows in _slices(len(every), 4 * options.candidates**2 * options.neighbors, node.device)
    ]
    if _keeps_all_edges(node.device):
        source, edge = (torch.cat(part) for part in zip(*parts, strict=True))
        node = with_support(node, edge[..., 0])
        return CandidateGraph(found.index, found.distance, node, None, source, edge, sizes)
    weight = torch.cat([edge[..., 0] for _, edge in parts])
    first, target, source_of, edges = 0, [], [], []
    for source, edge in parts:
        kept = (edge[..., 0] > LEAST_WEIGHT).nonzero()
        target.append((kept[:, 0] + first) * options.candidates + kept[:, 1])
        source_of.append(source[*kept.unbind(1)])
        edges.append(edge[*kept.unbind(1)])
        first += len(edge)
    node = with_support(node, weight)
    return CandidateGraph(
        found.index, found.distance, node, torch.cat(target), torch.cat(source_of), torch.cat(edges), sizes
    )


def _keeps_all_edges(device: torch.device) -> bool:
    return device.type != "cpu"


def with_support(node: Tensor, weight: Tensor | None) -> Tensor:
    """Add to the features of candidates (N, K, F) sum and maximum of the weights (N, K, E) of their edges."""
    if weight is None:
        return nn.functional.pad(node, (0, 2))
    return torch.cat([node, weight.sum(-1, keepdim=True).log1p(), weight.amax(-1, keepdim=True)], -1)


def or_first(index: Tensor) -> Tensor:
    """Return an index with 0 in place of -1 (OpenCV does not clip integers)."""
    return torch.where(index >= 0, index, 0)


def nearest_places(xy: Tensor, scale: Tensor, options: GraphOptions = _DEFAULT) -> Tensor:
    """Find the nearest keypoints at other places.

    Shape:
        xy (N, 2), scale (N,) -> (N, E) int64, -1 where there are fewer.
    """
    if supports_triton(xy.device) and not options.by_scale:
        from patchprint.matching import candidate_graph_kernels

        neighbor = torch.empty(len(xy), options.neighbors, dtype=torch.int64, device=xy.device)
        candidate_graph_kernels.nearest_places(xy, scale, neighbor)
        return neighbor
    count, more = len(xy), 2 * options.neighbors  # of which some may be at the same place
    if xy.device.type == "cpu" and importlib.util.find_spec("scipy"):
        places = xy.double().numpy()
        tree = require("scipy.spatial", extra="sfm").cKDTree(places)
        found, number = tree.query(places, k=range(1, more + 1))
        distance, index = torch.from_numpy(found).float(), torch.from_numpy(number)
    else:
        parts = []
        for part in xy.split(max(1, _held(xy.device) // max(1, count))):
            every = torch.cdist(part, xy, compute_mode="donot_use_mm_for_euclid_dist")
            parts.append(every.topk(min(more, count), largest=False))
        distance = torch.cat([part.values for part in parts])
        index = torch.cat([part.indices for part in parts])
    apart = (distance > SAME_PLACE * scale[:, None]) & distance.isfinite()
    if options.by_scale:
        zoom = (scale[index.clamp(max=count - 1)] / scale[:, None].clamp(min=1e-9)).clamp(min=1e-9).log()
        distance = distance * zoom.abs().exp()
        order = torch.where(apart, distance, torch.inf).argsort(dim=1, stable=True)
    else:
        order = (~apart).int().argsort(dim=1, stable=True)
    chosen = torch.where(apart, index, -1).gather(1, order[:, : options.neighbors])
    return torch.nn.functional.pad(chosen, (0, options.neighbors - chosen.shape[1]), value=-1)


def _held(device: torch.device) -> int:
    return _CELLS if device.type == "cpu" else _CELLS_ON_GPU


def _slices(count: int, cells: int, device: torch.device) -> Iterator[slice]:
    """Yield slices of ``count`` rows with so many numbers each that fit into memory."""
    step = max(1, _held(device) // cells)
    return (slice(start, start + step) for start in range(0, max(count, 1), step))


def _unit(distance: Tensor, descriptors: Tensor) -> Tensor:
    """Convert distances of descriptors to those of unit vectors, for bits by the angle between their signs."""
    if descriptors.dtype == torch.uint8:
        return 2 * (distance / (8 * descriptors.shape[1])).clamp(max=1).sqrt()
    length = descriptors[:LENGTHS].float().square().sum(1).sqrt()
    usable = length.isfinite()
    mean = torch.where(usable, length, 0).sum() / usable.float().sum().clamp(min=1)
    return torch.where(distance.isfinite(), distance / mean.clamp(min=1e-9), 2).clamp(max=2)


def node_features(
    a: Frames,
    b: Frames,
    found: Candidates,
    back: Candidates,
    options: GraphOptions,
    sizes: Sequence[int] | None = None,
) -> Tensor:
    """Compute the features of candidates (N, K, F): of the distance, of its rivals on both sides, and of the scales.

    Args:
        sizes: keypoints of each image where ``a`` holds several.
    """
    known, column = found.index >= 0, or_first(found.index)
    distance, theirs = _unit(found.distance, b.descriptors), _unit(back.distance, a.descriptors)
    rank = torch.arange(options.candidates, device=column.device).expand_as(column)
    rival_a = torch.where(rank == 0, distance[:, 1:2], distance[:, :1])
    is_best = back.index[column, 0] == torch.arange(a.xy.shape[0], device=column.device)[:, None]
    rival_b = torch.where(is_best, theirs[column, 1], theirs[column, 0])
    to_a, to_b = ((distance / rival.clamp(min=1e-6)).clamp(max=4) for rival in (rival_a, rival_b))
    zoom = (b.scale[column] / a.scale[:, None]).clamp(min=1e-9).log()
    # The median of nearest descriptors is taken off, since images may be of any size.
    nearest_known = found.index[:, 0] >= 0
    first = torch.where(nearest_known, zoom[:, 0], torch.inf)
    if sizes is None:
        median = _median(first, nearest_known)
    else:
        parts = zip(first.split(list(sizes)), nearest_known.split(list(sizes)), sizes, strict=True)
        median = torch.cat([_median(here, there).expand(size) for here, there, size in parts if size])[:, None]
    zoom = torch.where(known, zoom - median, 0) * options.frames
    features = [
        distance,
        1 - distance.square() / 2,
        to_a,
        to_b,
        is_best.float(),
        (rank == 0).float(),
        rank / options.candidates,
        zoom.abs().clamp(max=4),
    ]
    told = torch.stack(features, -1)
    if options.descriptors:
        product = as_vectors(a.descriptors)[:, None] * as_vectors(b.descriptors)[column] * options.descriptors**0.5
        told = torch.cat([told, product], -1)
    return told * known[..., None]


def _median(values: Tensor, known: Tensor) -> Tensor:
    """Return the median (1,) of the values (N,) that are known; the others are infinite."""
    middle = ((known.float().sum() - 1) / 2).clamp(min=0).long()
    return values.sort().values.index_select(0, middle[None])


def fitting_edges(
    a: Frames, b: Frames, index: Tensor, neighbor: Tensor, rows: slice, options: GraphOptions
) -> tuple[Tensor, Tensor]:
    """Find the source (R, K, E) and the features (R, K, E, G) of the edges to the candidates of ``rows``."""
    other = or_first(neighbor[rows])  # (R, E)
    own_known, theirs_known = index[rows] >= 0, index[other] >= 0  # (R, K), (R, E, L): candidates of the neighbors
    own, theirs = or_first(index[rows]), or_first(index[other])
    offset = a.xy[other] - a.xy[rows][:, None]
    length = offset.norm(dim=-1).clamp(min=1e-6)
    if options.frames:
        zoom = (b.scale[own] / a.scale[rows][:, None]).clamp(min=1e-9)[..., None]  # (R, K, 1)
        turn = (b.angle[own] - a.angle[rows][:, None])[..., None]
    else:
        zoom = torch.ones_like(b.scale[own])[..., None]
        turn = torch.zeros_like(zoom)
    cos, sin = zoom * turn.cos(), zoom * turn.sin()
    x, y = offset[:, None].unbind(-1)  # (R, 1, E)
    predicted_x, predicted_y = cos * x - sin * y, sin * x + cos * y
    there_x = b.xy[..., 0][theirs][:, None] - b.xy[own][..., :1, None]  # (R, K, E, L)
    there_y = b.xy[..., 1][theirs][:, None] - b.xy[own][..., 1:, None]
    size = (zoom * length[:, None]).square()[..., None]
    their_zoom = (b.scale[theirs] / a.scale[other][..., None]).clamp(min=1e-9).log()
    change = their_zoom[:, None] - zoom.log()[..., None]
    their_turn = b.angle[theirs] - a.angle[other][..., None]
    alike = their_turn.cos()[:, None] * turn.cos()[..., None] + their_turn.sin()[:, None] * turn.sin()[..., None]
    usable = theirs_known[:, None] & (neighbor[rows] >= 0)[:, None, :, None] & own_known[:, :, None, None]
    if options.frames:
        of_frames = (change / ZOOM).square() - (0.5 + 0.5 * alike).clamp(min=1e-6).log()
    else:
        change, of_frames = torch.zeros_like(change), torch.zeros_like(change)
        their_turn = torch.zeros_like(their_turn)

    def fit(predicted_x: Tensor, predicted_y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        off = (there_x - predicted_x[..., None]).square() + (there_y - predicted_y[..., None]).square()
        off = off / size
        cost = (off / PLACE**2 + of_frames).masked_fill(~usable, 1e9)
        least, best = cost.min(-1, keepdim=True)
        return off, torch.exp(-least[..., 0].clamp(max=60)), best

    def chosen(values: Tensor) -> Tensor:
        return values.expand_as(off).gather(-1, best)[..., 0]

    off, weight, best = fit(predicted_x, predicted_y)
    if options.affine:
        weight = weight * chosen(usable)
        change_x, change_y = _affine_change(
            x, y, chosen(there_x) - predicted_x, chosen(there_y) - predicted_y, weight, length[:, None]
        )
        off, weight, best = fit(predicted_x + change_x, predicted_y + change_y)
    weight = weight * chosen(usable)
    twist = chosen(their_turn[:, None]) - turn
    features = [
        weight,
        chosen(off).sqrt().clamp(max=4),
        chosen(change).clamp(-3, 3),
        torch.cos(twist),
        torch.sin(twist),
        (length / a.scale[rows][:, None]).log1p()[:, None].expand_as(twist),
    ]
    return other[:, None] * options.candidates + best[..., 0], torch.stack(features, -1)


def _affine_change(
    x: Tensor, y: Tensor, off_x: Tensor, off_y: Tensor, weight: Tensor, length: Tensor
) -> tuple[Tensor, Tensor]:
    """Fit the linear map of offsets to residuals by weighted least squares, drawn to zero as by one neighbor; apply it.

    Shape:
        x, y, length (R, 1, E); residuals and weight (R, K, E) -> (R, K, E) twice.
    """
    drawn = length.square().mean(-1)
    xx, xy = (weight * x * x).sum(-1) + drawn, (weight * x * y).sum(-1)
    yy = (weight * y * y).sum(-1) + drawn
    scale = 1 / (xx * yy - xy * xy).clamp(min=1e-12)

    def applied(off: Tensor) -> Tensor:
        ox, oy = (weight * off * x).sum(-1), (weight * off * y).sum(-1)
        by_x, by_y = (yy * ox - xy * oy) * scale, (xx * oy - xy * ox) * scale
        return by_x[..., None] * x + by_y[..., None] * y

    return applied(off_x), applied(off_y)


class GraphNetwork(nn.Module):
    """Rounds of messages between candidates, then one logit of each.

    A message is what a neighbor's candidate tells, by its own state and by how well it fits; a candidate takes sum and maximum
    of the messages, and what its keypoint's other candidates are. Options are those of `GraphOptions`.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__()
        check_options("network 'graph'", options, [each.name for each in dataclasses.fields(GraphOptions)])
        self.options = chosen = GraphOptions(**options)
        width = chosen.width
        self.start = nn.Sequential(
            nn.Linear(NODE_FEATURES + chosen.descriptors, width), nn.SiLU(), nn.Linear(width, width)
        )
        self.layers = nn.ModuleList(Round(chosen) for _ in range(chosen.rounds if chosen.edges else 0))
        self.end = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, 1))

    def forward(self, graph: CandidateGraph) -> Tensor:
        """Compute the logits (N, K) of candidates; minus infinity where there is none."""
        state = self.start(graph.node)
        for layer in self.layers:
            state = layer(state, graph)
        return self.end(state)[..., 0].masked_fill(graph.index < 0, -math.inf)


class Round(nn.Module):
    """One round of messages."""

    def __init__(self, options: GraphOptions) -> None:
        super().__init__()
        self.options, width = options, options.width
        self.norm = nn.LayerNorm(width)
        self.told = nn.Linear(width, width)
        self.asked = nn.Linear(width, width)
        self.fits = nn.Linear(EDGE_FEATURES, width)
        self.mix = nn.Linear(4 * width, 2 * width)
        self.out = nn.Linear(width, width)

    def forward(self, state: Tensor, graph: CandidateGraph) -> Tensor:
        """Compute the next state (N, K, W)."""
        normed = self.norm(state)
        if graph.target is None:
            heard = self.hear_all(normed, graph.source, graph.edge)
        else:
            heard = self._hear_some(normed, graph.target, graph.source, graph.edge)
        return self.update(state, normed, heard)

    def hear_all(self, normed: Tensor, source: Tensor, edge: Tensor) -> Tensor:
        """Compute sum and maximum (N, K, 2 W) of the messages along all edges: source (N, K, E), edge (N, K, E, G)."""
        told, asked = self.told(normed).flatten(0, 1), self.asked(normed)
        weight = torch.where(edge[..., :1] > LEAST_WEIGHT, edge[..., :1], 0)
        parts = []
        cells = 4 * self.options.candidates * self.options.neighbors * self.options.width
        every = [slice(None)]  # an export has no lengths
        for rows in every if torch.compiler.is_exporting() else _slices(len(source), cells, source.device):
            message = nn.functional.silu(told[source[rows]] + asked[rows][:, :, None] + self.fits(edge[rows]))
            message = message * weight[rows]
            parts.append(torch.cat([message.sum(2) / 4, message.amax(2)], -1))
        return torch.cat(parts) if len(parts) > 1 else parts[0]

    def _hear_some(self, normed: Tensor, target: Tensor, source: Tensor, edge: Tensor) -> Tensor:
        """Compute the same of the edges that have weight: target (L,), source (L,), edge (L, G)."""
        told, asked = self.told(normed).flatten(0, 1), self.asked(normed).flatten(0, 1)
        # A candidate without some of the edges hears nothing, 0, there.
        complete = torch.bincount(target, minlength=len(told)) == self.options.neighbors
        most = torch.where(complete[:, None], -math.inf, told.new_zeros(told.shape))
        total = torch.zeros_like(told)
        for part in _slices(len(target), 4 * self.options.width, target.device):
            message = nn.functional.silu(told[source[part]] + asked[target[part]] + self.fits(edge[part]))
            message = message * edge[part, :1]
            total = total.index_add(0, target[part], message)
            most = most.scatter_reduce(0, target[part, None].expand_as(message), message, "amax")
        return torch.cat([total / 4, most], -1).unflatten(0, normed.shape[:2])

    def update(self, state: Tensor, normed: Tensor, heard: Tensor) -> Tensor:
        """Compute the next state of the normed state (N, K, W), and of sum and maximum of the messages (N, K, 2 W)."""
        siblings = (normed.sum(1, keepdim=True) - normed) / (self.options.candidates - 1)
        value, gate = self.mix(torch.cat([normed, heard, siblings], -1)).chunk(2, -1)
        return state + self.out(nn.functional.silu(value) * torch.sigmoid(gate))


def together(there: Tensor, index: Tensor, back: Tensor, back_index: Tensor, one_sided: bool = False) -> Tensor:
    """Take the mean of the logits of each candidate in both directions.

    Minus infinity where it is a candidate in one direction only; ``one_sided`` keeps the logit of that direction there.

    Shape:
        there (N, K), index (N, K), back (M, K), back_index (M, K) -> (N, K).
    """
    rows = torch.arange(index.shape[0], device=index.device)[:, None, None]  # len() would fix it in an export
    column = or_first(index)
    same = (back_index[column] == rows) & (index >= 0)[..., None]  # (N, K, K)
    theirs = torch.where(same, back[column], 0).sum(-1)
    return torch.where(same.any(-1), (there + theirs) / 2, there if one_sided else -torch.inf)


def best_matches(logits: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
    """Select the candidates that are the best of both their keypoints.

    Shape:
        logits (N, K) of `together`, index (N, K) -> rows (M,) and places (M,) of these candidates in the tables, by row; a
        match is there from one of its keypoints or from both.
    """
    best, place = logits.max(1)
    column = or_first(index)
    # What is said of a keypoint in the other direction counts too.
    most = best.scatter_reduce(0, column.flatten(), logits.flatten(), "amax")
    other = column.gather(1, place[:, None])[:, 0]
    rows = torch.nonzero((best > -math.inf) & (best == most) & (best == most[other]))[:, 0]
    return rows, place[rows]


def pair_matches(logits: Tensor, graph: CandidateGraph, one_sided: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Match the images of a graph of one pair.

    Shape:
        logits (N, K) -> keypoints of both images (M, 2), by those of the first, their logit (M,) and distance (M,).
    """
    logits, count = together(logits, graph.index, logits, graph.index, one_sided), graph.sizes[0]
    rows, place = best_matches(logits, graph.index)
    other = graph.index[rows, place]
    first = torch.minimum(rows, other)
    # Where both keypoints have the match, that of the first counts.
    order = (2 * first + (rows > first)).argsort()
    ordered = first[order]
    kept = order[torch.cat([ordered[:1] == ordered[:1], ordered[1:] != ordered[:-1]])]
    rows, place = rows[kept], place[kept]
    matched = torch.stack([first[kept], torch.maximum(rows, graph.index[rows, place]) - count], 1)
    return matched, logits[rows, place], graph.distance[rows, place]
