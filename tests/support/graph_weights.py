"""Weights of a graph matcher for the features of tests, and keypoints with frames."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

from patchprint.common.types import Features, Keypoints, ModelId
from patchprint.matching.candidate_graph import GraphNetwork
from patchprint.matching.matchers.graph import FORMAT
from patchprint.networks.weights import to_bytes


def random_network(seed: int = 0, **options: Any) -> GraphNetwork:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return GraphNetwork(**options).eval()


def write_weights(
    path: Path,
    model: str = "m",
    sha256: str = "",
    threshold: float = 0.0,
    options: Mapping[str, Any] | None = None,
) -> str:
    """Write random weights for the features of a model; a threshold of 0 keeps all that are mutually best."""
    about = {"format": FORMAT, "model": model, "model_sha256": sha256, "threshold": str(threshold)}
    if options:
        about["options"] = json.dumps(options)
    state = random_network(**(options or {})).state_dict()
    path.write_bytes(to_bytes({name: value.contiguous() for name, value in state.items()}, about))
    return str(path)


def framed(count: int, seed: int = 0, dim: int = 32, bits: bool = False) -> Features:
    """Random keypoints with scales and angles, and random descriptors."""
    generator = torch.Generator().manual_seed(seed)
    xy = torch.rand(count, 2, generator=generator) * 400
    scale = 1 + 5 * torch.rand(count, generator=generator)
    angle = 2 * math.pi * torch.rand(count, generator=generator)
    descriptors = F.normalize(torch.randn(count, dim, generator=generator))
    if bits:
        descriptors = torch.randint(0, 256, (count, dim), dtype=torch.uint8, generator=generator)
    return Features(Keypoints(xy, scale, angle), descriptors, (400, 400), None, ModelId("m"))


def moved(given: Features, turn: float, zoom: float, order: torch.Tensor, noise: float = 0.3) -> Features:
    """The same keypoints in an image that was turned and made larger, in another order, with other descriptors."""
    generator = torch.Generator().manual_seed(9)
    cos, sin = math.cos(turn), math.sin(turn)
    points = given.keypoints
    xy = zoom * points.xy @ torch.tensor([[cos, sin], [-sin, cos]])
    descriptors = given.descriptors
    if descriptors.is_floating_point():
        descriptors = F.normalize(descriptors + noise * torch.randn(descriptors.shape, generator=generator) / 4)
    keypoints = Keypoints(xy + 30, points.scale * zoom, points.angle + turn)
    return Features(keypoints[order], descriptors[order], given.image_size, None, given.model)


def overlapping(seed: int, count: int, others: int, bits: bool = False) -> tuple[Features, Features]:
    """Keypoints of which all but some are in the second image too, in another order, among others."""
    a = framed(count, seed, bits=bits)
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed))[: count - others]
    b, extra = moved(a, 0.4 * seed, 1.3, order), framed(2 * others, 100 + seed, bits=bits)
    points = (torch.cat([getattr(each.keypoints, name) for each in (b, extra)]) for name in ("xy", "scale", "angle"))
    return a, Features(Keypoints(*points), torch.cat([b.descriptors, extra.descriptors]), (900, 900), None, a.model)
