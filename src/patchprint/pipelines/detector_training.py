"""Train the detector `learned` on images alone: crops and their turned, zoomed, tilted and re-lit copies."""

import dataclasses
import functools
import json
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from patchprint.common import distributed as ranks
from patchprint.common.devices import choose_device
from patchprint.common.errors import UserError
from patchprint.common.files import atomic_file
from patchprint.data.builders.crop_pairs import CropPair, draw_crop_pair
from patchprint.detectors import strongest_first
from patchprint.detectors._learned_networks import (
    INVARIANTS,
    KeypointNetworks,
    build_pyramid,
    invariants,
    load_networks,
)
from patchprint.detectors.learned import add_angles, find_peaks
from patchprint.interop.images import list_images, read_gray
from patchprint.metrics.correspondence import within_pixels
from patchprint.networks.network import TrainingRecord
from patchprint.networks.weights import to_bytes
from patchprint.ops.geometry import inside, transport, wrap_angle
from patchprint.pipelines.detector_losses import FOUND, MARGIN, view_losses
from patchprint.pipelines.training_run import resumed_config, train_task
from patchprint.training import assembly
from patchprint.training.checkpoint import TrainState
from patchprint.training.config import TrainConfig
from patchprint.training.held_out import Measured
from patchprint.training.loop import Outcome
from patchprint.training.step import Step
from patchprint.training.task import Task

RECIPE = "detector"
LEVELS = 5  # of the pyramid of a crop; coarser ones are too small to learn from
DENSITIES = (0.002, 0.004, 0.004, 0.007)  # keypoints for each pixel
PLACE = 0.3  # weight of the loss of the place
HELD_OUT = 10  # one of so many images is held out
JUDGED, JUDGED_DENSITY = 24, 0.004  # pairs of held-out images, and keypoints for each pixel
_LOOKS = 6  # pairs from which the usual values of the invariants are taken
_IN_MEMORY = 1024  # images kept decoded


