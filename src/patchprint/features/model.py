"""Models that describe patches and keypoints: trained networks and baselines."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from patchprint.common.devices import choose_device, single_thread
from patchprint.common.errors import UserError
from patchprint.common.types import Keypoints, KeypointsLike, ModelId
from patchprint.features.compress import sign_bits
from patchprint.networks import ModelInfo, PatchNetwork, engines, weights
from patchprint.networks.network import CHUNK_ON_CPU, Kind
from patchprint.ops.sampling import ImagePyramids, cut_patches, lazy_patches

DEFAULT_MODEL = "patchprint"
LOWE_RATIO = 0.8  # threshold of the ratio test that Lowe chose for SIFT
_CHUNK = {"cpu": 1024, "cuda": 1 << 16}  # keypoints whose patches are in memory at a time
_PIXELS_OF_BATCH = 1 << 26  # of images whose pyramids are on a GPU at a time


class ModelBase:
    """Name, checksum, kind and dimension of a model: of patches (`Model`), of images (`ImageModel`), of a whole pipeline.

    Attributes:
        info: all that is known about it: training, license and what the properties say.
    """

    info: ModelInfo

    def __repr__(self) -> str:
        what = "bits" if self.kind == "binary" else "floats"
        return f"{type(self).__name__}({self.info.name}, {self.dim} {what})"

    @property
    def id(self) -> ModelId:
        """Name and checksum of the weights."""
        return ModelId(self.info.name, self.info.sha256)

    @property
    def kind(self) -> Kind:
        """ "float" (unit vectors, compared by Euclidean distance) or "binary" (packed bits, Hamming distance)."""
        return self.info.kind

    @property
    def dim(self) -> int:
        """Number of values or bits of a descriptor."""
        return self.info.dim

    @property
    def width(self) -> int:
        """Numbers or bytes of one stored descriptor."""
        return self.dim // 8 if self.kind == "binary" else self.dim

    @property
    def input_size(self) -> int:
        """Side of the network's input in pixels."""
        return self.info.input_size

    @property
    def ratio(self) -> float | None:
        """The calibrated threshold of the ratio test, if there is one."""
        return self.info.ratio

    @property
    def engine(self) -> str | None:
        """The engine of its network, if it has one; components of descriptors agree up to 0.01, with int8 up to 0.1."""
        return None


class Model(ModelBase, ABC):
    """Base class of models that describe patches, and keypoints by the patches around them; made by ``patchprint.load``."""

    @property
    def device(self) -> torch.device:
        """Where images are worked on: keypoints are found, patches cut and described there."""
        return torch.device("cpu")

    @property
    def patch_scale(self) -> float:
        """Side of a patch in units of the keypoint's scale."""
        return self.info.patch_scale

    def patch_side(self, stored: int | None) -> int:
        """Input size in pixels, given the size of stored patches (None: cut to order)."""
        return self.input_size

    @abstractmethod
    def describe_patches(self, patches: Tensor) -> Tensor:
        """Describe patches.

        Shape:
            patches (N, 1, S, S) uint8 or float in [0, 1] -> (N, dim) float32, or (N, dim // 8) uint8 packed bits, on the CPU.
        """

    def describe_keypoints(self, image: np.ndarray, keypoints: KeypointsLike) -> Tensor:
        """Describe keypoints of an image, uint8 (H, W); the width is right for N = 0 too."""
        keypoints = Keypoints.validate(keypoints)
        return self._describe_in(self._pyramids([image]), 0, keypoints)

    def describe_many(self, images: Sequence[np.ndarray], keypoints: Sequence[KeypointsLike]) -> list[Tensor]:
        """`describe_keypoints` of several images; on a GPU they are one batch."""
        return [self.describe_keypoints(*each) for each in zip(images, keypoints, strict=True)]

    def with_patch_scale(self, patch_scale: float) -> Model:
        """Return this model with patches of another size and without a calibrated ratio."""
        if not 1 <= patch_scale <= 200:
            raise UserError(f"a patch scale of {patch_scale:g} is not between 1 and 200 sigma")
        changed = copy.copy(self)
        changed.info = dataclasses.replace(self.info, patch_scale=float(patch_scale), ratio=None)
        return changed

    def signs(self) -> Model:
        """Return this model with the signs of its descriptor as packed bits, the binary form of the papers.

        Descriptors are those of ``compress(features, "bits")``: bit 1 where a component is above zero, Hamming distance.
        """
        return SignsModel(self)

    def _describe_in(self, pyramids: ImagePyramids, image: int | Tensor, keypoints: Keypoints) -> Tensor:
        """Describe keypoints; ``image`` is the number of their image, or that of each keypoint, (N,)."""
        if len(keypoints) == 0:
            return self.describe_patches(torch.zeros(0, 1, self.input_size, self.input_size))
        chunk = _CHUNK.get(pyramids.device.type, _CHUNK["cpu"])
        parts = []
        for start in range(0, len(keypoints), chunk):
            rows = slice(start, start + chunk)
            of = image if isinstance(image, int) else image[rows]
            patches = cut_patches(pyramids, of, keypoints[rows], self.patch_scale, self.input_size)
            parts.append(self.describe_patches(patches))
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def _pyramids(self, images: Sequence[np.ndarray]) -> ImagePyramids:
        with single_thread() if self.device.type == "cpu" else contextlib.nullcontext():
            return ImagePyramids.build(images, self.device)


