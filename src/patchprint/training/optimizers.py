"""Optimizer and learning rate. The rate is a tensor on the device, so that a captured step reads it without the host."""

from __future__ import annotations

import math

import torch
from torch import nn

from patchprint.common.errors import UserError
from patchprint.networks.network import PatchNetwork
from patchprint.training.config import TrainConfig

_RISING, _RISE = 0.3, 25.0  # one cycle: part of the run in which the rate rises, and how many times


def learning_rate(config: TrainConfig, step: int) -> float:
    """Return the learning rate of step ``step`` (from 0): a pure function, so that no state is saved."""
    rise = config.warm_up * config.steps
    return _scheduled(config, step) * (min(1.0, (step + 1) / rise) if rise else 1.0)


def _scheduled(config: TrainConfig, step: int) -> float:
    """Return the rate without warm-up."""
    done = step / config.steps
    start = config.lr
    if config.lr_for_patches:
        start *= config.batch * config.views / config.lr_for_patches
    if config.schedule == "linear":
        return start * (1 - done) + config.final_lr * done
    if config.schedule == "cosine":
        return _between(start, config.final_lr, done)
    if config.schedule == "one-cycle":
        # PyTorch's OneCycleLR, whose momentum is left alone: as far below the highest rate, and as long on the way up.
        if done < _RISING:
            return _between(start / _RISE, start, done / _RISING)
        return _between(start, config.final_lr, (done - _RISING) / (1 - _RISING))
    if config.schedule == "drops":
        first = config.drop_every if config.first_drop is None else config.first_drop
        # The small addend keeps a drop at its step where the fraction is not exact in binary (0.3 / 0.1 < 3).
        return start * config.drop_factor ** max(0, int((done - first) / config.drop_every + 1 + 1e-9))
    return start


def _between(start: float, end: float, done: float) -> float:
    """Half a cosine from ``start`` to ``end``."""
    return end + (start - end) * (1 + math.cos(math.pi * done)) / 2


def freeze(network: nn.Module, layers: tuple[str, ...]) -> None:
    """Freeze ``layers``, given by name; ``train_mode`` also keeps their batch statistics as they are."""
    names = [name for name, _ in network.named_modules() if name]
    for layer in layers:
        if layer not in names:
            learning = dict.fromkeys(name.rpartition(".")[0] for name, _ in network.named_parameters())
            raise UserError(f"--freeze {layer} fits no layer of this network; its layers are {', '.join(learning)}")
    for name, parameter in network.named_parameters():
        if _lies_in(name, layers):
            parameter.requires_grad_(False)
    if not any(parameter.requires_grad for parameter in network.parameters()):
        raise UserError(f"--freeze {' '.join(layers)} leaves nothing to train")


def train_mode(network: nn.Module, frozen: tuple[str, ...]) -> None:
    """Training mode for all layers but the frozen ones, whose batch statistics would move otherwise."""
    network.train()
    for name, layer in network.named_modules():
        if _lies_in(name, frozen):
            layer.eval()


def _lies_in(name: str, layers: tuple[str, ...]) -> bool:
    return any(name == layer or name.startswith(f"{layer}.") for layer in layers)


def create(config: TrainConfig, network: PatchNetwork) -> torch.optim.Optimizer:
    """Create the fused optimizer of ``network``; ``set_rates`` fills the rates of its groups."""
    device = next(network.parameters()).device
    parameters = []
    for group in network.parameter_groups():
        learning = [parameter for parameter in group["params"] if parameter.requires_grad]
        if learning:
            parameters.append(
                {
                    "params": learning,
                    "lr": torch.zeros((), device=device),
                    "factor": group["lr_factor"],
                    "weight_decay": config.weight_decay if group["decays"] else 0.0,
                }
            )
    if config.optimizer == "sgd":
        return torch.optim.SGD(
            parameters,
            lr=torch.zeros((), device=device),
            momentum=config.momentum,
            dampening=config.dampening,
            fused=True,
        )
    kind = torch.optim.AdamW if config.optimizer == "adamw" else torch.optim.Adam
    return kind(
        parameters,
        lr=torch.zeros((), device=device),
        fused=True,
        capturable=device.type == "cuda",
    )


def set_rates(config: TrainConfig, optimizer: torch.optim.Optimizer, step: int) -> None:
    """Fill the rate tensors for step ``step``; one tiny kernel for each group, no synchronisation."""
    rate = learning_rate(config, step)
    for group in optimizer.param_groups:
        group["lr"].fill_(rate * group["factor"])
