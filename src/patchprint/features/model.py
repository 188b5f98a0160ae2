"""The one model object: whatever describes keypoints, patches or whole images, trained networks and baselines alike."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from patchprint.common.devices import choose_device, one_core
from patchprint.common.errors import UserError
from patchprint.data.square_crops import central_square
from patchprint.features.compress import sign_bits
from patchprint.interop import opencv
from patchprint.interop.image_files import ImageLike, read_color
from patchprint.networks import ModelInfo, PatchNetwork, engines, weights
from patchprint.networks.embedding import EmbeddingNetwork
from patchprint.networks.network import CHUNK_ON_CPU, Kind
from patchprint.ops.sampling import ImagePyramids, cut_later, cut_patches
from patchprint.types import Keypoints, KeypointsLike, ModelId

DEFAULT_MODEL = "sdgmnet"
LOWE_RATIO = 0.8  # threshold of the ratio test that Lowe chose for SIFT
TOOLBOX_PATCH = 65  # pixels along the side of the patches of HPatches
_CHUNK = {"cpu": 1024, "cuda": 1 << 16}  # keypoints whose patches are in memory at a time
_IMAGES = 64  # whole images in memory at a time


class Model(ABC):
    """Makes descriptors of one kind, of patches at keypoints or (`ImageModel`) of whole images; ``patchprint.load`` gives one.

    ``info`` is what is known about it: name, checksum, training, license. The properties say what a user needs: ``kind`` is
    "float" (unit vectors, compared by Euclidean distance) or "binary" (packed bits, Hamming distance); ``dim`` the number of
    values or bits; ``patch_scale`` the side of a patch in units of the keypoint's scale; ``input_size`` the pixels along that
    side; ``ratio`` the calibrated threshold of the ratio test, or None.
    """

    info: ModelInfo

    def __repr__(self) -> str:
        what = "bits" if self.kind == "binary" else "floats"
        return f"{type(self).__name__}({self.info.name}, {self.dim} {what})"

    @property
    def id(self) -> ModelId:
        return ModelId(self.info.name, self.info.sha256)

    @property
    def kind(self) -> Kind:
        return self.info.kind

    @property
    def dim(self) -> int:
        return self.info.dim

    @property
    def patch_scale(self) -> float:
        return self.info.patch_scale

    @property
    def input_size(self) -> int:
        return self.info.input_size

    def patch_side(self, stored: int | None) -> int:
        """Pixels along the side of the patches that it wants, where they are stored with so many, or (None) cut at will."""
        return self.input_size

    @property
    def ratio(self) -> float | None:
        return self.info.ratio

    @property
    def engine(self) -> str | None:
        """What computes its network, if it has one; engines agree up to 0.01 in a component of a descriptor, int8 up to 0.1."""
        return None

    def engine_for_many(self) -> str:
        """What computes it best for many photos."""
        return self.engine or engines.AUTO

    @property
    def width(self) -> int:
        """Numbers or bytes of one stored descriptor."""
        return self.dim // 8 if self.kind == "binary" else self.dim

    @abstractmethod
    def describe_patches(self, patches: Tensor) -> Tensor:
        """Descriptors of patches.

        Shape:
            patches (N, 1, S, S) uint8 or float in [0, 1] -> (N, dim) float32, or (N, dim // 8) uint8 packed bits, on the CPU.
        """

    def describe_keypoints(self, image: np.ndarray, keypoints: KeypointsLike) -> Tensor:
        """Descriptors at keypoints of an image, uint8 (H, W); the width is right for N = 0 too."""
        keypoints = Keypoints.given(keypoints)
        if len(keypoints) == 0:
            return self.describe_patches(torch.zeros(0, 1, self.input_size, self.input_size))
        pyramids = self._pyramids(image)
        chunk = _CHUNK.get(pyramids.device.type, _CHUNK["cpu"])
        parts = []
        for start in range(0, len(keypoints), chunk):
            chosen = keypoints if len(keypoints) <= chunk else keypoints[start : start + chunk]
            patches = cut_patches(pyramids, 0, chosen, self.patch_scale, self.input_size)
            parts.append(self.describe_patches(patches))
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def describe_images(self, images: Sequence[ImageLike]) -> Tensor:
        """Descriptors of whole images, each a file or an array (H, W) or (H, W, 3) in RGB.

        Shape:
            N images of any sizes -> (N, dim) float32, unit length, on the CPU.
        """
        return self.for_images().describe_images(images)

    def for_keypoints(self) -> Model:
        """Itself, where it describes patches; whoever needs that asks before the work begins."""
        return self

    def for_images(self) -> ImageModel:
        """Itself, where it describes whole images."""
        raise UserError(
            f"{self.info.name} describes patches at keypoints, not whole images; give the weights of an embedding network"
        )

    def with_patch_scale(self, patch_scale: float) -> Model:
        """The same model looking at patches of another size; its calibrated ratio is no longer known to hold."""
        if not 1 <= patch_scale <= 200:
            raise UserError(f"a patch scale of {patch_scale:g} is not between 1 and 200 sigma")
        changed = copy.copy(self)
        changed.info = dataclasses.replace(self.info, patch_scale=float(patch_scale), ratio=None)
        return changed

    def signs(self) -> Model:
        """The same model with the signs of its descriptor as packed bits, what the papers call its binary form.

        Descriptors are those of ``compress(features, "bits")``: bit 1 where a component is above zero, Hamming distance.
        """
        return SignsModel(self)

    def _pyramids(self, image: np.ndarray) -> ImagePyramids:
        device = self._sampling_device()
        with one_core() if device.type == "cpu" else contextlib.nullcontext():
            return ImagePyramids.build([image], device)

    def _sampling_device(self) -> torch.device:
        return torch.device("cpu")


class SignsModel(Model):
    """The signs of the descriptors of another model, as packed bits."""

    def __init__(self, model: Model) -> None:
        self.model = model.for_keypoints()
        if model.kind == "binary":
            raise UserError(f"the prints of {model.info.name} are bits already; leave the signs out")
        self.info = dataclasses.replace(model.info, name=f"{model.info.name}+bits", kind="binary", ratio=None)

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
    def engine(self) -> str:
        return engines.chosen(self._sampling_device()) if self._wanted == engines.AUTO else self._wanted

    def engine_for_many(self) -> str:
        return engines.chosen_for_many(self.network) if self._wanted == engines.AUTO else self._wanted

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
        keypoints = Keypoints.given(keypoints)
        if len(keypoints) == 0 or self._sampling_device().type != "cpu":
            return super().describe_keypoints(image, keypoints)
        rows, cuts = cut_later(self._pyramids(image), keypoints, self.patch_scale, self.input_size, CHUNK_ON_CPU)
        found = self._computing().describe_cut(cuts)
        return torch.empty_like(found).index_copy_(0, rows, found)

    def _computing(self) -> engines.Engine:
        if self._engine is None:
            self._engine = engines.create(self.network, self.engine)
        return self._engine

    def _sampling_device(self) -> torch.device:
        return next(self.network.parameters()).device


class ImageModel(Model):
    """A network that describes whole images: what it sees of each is the central square, as in training."""

    def __init__(self, network: EmbeddingNetwork) -> None:
        self.network = network
        self.info = network.info

    def describe_images(self, images: Sequence[ImageLike]) -> Tensor:
        parts = [torch.zeros(0, self.dim)]
        for start in range(0, len(images), _IMAGES):
            squares = [central_square(read_color(image), self.input_size) for image in images[start : start + _IMAGES]]
            parts.append(self.network.describe(torch.stack(squares)))
        return torch.cat(parts)

    def raw(self, squares: Tensor) -> Tensor:
        """Vectors before they are brought to unit length.

        Shape:
            squares (N, 3, S, S) uint8 or float in [0, 1], S the input size -> (N, dim) float32, on their device.
        """
        return self.network.raw(squares)

    @torch.no_grad()
    def features(self, squares: Tensor) -> Tensor:
        """What the backbone says, before the embedding: (N, 3, S, S) -> (N, F) float32, on the device of ``squares``."""
        device, network = next(self.network.parameters()).device, self.network.in_evaluation()
        parts = [network.features(part.to(device)).float() for part in squares.split(_IMAGES)]
        return torch.cat(parts).to(squares.device)

    def describe_patches(self, patches: Tensor) -> Tensor:
        self.for_keypoints()

    def describe_keypoints(self, image: np.ndarray, keypoints: KeypointsLike) -> Tensor:
        self.for_keypoints()

    def with_patch_scale(self, patch_scale: float) -> Model:
        self.for_keypoints()

    def for_keypoints(self) -> NoReturn:
        raise UserError(
            f"{self.info.name} describes whole images, not keypoints; give a model of patches, such as {DEFAULT_MODEL}"
        )

    def for_images(self) -> ImageModel:
        return self


class SiftModel(Model):
    """OpenCV's SIFT or RootSIFT, on the image itself, or on patches as the toolbox of HPatches describes them."""

    name = "sift"

    def __init__(self, root: bool) -> None:
        self.root = root
        self.info = ModelInfo(
            f"root{self.name}" if root else self.name,
            network="",
            patch_scale=opencv.SIFT_GRID,
            license="Apache-2.0 (OpenCV)",
            ratio=LOWE_RATIO,
        )

    def patch_side(self, stored: int | None) -> int:
        return stored or TOOLBOX_PATCH

    def describe_patches(self, patches: Tensor) -> Tensor:
        return torch.from_numpy(opencv.sift_patches(_to_uint8(patches), self.root))

    def describe_keypoints(self, image: np.ndarray, keypoints: KeypointsLike) -> Tensor:
        keypoints = Keypoints.given(keypoints)
        if keypoints.affine is not None:  # OpenCV knows round keypoints only: straighten the ellipse first
            return Model.describe_keypoints(SmoothedSiftModel(self.root), image, keypoints)
        return torch.from_numpy(opencv.sift_descriptors(image, keypoints, self.root))

    def with_patch_scale(self, patch_scale: float) -> Model:
        raise UserError(f"{self.info.name} has its own patch; leave the patch scale out")


class SmoothedSiftModel(SiftModel):
    """SIFT that describes a patch as SIFT describes the keypoint it was cut at: blurred to its scale first."""

    name = "sift-smoothed"

    def patch_side(self, stored: int | None) -> int:
        return self.input_size

    def describe_patches(self, patches: Tensor) -> Tensor:
        return torch.from_numpy(opencv.sift_patches_smoothed(_to_uint8(patches), self.root))


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


BASELINES: dict[str, Callable[[], Model]] = {
    "sift": lambda: SiftModel(root=False),
    "rootsift": lambda: SiftModel(root=True),
    "sift-smoothed": lambda: SmoothedSiftModel(root=False),
    "rootsift-smoothed": lambda: SmoothedSiftModel(root=True),
    "pixels": PixelModel,
}

ModelLike = str | Path | PatchNetwork | Model


def load(model: ModelLike = DEFAULT_MODEL, device: str | torch.device = "cpu", engine: str = engines.AUTO) -> Model:
    """A model by name, from a file, or around a network.

    Args:
        model: shipped weights ("sdgmnet", "hardnet.small"), a baseline ("sift", "rootsift", "pixels"), a weight file that
            patchprint or the authors of HardNet, SOSNet, HyNet or TFeat wrote, or a network; a model is given back as it is.
        device: where a network that is read is put: auto, cpu, cuda, mps.
        engine: how a network that is read is computed: a name in `patchprint.networks.engines.ENGINES`, or
            auto: bfloat16 on a CPU that multiplies in it, cuda on a GPU (`patchprint.networks.engines.chosen`).
            A given network is computed in float32.
    """
    place = choose_device(device)
    if engine != engines.AUTO:
        engines.check(engine, place)
    if isinstance(model, Model):
        return model
    if isinstance(model, str) and model in BASELINES:
        return BASELINES[model]()
    if not isinstance(model, (PatchNetwork, str, Path)):
        raise UserError(f"a model is given as {type(model).__name__}; expected a name, a weight file or a network")
    if isinstance(model, PatchNetwork):
        engine = "float32"  # it may be learning, which the others would not notice
    else:
        model = weights.load_network(model, place, also_known=BASELINES)
    return ImageModel(model) if isinstance(model, EmbeddingNetwork) else NetworkModel(model, engine)


def list_models() -> list[ModelInfo]:
    """The models that come with the package: shipped weights, sorted by name, then baselines."""
    return [*weights.list_weights(), *(create().info for create in BASELINES.values())]


def _to_uint8(patches: Tensor) -> np.ndarray:
    values = patches.detach().cpu()
    if values.dtype != torch.uint8:
        values = (values.float().clamp(0, 1) * 255).round().to(torch.uint8)
    return values[:, 0].contiguous().numpy()
