"""Train the detector `learned` on images alone: crops and their turned, zoomed, tilted and re-lit copies."""

import copy
import dataclasses
import functools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from patchprint.common import distributed as ranks
from patchprint.common.devices import choose_device
from patchprint.common.errors import UserError
from patchprint.common.files import atomic_file
from patchprint.common.safe_io import safe_join
from patchprint.common.types import Keypoints
from patchprint.data.builders.crop_pairs import CropPairs, ImagePair, draw_crop_pairs
from patchprint.data.builders.planes import Planes, read_planes
from patchprint.detectors._learned_networks import (
    RADII,
    REACH,
    WIDTHS,
    KeypointNetworks,
    build_pyramid,
    invariants,
    load_networks,
)
from patchprint.features import load
from patchprint.features.model import NetworkModel
from patchprint.interop.images import limit_size, list_images, read_gray
from patchprint.networks.network import TrainingRecord
from patchprint.networks.weights import to_bytes
from patchprint.ops.sampling import ImagePyramids, cut_patches
from patchprint.pipelines.detector_losses import Describe, measure, pair_losses
from patchprint.pipelines.training_run import resumed_config, train_task
from patchprint.training import assembly, checkpoint
from patchprint.training.checkpoint import TrainState
from patchprint.training.config import TrainConfig
from patchprint.training.held_out import Measured
from patchprint.training.loop import Outcome
from patchprint.training.step import Step
from patchprint.training.task import Task

