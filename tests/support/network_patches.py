"""Patches and networks for the tests of networks: smooth like photographs, and with batch statistics that matter."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from patchprint.common.registry import option_names
from patchprint.networks import NETWORKS, PatchNetwork, create

PATCH_NETWORKS = [name for name in NETWORKS if "backbone" not in option_names(NETWORKS[name])]
"""Those of gray patches; tests/networks/test_embedding.py has whole images."""


def smooth_patches(count: int, size: int = 32, seed: int = 0) -> Tensor:
    """(count, 1, size, size) uint8 patches of ordinary contrast: standard deviation about 0.2 of the range."""
    noise = torch.rand(count, 1, 6, 6, generator=torch.Generator().manual_seed(seed))
    smooth = F.interpolate(noise, size=(size, size), mode="bicubic", align_corners=False).clamp(0, 1)
    return (smooth * 255).round().to(torch.uint8)


def known_options(name: str, **options: object) -> dict[str, object]:
    """Those of the options that the network has."""
    return {option: value for option, value in options.items() if option in option_names(NETWORKS[name])}


def trained_looking(name: str, seed: int = 0, **options: object) -> PatchNetwork:
    """A random network in evaluation mode whose running statistics, biases and thresholds are not those of the start."""
    torch.manual_seed(seed)
    network = create(name, **options)
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            assert module.running_mean is not None
            assert module.running_var is not None
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.5, 1.5)
    with torch.no_grad():
        for key, parameter in network.named_parameters():
            if key.endswith(("bias", "tau", "predict.weight")):
                parameter.add_(0.02 * torch.randn_like(parameter))
    return network.eval()


def outputs_and_gradients(network: PatchNetwork, patches: Tensor) -> tuple[Tensor, dict[str, Tensor | None]]:
    """Raw outputs, and gradients of all parameters for a fixed weighting of the descriptors."""
    raw, _ = network.forward_features(patches, with_maps=False)
    weights = torch.randn(raw.shape, generator=torch.Generator().manual_seed(2), dtype=raw.dtype)
    (network.head(raw) * weights).sum().backward()
    return raw.detach(), {name: parameter.grad for name, parameter in network.named_parameters()}
