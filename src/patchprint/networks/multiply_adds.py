"""What one descriptor costs in multiply-adds."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from patchprint.networks.network import PatchNetwork


@torch.no_grad()
def multiply_adds(network: PatchNetwork) -> int:
    """Multiplications of the convolutions and linear layers for one patch; each goes with an addition."""
    counted = 0

    def count(layer: nn.Module, _: tuple[Tensor, ...], output: Tensor) -> None:
        nonlocal counted
        weight = layer.weight
        assert isinstance(weight, Tensor)
        counted += output.numel() * weight[0].numel()

    layers = [layer for layer in network.modules() if isinstance(layer, (nn.Conv2d, nn.Linear))]
    hooks = [layer.register_forward_hook(count) for layer in layers]
    was_learning = network.training
    try:
        size = network.input_size
        network.eval().raw(torch.zeros(1, 1, size, size, device=next(network.parameters()).device))
    finally:
        network.train(was_learning)
        for hook in hooks:
            hook.remove()
    return counted