RECIPE = "detector"
LEVELS = 7  # of the pyramid of a crop, where it is large enough
DENSITIES = (0.002, 0.004, 0.004, 0.007)  # keypoints for each pixel
PLACE = 0.3  # weight of the loss of the place
HELD_OUT = 10  # one of so many images is held out
JUDGED, JUDGED_DENSITY = 48, 0.004  # pairs of held-out images, and keypoints for each pixel
SIDE = 1024  # larger images are made smaller
_LOOKS = 6  # pairs from which the usual values of the invariants are taken
_IN_MEMORY = 4096  # images kept decoded


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
    # Share of pairs of two images, where --data has planes (data build planes); the others are copies of one image.
    real: float = 0.5
    # Model whose descriptors should tell the keypoints apart; none: found again is enough.
    model: str = "patchprint.tiny"
    # Widths of the layers of the score network, then of the angle network; pixels of the circles that the angle is read from.
    widths: tuple[int, int, int, int] = WIDTHS
    radii: tuple[float, ...] = RADII
    # Directions of 32 that a layer of the angle network sees together.
    reach: int = REACH
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
        if not 0 <= self.real <= 1:
            raise UserError(f"--real is {self.real:g}; it is a share from 0 to 1")
        if not data:
            raise UserError("patchprint train detector needs --data IMAGES, one or more folders of images")
        return TrainConfig(
            RECIPE, "learned", "found-again", data=tuple(map(str, data)), steps=self.steps, batcher="",
            batch=self.batch, views=2, lr=self.lr, optimizer="adamw", weight_decay=1e-4, schedule="one-cycle", seed=self.seed,
            network_options={"widths": self.widths, "radii": self.radii, "reach": self.reach},
            batcher_options={"side": self.side, "real": self.real, "model": self.model}, hold_out=self.hold_out,
            init=None if self.init is None else str(self.init), validate_every=self.validate_every,
            checkpoint_every=self.validate_every, log_every=max(1, min(50, self.steps // 20)), device=self.device,
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
        options = config.batcher_options
        self.side, real, model = int(options["side"]), float(options["real"]), str(options["model"])
        folders = [ImageFolder.read(Path(folder)) for folder in config.data]
        held_out = [folder.every(HELD_OUT, HELD_OUT // 2) for folder in folders] if config.hold_out else []
        learned = (
            [folder.every(HELD_OUT, HELD_OUT // 2, others=True) for folder in folders] if config.hold_out else folders
        )
        self.images = Images(learned, real)
        if not self.images.paths:
            raise UserError(f"{', '.join(config.data)} holds no image to learn from")
        self.describe = None if model == "none" else describer(model, self.device)
        self.judge = HeldOutCrops(Images(held_out, real), self.side, self.device)
        self.selected_on = "validation" if len(self.judge) else "nothing"

    def create_state(self) -> TrainState:
        if self.config.init:
            network = copy.deepcopy(load_networks(self.config.init)).requires_grad_(True)
        else:
            with torch.random.fork_rng(devices=[]):
                torch.default_generator.manual_seed(self.config.seed)
                network = KeypointNetworks(**self.config.network_options)
            self._set_usual_values(network)
        network = network.to(self.device).train()
        optimizer = assembly.create_optimizer(self.config, network)
        paths = self.images.paths
        data = f"{len(paths)} images from {paths[0].name} to {paths[-1].name}, {self.images.num_planes} planes"
        average = {name: value.clone() for name, value in checkpoint.averaged(network).items()}
        return TrainState(network, nn.Identity(), optimizer, average if self.config.average else None, data=data)

    def create_step(self, state: TrainState) -> Step:
        return _DetectorStep(self.config, state, self.device, self.images, self.describe)

    def save(self, network: nn.Module, path: Path, name: str, record: TrainingRecord) -> None:
        about = {"format": "patchprint detector", "name": name, "training": json.dumps(dataclasses.asdict(record))}
        state = {key: value.detach().cpu().contiguous() for key, value in network.state_dict().items()}
        with atomic_file(path) as temporary:
            temporary.write_bytes(to_bytes(state, about))

    def _set_usual_values(self, network: KeypointNetworks) -> None:
        """Take mean and deviation of the invariants from some crops."""
        pairs = draw_crop_pairs(self.images.draw, [self.config.seed], _LOOKS, self.side)
        values = [invariants(level)[0][:-1].flatten(1)[:, ::7] for level in build_pyramid(pairs.views, LEVELS)]
        everything = torch.cat(values, 1)
        network.score.center.copy_(everything.mean(1))
        network.score.spread.copy_(everything.std(1))


class _DetectorStep(Step):
    """Losses of a batch of pairs of crops."""

    def __init__(
        self, config: TrainConfig, state: TrainState, device: torch.device, images: "Images", describe: Describe | None
    ) -> None:
        super().__init__(config, state, device)
        self._images, self._device, self._describe = images, device, describe

    def compute_losses(self) -> dict[str, Tensor]:
        network, step = cast(KeypointNetworks, self.state.network), self.state.step
        seed, side = [self.config.seed, step], int(self.config.batcher_options["side"])
        pairs = draw_crop_pairs(self._images.draw, seed, self.config.batch, side, self._device)
        pyramid, scores = _scores(network, pairs)
        drawn = np.random.default_rng([*seed, 1]).choice(DENSITIES, self.config.batch)
        density = torch.from_numpy(drawn).float().to(self._device)
        losses = pair_losses(pairs, pyramid, scores, density, network.angle, self._describe)
        return {"total": losses["selection"] + PLACE * losses["place"] + losses["angle"], **losses}


class HeldOutCrops:
    """Pairs of crops of held-out images: keypoints that are not found again, and angles that are off."""

    def __init__(self, images: "Images", side: int, device: torch.device) -> None:
        batches = range(JUDGED // 8) if images.paths else []
        self.batches = [draw_crop_pairs(images.draw, [number], 8, side, device) for number in batches]

    def __len__(self) -> int:
        return sum(len(pairs.homography) for pairs in self.batches)

    @torch.no_grad()
    def measure(self, network: nn.Module) -> Measured:
        learned, found = cast(KeypointNetworks, network), []
        for pairs in self.batches:
            pyramid, scores = _scores(learned, pairs)
            density = torch.full((len(pairs.homography),), JUDGED_DENSITY, device=pairs.views.device)
            found.append(measure(pairs, scores, pyramid, density, learned.angle))
        return {name: float(np.mean([each[name] for each in found])) for name in found[0]}


def _scores(network: KeypointNetworks, pairs: CropPairs) -> tuple[list[Tensor], list[Tensor]]:
    """Return pyramid and scores of the views of a batch."""
    pyramid = build_pyramid(pairs.views, LEVELS)
    with torch.no_grad():
        looks = [invariants(level) for level in pyramid]
    return pyramid, network.score.of_pyramid(pyramid, looks)


@dataclass(frozen=True, eq=False)
class ImageFolder:
    """Images of a folder, and the planes that pairs of them show."""

    paths: list[Path]
    planes: Planes | None

    @staticmethod
    def read(folder: Path) -> "ImageFolder":
        planes = read_planes(folder)
        names = list_images(folder) if planes is None else planes.names
        return ImageFolder([safe_join(folder, name, folder) for name in names], planes)

    def every(self, step: int, start: int, others: bool = False) -> "ImageFolder":
        """Select each ``step``-th image, or the others, and the planes of them alone."""
        chosen = (np.arange(len(self.paths)) % step == start) != others
        if self.planes is None:
            return ImageFolder([path for path, use in zip(self.paths, chosen, strict=True) if use], None)
        number = np.cumsum(chosen) - 1
        rows = chosen[self.planes.images].all(1)
        kept = [name for name, use in zip(self.planes.names, chosen, strict=True) if use]
        images = number[self.planes.images[rows]]
        planes = Planes(kept, images, self.planes.homography[rows], self.planes.disc[rows])
        return ImageFolder([path for path, use in zip(self.paths, chosen, strict=True) if use], planes)


class Images:
    """Images to cut pairs of crops from: two of them where planes are known, in a share ``real`` of the pairs."""

    def __init__(self, folders: Sequence[ImageFolder], real: float) -> None:
        self.paths = [path for folder in folders for path in folder.paths]
        self._planes = [folder for folder in folders if folder.planes is not None and len(folder.planes)]
        self.num_planes = sum(len(cast(Planes, folder.planes)) for folder in self._planes)
        # A scene has its share by the root of its planes, so that one with many does not drown the others.
        weight = np.array([len(cast(Planes, folder.planes)) ** 0.5 for folder in self._planes])
        self._real, self._weight = real if self._planes else 0.0, weight / max(1e-9, weight.sum())

    def draw(self, generator: np.random.Generator) -> ImagePair:
        if generator.random() >= self._real:
            image = _read(self.paths[generator.integers(len(self.paths))])
            return ImagePair((image, image), np.eye(3))
        folder = self._planes[generator.choice(len(self._planes), p=self._weight)]
        planes = cast(Planes, folder.planes)
        row = int(generator.integers(len(planes)))
        first, second = (_read(folder.paths[number], None) for number in planes.images[row])  # in pixels of the file
        center, radius = planes.disc[row, :2], float(planes.disc[row, 2])
        return ImagePair((first, second), planes.homography[row], center, radius)


def describer(name: str, device: torch.device) -> Describe:
    """Return what computes descriptors of keypoints in a batch of views, by the model of this name."""
    model = load(name, device, engine="float32")
    if not isinstance(model, NetworkModel):
        raise UserError(f"--model {name} has no network; give one of patchprint models, or none")

    def describe(views: Tensor, image: Tensor, xy: Tensor, scale: Tensor, angle: Tensor) -> Tensor:
        pyramids = ImagePyramids.build(list(views.round().to(torch.uint8)), device)
        keypoints = Keypoints(xy, scale, angle)
        patches = cut_patches(pyramids, image, keypoints, model.patch_scale, model.input_size)
        return model.network.describe(patches)

    return describe


@functools.lru_cache(_IN_MEMORY)
def _read(path: Path, side: int | None = SIDE) -> np.ndarray:
    image = read_gray(path)
    return image if side is None else limit_size(image, side)
