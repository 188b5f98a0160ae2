"""Distillation teacher: trained networks and what they give a student's patches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from patchprint.common.errors import UserError
from patchprint.data.patch_source import PatchSource
from patchprint.networks import weights
from patchprint.networks.blocks import unit_length
from patchprint.networks.network import CHUNK_ON_CPU, PatchNetwork
from patchprint.training.config import TrainConfig


class Teacher(nn.Module):
    """One or several trained networks, in evaluation, without gradients.

    Descriptors of several networks are concatenated and divided by the root of their number, so that similarities are averaged;
    descriptors could not be, since each training rotates its space at will.

    Shape:
        forward: patches (N, 1, S, S) of each of ``sizes``, in their order -> (N, ``dim``), at unit length.
    """

    def __init__(self, networks: Sequence[PatchNetwork], bf16: bool = False) -> None:
        super().__init__()
        self.networks = nn.ModuleList(networks).requires_grad_(False).eval()
        self.bf16 = bf16
        self.sizes = tuple(dict.fromkeys(each.input_size for each in networks))
        self.dim = sum(each.dim for each in networks)
        self.sha256 = tuple(each.info.sha256 for each in networks)
        # By number, since a compiled function reads lists of numbers.
        self._size_of_each = [self.sizes.index(each.input_size) for each in networks]

    @staticmethod
    def load(config: TrainConfig, source: PatchSource, bf16: bool) -> Teacher | None:
        """Load the teacher that ``config`` names, for a student that learns from ``source``; None without one.

        Raises:
            UserError: the source holds whole images, or the weights are not those that the run began with.
        """
        if not config.teacher:
            return None
        networks = [weights.load_network(name, source.device) for name in config.teacher]
        for name, network in zip(config.teacher, networks, strict=True):
            if network.channels != 1 or source.channels != 1:
                raise UserError(f"--teacher {name}: distillation is for patches, not for whole images")
        teacher = Teacher(networks, bf16)
        if config.teacher_sha256 not in ((), teacher.sha256):
            names = " ".join(config.teacher)
            raise UserError(
                f"--teacher {names} has other weights than this run began with; give those of teacher_sha256"
            )
        return teacher.double() if config.precision == "float64" else teacher

    @torch.no_grad()
    def forward(self, seen: Sequence[Tensor]) -> Tensor:
        pairs = zip(self.networks, self._size_of_each, strict=True)
        taught = [_describe(network, seen[number], self.bf16) for network, number in pairs]
        return torch.cat(taught, 1) / len(taught) ** 0.5


def _describe(network: Any, patches: Tensor, bf16: bool) -> Tensor:
    # Few patches at a time stay in the cache of a CPU; a GPU takes all of them at once, and a recorded step has fewer parts.
    chunk = CHUNK_ON_CPU if patches.device.type == "cpu" else len(patches)
    with torch.autocast(patches.device.type, torch.bfloat16, enabled=bf16, cache_enabled=False):
        raw = [network.forward_features(part, with_maps=False)[0] for part in patches.split(chunk)]
    # Of unit length already; done again, the last digits are those of the runs that made the shipped students.
    return unit_length(network.head(torch.cat(raw)))