class SignsModel(Model):
    """The signs of the descriptors of another model, as packed bits."""

    def __init__(self, model: Model) -> None:
        self.model = model
        if model.kind == "binary":
            raise UserError(f"the descriptors of {model.info.name} are bits already; leave the signs out")
        self.info = dataclasses.replace(model.info, name=f"{model.info.name}+bits", kind="binary", ratio=None)

    @property
    def device(self) -> torch.device:
        return self.model.device

    @property
    def engine(self) -> str | None:
        return self.model.engine

    def patch_side(self, stored: int | None) -> int:
        return self.model.patch_side(stored)

    def describe_patches(self, patches: Tensor) -> Tensor:
        return sign_bits(self.model.describe_patches(patches), self.model.info.name)

    def describe_keypoints(self, image: np.ndarray, keypoints: KeypointsLike) -> Tensor:
        return sign_bits(self.model.describe_keypoints(image, keypoints), self.model.info.name)

    def with_patch_scale(self, patch_scale: float) -> Model:
        return SignsModel(self.model.with_patch_scale(patch_scale))


class NetworkModel(Model):
    """A patch network with its weights, computed by an engine.

    Engines but "float32" compute with the weights as they were when something was first described.
    """

    def __init__(self, network: PatchNetwork, engine: str = "float32") -> None:
        self.network = network
        self.info = network.info
        self._wanted = engine
        self._engine: engines.Engine | None = None

    @property
    def device(self) -> torch.device:
        return next(self.network.parameters()).device

    @property
    def engine(self) -> str:
        return self._computing().name if self._wanted == engines.AUTO else self._wanted

    def describe_patches(self, patches: Tensor) -> Tensor:
        size = self.input_size
        if patches.ndim == 4 and patches.shape[-1] != size and len(patches):
            values = patches.float() / (255 if patches.dtype == torch.uint8 else 1)
            patches = F.interpolate(values, size=(size, size), mode="bilinear", antialias=True, align_corners=False)
        if len(patches) == 0:
            return self.network.describe(torch.zeros(0, 1, size, size))
        self.network.check(patches)  # not every engine would say it in one sentence
        return self._computing().describe(patches)

    def describe_keypoints(self, image: np.ndarray, keypoints: KeypointsLike) -> Tensor:
        keypoints = Keypoints.validate(keypoints)
        if len(keypoints) == 0 or self.device.type != "cpu":
            return super().describe_keypoints(image, keypoints)
        rows, cuts = lazy_patches(self._pyramids([image]), keypoints, self.patch_scale, self.input_size, CHUNK_ON_CPU)
        found = self._computing().describe_cut(cuts)
        return torch.empty_like(found).index_copy_(0, rows, found)

    def describe_many(self, images: Sequence[np.ndarray], keypoints: Sequence[KeypointsLike]) -> list[Tensor]:
        if self.device.type == "cpu":  # one image keeps all cores busy
            return super().describe_many(images, keypoints)
        return self._describe_batches(images, [Keypoints.validate(each) for each in keypoints])

    def _describe_batches(self, images: Sequence[np.ndarray], given: Sequence[Keypoints]) -> list[Tensor]:
        """Describe keypoints of several images, with the patches of as many of them together as memory allows."""
        described: list[Tensor] = []
        for batch in _batches(images):
            counts = torch.tensor([len(given[number]) for number in batch])
            frames = [Keypoints.from_affine(given[number].xy, given[number].frames()) for number in batch]
            pyramids = self._pyramids([images[number] for number in batch])
            rows = torch.arange(len(batch)).repeat_interleave(counts).to(pyramids.device)
            found = self._describe_in(pyramids, rows, Keypoints.concatenate(frames))
            described += found.split(counts.tolist())
        return described

    def _computing(self) -> engines.Engine:
        if self._engine is None:
            self._engine = engines.create(self.network, self._wanted)
        return self._engine