@dataclass(frozen=True, kw_only=True)
class DetectorSettings:
    """How a detector is trained."""

    # Training steps.
    steps: int = 1000
    # Pairs of crops in a batch.
    batch: int = 6
    # Side of a crop in pixels.
    side: int = 192
    # Highest learning rate of the one cycle.
    lr: float = 4e-3
    # Steps between validations and checkpoints.
    validate_every: int = 200
    # Hold one of ten images out, to choose the best weights; without it the last weights are taken.
    hold_out: bool = True
    # Weights of a detector to start from.
    init: Path | None = None
    # Seed of everything random.
    seed: int = 0
    # cpu, cuda, mps or auto.
    device: str = "auto"

    def config(self, data: Sequence[str | Path]) -> TrainConfig:
        """Return the settings of the run."""
        if not data:
            raise UserError("patchprint train detector needs --data IMAGES, one or more folders of images")
        return TrainConfig(
            RECIPE, "learned", "found-again", data=tuple(map(str, data)), steps=self.steps, batcher="",
            batch=self.batch, views=2, lr=self.lr, optimizer="adamw", weight_decay=1e-4, schedule="one-cycle", seed=self.seed,
            batcher_options={"side": self.side}, hold_out=self.hold_out, init=None if self.init is None else str(self.init),
            validate_every=self.validate_every, checkpoint_every=self.validate_every,
            log_every=max(1, min(50, self.steps // 20)), device=self.device,
        )  # fmt: skip


def train_detector(
    data: Sequence[str | Path] = (),
    *,
    out: str | Path,
    settings: DetectorSettings | None = None,
    resume: bool = False,
    force: bool = False,
) -> Outcome:
    """Train a detector on folders of images into the folder ``out``, and write a report.

    Args:
        data: folders with images.
        out: folder of the run; its ``best.safetensors`` is then the name of a detector.
        settings: how to train.
        resume: go on from the last checkpoint in ``out``, with the settings and the data of that run.
        force: replace a run that is in ``out`` already.
    """
    config = resumed_config(out, RECIPE, data) if resume else (settings or DetectorSettings()).config(data)
    return train_task(DetectorTask(config), out=out, resume=resume, force=force)


class DetectorTask(Task):
    """Learns scores and angles of keypoints."""

    counted = "crops"

    def __init__(self, config: TrainConfig) -> None:
        if ranks.world_size() > 1:
            raise UserError("a detector is trained by one process; start it without torchrun")
        self.config, self.device = config, choose_device(config.device)
        paths = [Path(folder) / name for folder in config.data for name in list_images(folder)]
        held_out = paths[HELD_OUT // 2 :: HELD_OUT] if config.hold_out else []
        self.paths = [path for path in paths if path not in set(held_out)]
        if not self.paths:
            raise UserError(f"{', '.join(config.data)} holds no image to learn from")
        self.judge = HeldOutCrops(held_out, int(config.batcher_options["side"]))
        self.selected_on = "validation" if len(self.judge) else "nothing"

    def create_state(self) -> TrainState:
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(self.config.seed)
            network = KeypointNetworks()
        if self.config.init:
            network.load_state_dict(load_networks(self.config.init).state_dict())
        else:
            self._set_usual_values(network)
        network = network.to(self.device).train()
        optimizer = assembly.create_optimizer(self.config, network)
        data = f"{len(self.paths)} images from {self.paths[0].name} to {self.paths[-1].name}"
        return TrainState(network, nn.Identity(), optimizer, None, data=data)

    def create_step(self, state: TrainState) -> Step:
        return _DetectorStep(self.config, state, self.device, self.paths)

    def save(self, network: nn.Module, path: Path, name: str, record: TrainingRecord) -> None:
        about = {"format": "patchprint detector", "name": name, "training": json.dumps(dataclasses.asdict(record))}
        state = {key: value.detach().cpu().contiguous() for key, value in network.state_dict().items()}
        with atomic_file(path) as temporary:
            temporary.write_bytes(to_bytes(state, about))

    def _set_usual_values(self, network: KeypointNetworks) -> None:
        """Take mean and deviation of the invariants from some crops."""
        generator, values = np.random.default_rng(self.config.seed), []
        for _ in range(_LOOKS):
            pair = _draw(generator, self.paths, int(self.config.batcher_options["side"]))
            for image in (pair.first, pair.second):
                values += [
                    invariants(level)[0].reshape(INVARIANTS, -1)[:, ::7] for level in build_pyramid(image)[:LEVELS]
                ]
        everything = torch.from_numpy(np.concatenate(values, 1))
        network.score.center.copy_(everything.mean(1))
        network.score.spread.copy_(everything.std(1))


class _DetectorStep(Step):
    """Losses of a batch of pairs of crops, which threads draw and look at."""

    def __init__(self, config: TrainConfig, state: TrainState, device: torch.device, paths: list[Path]) -> None:
        super().__init__(config, state, device)
        self.paths, self.side, self._device = paths, int(config.batcher_options["side"]), device
        # Threads prepare the crops beside a GPU alone: each would keep the memory that it frees, as the loop does on a CPU.
        self._map: Callable[..., Iterable[Any]] = ThreadPoolExecutor().map if device.type == "cuda" else map

    def compute_losses(self) -> dict[str, Tensor]:
        network, step = cast(KeypointNetworks, self.state.network), int(self.step)
        seeds = [[self.config.seed, step, number] for number in range(self.config.batch)]
        pairs, pyramids, looks = zip(*self._map(self._look, seeds), strict=True)
        scores = []  # of the levels, (2 B, h, w)
        for level in range(len(looks[0][0])):
            found = [each[view][level] for view in (0, 1) for each in looks]
            shape = found[0][1].shape
            values = torch.from_numpy(np.concatenate([each.reshape(INVARIANTS, -1) for each, _ in found], 1))
            base = torch.from_numpy(np.concatenate([each.ravel() for _, each in found]))
            scores.append(network.score(values.to(self._device), base.to(self._device)).view(-1, *shape))
        generator = np.random.default_rng([self.config.seed, step])
        parts = []
        for number, (pair, pyramid) in enumerate(zip(pairs, pyramids, strict=True)):
            here = [[level[number + view * len(pairs)] for level in scores] for view in (0, 1)]
            parts.append(view_losses(pair, pyramid, here, float(generator.choice(DENSITIES)), network.angle))
        found = [each for each in parts if each is not None]
        nothing = sum((0.0 * value.sum() for value in network.parameters()), torch.zeros((), device=self._device))
        losses = {
            name: torch.stack([each[name] for each in found]).mean() if found else nothing
            for name in ("selection", "place", "angle")
        }
        return {"total": losses["selection"] + PLACE * losses["place"] + losses["angle"], **losses}

    def _look(
        self, seed: list[int]
    ) -> tuple[CropPair, list[list[np.ndarray]], list[list[tuple[np.ndarray, np.ndarray]]]]:
        pair = _draw(np.random.default_rng(seed), self.paths, self.side)
        pyramids = [build_pyramid(image) for image in (pair.first, pair.second)]
        return pair, pyramids, [[invariants(level) for level in pyramid[:LEVELS]] for pyramid in pyramids]


class HeldOutCrops:
    """Pairs of crops of held-out images: keypoints that are not found again, and angles that are off."""

    def __init__(self, paths: list[Path], side: int) -> None:
        generator = np.random.default_rng(0)
        self.pairs = [_draw(generator, paths, side) for _ in range(JUDGED)] if paths else []

    def __len__(self) -> int:
        return len(self.pairs)

    def measure(self, network: nn.Module) -> Measured:
        learned = cast(KeypointNetworks, network)
        lost, turned = zip(*(_judge(pair, learned) for pair in self.pairs), strict=True)
        return {"unrepeated": float(np.mean(lost)), "turned": float(np.mean(np.concatenate(turned)))}


@torch.no_grad()
def _judge(pair: CropPair, network: KeypointNetworks) -> tuple[float, np.ndarray]:
    """Share of the keypoints of a pair that are not found again, and which angles of the others are off by 20 degrees."""
    count, found = round(JUDGED_DENSITY * pair.first.size), []
    for image in (pair.first, pair.second):
        pyramid = build_pyramid(image)
        peaks, _ = find_peaks(image.shape, [_score(network, level) for level in pyramid])
        found.append(add_angles(pyramid, strongest_first(peaks, count), network.angle))
    there = transport(found[0], pair.homography)
    core = tuple(side - 2 * MARGIN for side in pair.first.shape)
    ahead, back = there.xy.double().numpy(), transport(found[1], np.linalg.inv(pair.homography)).xy.double().numpy()
    visible = min(int(inside(points - MARGIN, core).sum()) for points in (ahead, back))
    again = within_pixels(there, found[1], np.eye(3), FOUND)
    error = wrap_angle(found[1].angle[again.columns] - there.angle[again.rows]).abs().numpy()
    return 1 - min(1.0, again.one_to_one() / max(1, visible)), np.degrees(error) > 20


def _score(network: KeypointNetworks, level: np.ndarray) -> np.ndarray:
    device = network.score.center.device
    if device.type == "cpu":
        return network.score.of_level(level)
    values, base = (torch.from_numpy(each).to(device) for each in invariants(level))
    return network.score(values.flatten(1), base.flatten()).view(level.shape).cpu().numpy()


def _draw(generator: np.random.Generator, paths: list[Path], side: int) -> CropPair:
    return draw_crop_pair(generator, lambda: _read(paths[generator.integers(len(paths))]), side)


@functools.lru_cache(_IN_MEMORY)
def _read(path: Path) -> np.ndarray:
    return read_gray(path)
