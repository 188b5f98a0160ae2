"""What a run learns: `Task` stands between the loop and the data, `PatchTask` is that of patches and whole images."""

import dataclasses
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from patchprint.common import distributed as ranks
from patchprint.common.errors import UserError
from patchprint.data import open_source
from patchprint.data.patch_source import PatchSource
from patchprint.networks import weights
from patchprint.networks.network import PatchNetwork, TrainingRecord
from patchprint.training import assembly, diagnostics, held_out
from patchprint.training.checkpoint import TrainState
from patchprint.training.config import TrainConfig
from patchprint.training.run_folder import RunFolder
from patchprint.training.step import Step, TrainStep, largest_batch, use_bf16
from patchprint.training.teacher import Teacher


class Task:
    """A network to train, its steps and the judge of its weights; a subclass for each kind of data.

    Attributes:
        config: settings of the run; a task may fill in what follows from its data.
        judge: measures weights on data that are not learned from (``len(judge)`` 0: nothing is measured).
        selected_on: name of the judge's data in logs and in the outcome.
        counted: what ``config.batch`` counts, in the name of the logged speed.
        is_divided: whether all processes must take part in what looks at the data.
    """

    config: TrainConfig
    device: torch.device
    judge: held_out.Judge
    selected_on: str = "nothing"
    counted: str = "samples"
    is_divided: bool = False

    def create_state(self) -> TrainState:
        """Create network, loss and optimizer; ``data`` of the state is a fingerprint of the data."""
        raise NotImplementedError

    def create_step(self, state: TrainState) -> Step:
        """Create the step that trains ``state``."""
        raise NotImplementedError

    def save(self, network: nn.Module, path: Path, name: str, record: TrainingRecord) -> None:
        """Write weights to ``path`` under the name ``name``."""
        raise NotImplementedError

    def evaluated(self, network: nn.Module) -> Any:
        """Return the network as the judge measures it."""
        return network.eval()

    def monitor(self, network: nn.Module) -> dict[str, Tensor]:
        """Return further numbers of the last batch and of ``network``, 0-dim each."""
        return {}

    def fitting_batch(self) -> int | None:
        """Return a smaller batch that fits into memory, or None; asked for when a step did not fit."""
        return None

    def show_validation(self, step: int, folder: RunFolder) -> None:
        """Write what a person looks at beside a validation."""


class PatchTask(Task):
    """Learns descriptors of patches or of whole images.

    Args:
        source, validation: as for `training.train`.
    """

    counted = "patches"

    def __init__(self, config: TrainConfig, source: PatchSource | None, validation: PatchSource | None) -> None:
        self.device = ranks.start(config.device)
        if source is None:
            source = open_source(config.data, self.device, patch_scale=config.patch_scale, divided=config.divide_photos)
        source = source.to(self.device)
        self.teacher = Teacher.load(config, source, use_bf16(config, self.device))
        if self.teacher is not None:
            config = dataclasses.replace(config, teacher_sha256=self.teacher.sha256)
        self.config, self.is_divided = config, source.is_divided
        self.source, self.judge, self.selected_on = _shares(config, source, validation, self.teacher)
        self._step: TrainStep | None = None

    def create_state(self) -> TrainState:
        config, source, teacher = self.config, self.source, self.teacher
        state = assembly.create(config, self.device)
        state.data = source.fingerprint()
        state.divided_among = ranks.world_size() if config.divide_photos else 0
        network, kinds = cast(PatchNetwork, state.network), {1: "patches", 3: "whole images"}
        if network.channels != source.channels:
            learns, given = kinds[network.channels], kinds[source.channels]
            raise UserError(f"network {config.network!r} learns from {learns}, but the data are {given}")
        if teacher and not config.teacher_similarity and teacher.dim != network.dim:
            sizes = f"descriptors of {network.dim} numbers have no cosine to the teacher's of {teacher.dim}"
            raise UserError(f"{sizes}; give teacher_similarity, which compares any")
        return state

    def create_step(self, state: TrainState) -> Step:
        self._step = TrainStep(self.config, self.source, state, self.teacher)
        return self._step

    def save(self, network: nn.Module, path: Path, name: str, record: TrainingRecord) -> None:
        known = cast(PatchNetwork, network)
        info = dataclasses.replace(
            known.info, name=name, training=record, patch_scale=self.source.patch_scale, sha256=""
        )
        weights.save(known, path, info)

    def evaluated(self, network: nn.Module) -> PatchNetwork:
        return cast(PatchNetwork, network).in_evaluation()

    def monitor(self, network: nn.Module) -> dict[str, Tensor]:
        watched = self._watched_norms(cast(PatchNetwork, network)) if self.config.watch else {}
        described = self._step.described if self._step else None
        return watched if described is None else {**diagnostics.monitor(*described), **watched}

    def fitting_batch(self) -> int | None:
        return largest_batch(self.config, self.source)

    def show_validation(self, step: int, folder: RunFolder) -> None:
        if self._step and self._step.described is not None:
            desc, _, label = self._step.described
            folder.append("angles.jsonl", {"step": step, **diagnostics.angle_histograms(desc, label)})

    def _watched_norms(self, network: PatchNetwork) -> dict[str, Tensor]:
        """Return the norm before normalization of ``config.watch`` samples, the first views of points."""
        count = min(self.config.watch, self.source.num_points)
        points = torch.linspace(0, self.source.num_points - 1, count, device=self.device).long()
        views = torch.zeros(count, 1, dtype=torch.int64, device=self.device)
        raw = network.raw(self.source.sample(points, views, network.input_size)[:, 0])
        norms = torch.linalg.vector_norm(raw, dim=1)
        return {f"norm/sample-{number}": norm for number, norm in enumerate(norms)}


def _shares(
    config: TrainConfig, source: PatchSource, validation: PatchSource | None, teacher: Teacher | None
) -> tuple[PatchSource, held_out.Judge, str]:
    """Return the points to learn from, the judge that selects weights, and the name of its data."""
    most, seed = config.validation_pairs, config.seed
    if config.select_on_test and validation is None:
        judge = held_out.create_for_test_sets(config.select_on_test, source.device, source.patch_scale, most, seed)
        return source.learnable(), judge, "test"
    if validation is not None:
        points, unseen = source, validation.to(source.device)
    elif config.hold_out:
        points, unseen = source.split("train"), source.split("val")
    else:
        points, unseen = source.learnable(), source.select(torch.zeros(0, dtype=torch.int64))
    judge = held_out.create(unseen, most, seed, teacher)
    return points, judge, "validation" if len(judge) else "nothing"
