"""Distillation teacher: networks, their input views, their outputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from patchprint.common.errors import UserError
from patchprint.data.patch_source import PatchSource
from patchprint.networks import weights
from patchprint.networks.blocks import unit_length
from patchprint.networks.network import CHUNK_ON_CPU, PatchNetwork
from patchprint.training.config import TrainConfig


@dataclass(frozen=True)
class Sight:
    """An input view of a keypoint: side of the patch relative to the student's, and its pixels."""

    ratio: float
    size: int

    def widened(self, warp: Tensor) -> Tensor:
        """Scale the warp of ``PatchSource.sample`` to this side, about the same center.

        Shape:
            (..., 2, 3) -> (..., 2, 3).
        """
        return warp if self.ratio == 1 else torch.cat([warp[..., :2] * self.ratio, warp[..., 2:]], -1)


class Teacher(nn.Module):
    """One or several trained networks, in evaluation, without gradients.

    The descriptor of a network is the mean over patches of one or several sides (``sights``), at unit length. Descriptors of
    several networks are concatenated and divided by the root of their number, so that similarities are averaged; descriptors
    could not be, since each training rotates its space at will.

    Shape:
        forward: patches (N, 1, S, S) of each of ``sights``, in their order -> (N, ``dim``), at unit length.
    """

    def __init__(self, networks: Sequence[PatchNetwork], ratios: Sequence[float] = (1.0,), bf16: bool = False) -> None:
        super().__init__()
        self.networks = nn.ModuleList(networks).requires_grad_(False).eval()
        self.bf16 = bf16
        of_each = [[Sight(ratio, each.input_size) for ratio in ratios] for each in networks]
        self.sights = tuple(dict.fromkeys(sight for sights in of_each for sight in sights))
        # By number, since a compiled function reads lists of numbers.
        self._of_each = [[self.sights.index(sight) for sight in sights] for sights in of_each]
        self.dim = sum(each.dim for each in networks)
        self.sha256 = tuple(each.info.sha256 for each in networks)

    @staticmethod
    def load(config: TrainConfig, source: PatchSource, bf16: bool) -> Teacher | None:
        """Load the teacher that ``config`` names, for a student that learns from ``source``; None without one.

        Raises:
            UserError: the source cannot show what the teacher sees, or the weights are not those that the run began with.
        """
        if not config.teacher:
            return None
        networks = [weights.load_network(name, source.device) for name in config.teacher]
        for name, network in zip(config.teacher, networks, strict=True):
            if network.channels != 1 or source.channels != 1:
                raise UserError(f"--teacher {name}: distillation is for patches, not for whole images")
        widest = max(config.teacher_scales, default=0.0)
        if widest > source.patch_scale and source.first_image is None:
            raise UserError(
                f"teacher_scales {widest:g} is wider than the stored patches, which show {source.patch_scale:g} sigma; "
                "give a store that was built from images"
            )
        ratios = [scale / source.patch_scale for scale in config.teacher_scales] or [1.0]
        teacher = Teacher(networks, ratios, bf16)
        if config.teacher_sha256 not in ((), teacher.sha256):
            raise UserError(
                f"--teacher {' '.join(config.teacher)} has other weights than this run began with; "
                "give the file whose checksum is teacher_sha256"
            )
        return teacher.double() if config.precision == "float64" else teacher

    @torch.no_grad()
    def forward(self, seen: Sequence[Tensor]) -> Tensor:
        said = [
            unit_length(torch.stack([_describe(each, seen[number], self.bf16) for number in numbers]).sum(0))
            for each, numbers in zip(self.networks, self._of_each, strict=True)
        ]
        return torch.cat(said, 1) / len(said) ** 0.5

    def look(self, source: PatchSource, points: Tensor, views: Tensor) -> list[Tensor]:
        """Return patches of each of ``sights``, without augmentation.

        Shape:
            points (P,), views (P,) -> (P, 1, S, S) each.
        """
        plain = torch.eye(2, 3, device=points.device).expand(len(points), 1, 2, 3)
        return [source.sample(points, views[:, None], sight.size, sight.widened(plain))[:, 0] for sight in self.sights]


def _describe(network: Any, patches: Tensor, bf16: bool) -> Tensor:
    # Few patches at a time stay in the cache of a CPU; a GPU takes all of them at once, and a recorded step has fewer parts.
    chunk = CHUNK_ON_CPU if patches.device.type == "cpu" else len(patches)
    with torch.autocast(patches.device.type, torch.bfloat16, enabled=bf16, cache_enabled=False):
        raw = [network.forward_features(part, with_maps=False)[0] for part in patches.split(chunk)]
    return network.head(torch.cat(raw))