class PixelModel(Model):
    """The patch itself, 16 x 16 gray values without their mean, unit length: the floor that any descriptor must beat."""

    side = 16

    def __init__(self) -> None:
        self.info = ModelInfo("pixels", network="", dim=self.side**2)

    def describe_patches(self, patches: Tensor) -> Tensor:
        if len(patches) == 0:
            return torch.zeros(0, self.dim)
        values = F.adaptive_avg_pool2d(patches.float().cpu(), self.side).flatten(1)
        return F.normalize(values - values.mean(1, keepdim=True), dim=1)


def _sift(root: bool, smoothed: bool = False) -> Model:
    from patchprint.features import sift  # only here: it is made of the classes above

    return (sift.SmoothedSiftModel if smoothed else sift.SiftModel)(root)


BASELINES: dict[str, Callable[[], Model]] = {
    "sift": partial(_sift, root=False),
    "rootsift": partial(_sift, root=True),
    "sift-smoothed": partial(_sift, root=False, smoothed=True),
    "rootsift-smoothed": partial(_sift, root=True, smoothed=True),
    "pixels": PixelModel,
}

ModelLike = str | Path | PatchNetwork | Model


def load(model: ModelLike = DEFAULT_MODEL, device: str | torch.device = "cpu", *, engine: str = engines.AUTO) -> Model:
    """Load a model of patches by name, from a file, or around a network.

    Args:
        model: shipped weights ("patchprint", "hardnet"), a baseline ("sift", "rootsift", "pixels"), a weight file that
            patchprint or the authors of HardNet, SOSNet, HyNet or TFeat wrote, or a network; a model is returned as it is.
        device: where a network that is read is put: auto, cpu, cuda, mps.
        engine: how a network that is read is computed: a name in `patchprint.networks.engines.ENGINES`, or
            auto: int8 or bfloat16 on a CPU, cuda on a GPU (`patchprint.networks.engines.chosen`).
            A given network is computed in float32.

    Raises:
        UserError: for what is no model, and for weights that describe whole images (`load_image_model`).
    """
    return patch_model(*read_model(model, device, engine))


def read_model(
    model: object, device: str | torch.device, engine: str = engines.AUTO
) -> tuple[PatchNetwork | ModelBase, str]:
    """Resolve a name, a file, a network or a model, and the engine to compute it."""
    place = choose_device(device)
    if engine != engines.AUTO:
        engines.check(engine, place)
    if isinstance(model, PatchNetwork):
        return model, "float32"  # it may be training, which engines that keep a copy of its weights would not notice
    if isinstance(model, ModelBase):
        return model, engine
    if isinstance(model, str) and model in BASELINES:
        return BASELINES[model](), engine
    if not isinstance(model, str | Path):
        raise UserError(f"a model is given as {type(model).__name__}; expected a name, a weight file or a network")
    return weights.load_network(model, place, also_known=BASELINES), engine


def patch_model(found: PatchNetwork | ModelBase, engine: str) -> Model:
    """Make a model of patches from what `read_model` found; raises UserError for one of whole images."""
    if isinstance(found, Model):
        return found
    if isinstance(found, PatchNetwork) and found.info.channels == 1:
        return NetworkModel(found, engine)
    how = "describes whole images, not keypoints" if found.info.channels > 1 else "finds keypoints of its own"
    raise UserError(f"{found.info.name} {how}; give a model of patches, such as {DEFAULT_MODEL}")


def list_models() -> list[ModelInfo]:
    """List the models that come with the package: shipped weights, sorted by name, then baselines."""
    return [*weights.list_weights(), *(create().info for create in BASELINES.values())]


def _batches(images: Sequence[np.ndarray]) -> Iterator[list[int]]:
    """Split images into batches that fit on a GPU; yields their indices."""
    total = 0
    batch: list[int] = []
    for number, image in enumerate(images):
        if batch and total + image.size > _PIXELS_OF_BATCH:
            yield batch
            total, batch = 0, []
        total += image.size
        batch.append(number)
    if batch:
        yield batch
