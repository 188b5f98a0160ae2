"""The graph matcher as one ONNX file, with inputs and outputs as OpenCV 5 and COLMAP 4 expect them of LightGlue.

Both tools have a place for a learned matcher, and both fix the names and shapes of what goes in and comes out:

- ``opencv``: ``cv2.LightGlueMatcher``. Its size of images is to be left out, so that positions are in pixels; scale and angle
  are the last two columns of the descriptors.
- ``colmap``: ALIKED with LightGlue, whose descriptors may have any width; scale and angle are their last two columns.
- ``colmap-sift``: SIFT with LightGlue, which has inputs for scale and angle; COLMAP makes RootSIFT of the descriptors itself.

The file computes all edges and whole matrices of distances: memory grows with the square of the number of keypoints.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from patchprint.common.errors import UserError
from patchprint.common.files import atomic_file
from patchprint.interop.onnx import export_program
from patchprint.matching.candidate_graph import (
    SAME_PLACE,
    Candidates,
    Frames,
    GraphOptions,
    Round,
    fitting_edges,
    node_features,
    or_first,
    together,
    with_support,
)
from patchprint.matching.matchers.graph import GraphWeights

Contract = Literal["opencv", "colmap", "colmap-sift"]
CONTRACTS: tuple[Contract, ...] = get_args(Contract)
OUTPUTS = ("matches0", "mscores0")
_FAR = 1e18  # squared distance of what is not there


def input_names(contract: Contract) -> list[str]:
    """Names of the inputs, in the order in which the tool gives them."""
    kinds = ["kpts", "desc"]
    if contract != "opencv":
        kinds.append("image_size")
    if contract == "colmap-sift":
        kinds += ["scales", "oris"]
    return [f"{kind}{side}" for kind in kinds for side in (0, 1)]


def export_matcher(learned: GraphWeights, dim: int, contract: Contract, path: str | Path) -> None:
    """Write a matcher of descriptors of ``dim`` numbers; raises UserError for a tool that is not known."""
    if contract not in CONTRACTS:
        raise UserError(f"unknown tool {contract!r}; known are {', '.join(CONTRACTS)}")
    options = learned.network.options
    if options.one_sided or options.by_scale or options.descriptors:
        raise UserError(f"a network with the options {options.changed()} cannot be exported")
    if dim < 1:
        raise UserError("OpenCV and COLMAP match descriptors of floats; packed bits cannot be exported")
    about: Mapping[str, str] = {
        "model": learned.model.name,
        "model_sha256": learned.model.sha256,
        "threshold": f"{learned.threshold:g}",
        "contract": contract,
    }
    width = dim if contract == "colmap-sift" else dim + 2
    counts = [torch.export.Dim("keypoints0", min=2), torch.export.Dim("keypoints1", min=2)]
    shapes = {"kpts": (2,), "desc": (width,), "image_size": (), "scales": (), "oris": ()}
    examples: list[Tensor] = []
    dynamic: list[dict[int, torch.export.Dim]] = []
    for name in input_names(contract):
        side = int(name[-1])
        if name[:-1] == "image_size":
            examples.append(torch.tensor([[640.0, 480.0]]))
            dynamic.append({})
        else:
            examples.append(torch.rand(1, 50 + side, *shapes[name[:-1]]) + 1)
            dynamic.append({1: counts[side]})
    module = _Exported(learned, contract).eval()
    content = export_program(module, tuple(examples), input_names(contract), OUTPUTS, (tuple(dynamic),), about)
    with atomic_file(path) as temporary:
        temporary.write_bytes(content)


class _Exported(nn.Module):
    """The matcher on whole tensors, with no shape that depends on values."""

    def __init__(self, learned: GraphWeights, contract: Contract) -> None:
        super().__init__()
        self.network, self.threshold, self.contract = learned.network, learned.threshold, contract

    def forward(self, *inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Match.

        Returns:
            OpenCV: pairs (N, 2), of which the second is -1 where a keypoint has no match; COLMAP: (N,), -1 where there is
            none; and the probabilities (N,).
        """
        given = dict(zip(input_names(self.contract), inputs, strict=True))
        a, b = (self._frames(given, side) for side in "01")
        options = self.network.options
        there, back = _nearest(a, b, options), _nearest(b, a, options)
        forward, backward = self._logits(a, b, there, back), self._logits(b, a, back, there)
        mine = together(forward, there.index, backward, back.index)
        theirs = together(backward, back.index, forward, there.index)
        best, place = mine.max(1)
        column = there.index.gather(1, place[:, None])[:, 0]
        score = torch.sigmoid(best)
        kept = (best >= theirs.amax(1)[or_first(column)]) & (score >= self.threshold)
        matched = torch.where(kept, column, -1)
        score = torch.where(kept, score, 0.0)
        if self.contract == "opencv":
            matched = torch.stack([torch.arange(matched.shape[0]), matched], 1)
        return matched, score

    def _frames(self, given: Mapping[str, Tensor], side: str) -> Frames:
        xy, descriptors = given[f"kpts{side}"][0], given[f"desc{side}"][0]
        if self.contract == "colmap-sift":
            return Frames(xy, given[f"scales{side}"][0], given[f"oris{side}"][0], descriptors)
        return Frames(xy, descriptors[:, -2], descriptors[:, -1], descriptors[:, :-2])

    def _logits(self, a: Frames, b: Frames, found: Candidates, back: Candidates) -> Tensor:
        options = self.network.options
        node = node_features(a, b, found, back, options)
        if not options.edges:
            state = self.network.start(with_support(node, None))
        else:
            source, edge = fitting_edges(a, b, found.index, _nearest_places(a, options), slice(None), options)
            state = self.network.start(with_support(node, edge[..., 0]))
            for layer in self.network.layers:
                assert isinstance(layer, Round)
                normed = layer.norm(state)
                state = layer.update(state, normed, layer.hear_all(normed, source, edge))
        return self.network.end(state)[..., 0].masked_fill(found.index < 0, -1e9)


def _nearest(a: Frames, b: Frames, options: GraphOptions) -> Candidates:
    """Find the nearest descriptors, index -1 where there are fewer."""
    one, other = a.descriptors, b.descriptors
    squared = one.square().sum(1)[:, None] + other.square().sum(1) - 2 * one @ other.T
    squared = nn.functional.pad(squared, (0, options.candidates), value=_FAR)
    found = squared.topk(options.candidates, dim=1, largest=False)
    there = found.values < _FAR
    return Candidates(found.values.clamp(min=0).sqrt(), torch.where(there, found.indices, -1))


def _nearest_places(a: Frames, options: GraphOptions) -> Tensor:
    """Find the nearest keypoints at other places, as `candidate_graph.nearest_places` does."""
    x, y = a.xy.unbind(1)
    squared = (x[:, None] - x).square() + (y[:, None] - y).square()
    squared = torch.where(squared > (SAME_PLACE * a.scale).square()[:, None], squared, _FAR)
    found = nn.functional.pad(squared, (0, options.neighbors), value=_FAR).topk(options.neighbors, dim=1, largest=False)
    return torch.where(found.values < _FAR, found.indices, -1)
