"""Create network, loss, batcher, optimizer and learning rate from the config of a run."""

import math
from typing import Any

import torch
from torch import nn

from patchprint import losses, networks
from patchprint.common import distributed as ranks
from patchprint.common.errors import UserError
from patchprint.common.registry import LazyRegistry, check_option_types
from patchprint.data.batches import StepBatcher
from patchprint.data.patch_source import PatchSource
from patchprint.losses import Loss
from patchprint.networks import weights
from patchprint.networks.network import PatchNetwork
from patchprint.training.checkpoint import TrainState, averaged
from patchprint.training.config import TrainConfig

BATCHERS: LazyRegistry[Any] = LazyRegistry(
    "batcher",
    "patchprint.data",
    {
        "pairs": "batches:PairBatcher",
        "neighbors": "batches:NeighborBatcher",
        "progressive": "batches:ProgressiveBatcher",
        "groups": "group_batches:GroupBatcher",
        "leading-groups": "group_batches:LeadingGroupBatcher",
        "scene-groups": "group_batches:SceneGroupBatcher",
        "sequence-pairs": "group_batches:SequencePairBatcher",
        "classes": "batches:ClassBatcher",
        "instances": "batches:InstanceBatcher",
    },
)
# Values of ``init``: published weights of a backbone; random weights where a method starts from trained ones.
IMAGENET, RANDOM = "imagenet", "random"

_RISING, _RISE = 0.3, 25.0  # one cycle: part of the run in which the rate rises, and how many times


def create(config: TrainConfig, device: torch.device) -> TrainState:
    """Create the state of a run before its first step; random weights depend on the seed alone."""
    network = _create_network(config)
    freeze(network, config.freeze)
    network = network.to(device).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    loss = _create_loss(config).to(device)
    if loss.needs_maps and not network.has_maps:
        raise UserError(f"loss {config.loss!r} needs normalized maps, which network {config.network!r} does not have")
    if loss.binary is not None and loss.binary != (network.kind == "binary"):
        learned, described = ("bits", "floats") if loss.binary else ("floats", "bits")
        remedy = "--network-options kind=binary" if loss.binary else "--loss doap-binary, or learn floats and use signs"
        raise UserError(
            f"--loss {config.loss} learns {learned}, but --network {config.network} describes by {described}; give {remedy}"
        )
    if config.precision == "float64":
        network, loss = network.double(), loss.double()
    average = {name: value.clone() for name, value in averaged(network).items()} if config.average else None
    return TrainState(network, loss, create_optimizer(config, network), average)


def _create_network(config: TrainConfig) -> PatchNetwork:
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(config.seed)
        network = networks.create(config.network, **config.network_options)
    start_from_tower = getattr(network, "start_from", None)
    if config.init == IMAGENET:
        load_imagenet = getattr(network, "load_imagenet", None)
        if load_imagenet is None:
            raise UserError(f"--init {IMAGENET} is for networks of whole images, not for {config.network}")
        load_imagenet()
    elif config.init is None and start_from_tower:
        raise UserError(f"{config.network} starts from a trained tower: give its weights as --init, or --init {RANDOM}")
    elif config.init not in (None, RANDOM):
        start = weights.load_network(config.init)
        if start_from_tower and not hasattr(start, "start_from"):
            start_from_tower(start)
        else:
            _copy_weights(network, start, config.init)
    return network.train()


def _copy_weights(network: PatchNetwork, start: PatchNetwork, name: str) -> None:
    # Input normalization has no weights, so that nothing else would notice.
    made_for, wanted = (each.info.options.get("input_norm") for each in (start, network))
    if made_for != wanted and None not in (made_for, wanted):
        raise UserError(
            f"--init {name} was trained with input_norm={made_for}, this network has {wanted}; "
            f"give --network-options input_norm={made_for}"
        )
    try:
        network.load_state_dict(start.state_dict())
    except RuntimeError as error:
        raise UserError(
            f"--init {name} holds weights of {start.info.network} {start.info.options}, which do not fit "
            f"{network.info.network} {network.info.options}"
        ) from error


def _create_loss(config: TrainConfig) -> Loss:
    run = losses.LOSSES[config.loss].settings_for_run(steps=config.steps, batch=config.batch, seed=config.seed)
    loss = losses.create(config.loss, **{**run, **config.loss_settings})
    if config.ranking:
        loss = losses.MatchRanking(loss, config.ranking)
    if config.teacher:
        loss = losses.Distillation(loss, config.loss_weight, config.teacher_cosine, config.teacher_similarity)
    if config.sec:
        return losses.SEC(loss, config.sec, config.sec_momentum)
    return losses.NormPenalty(loss, config.norm_penalty) if config.norm_penalty else loss


def learning_rate(config: TrainConfig, step: int) -> float:
    """Return the learning rate of step ``step`` (from 0): a pure function, so that no state is saved."""
    start = config.lr
    if config.lr_for_patches:
        start *= config.batch * config.views / config.lr_for_patches
    rise = config.warm_up * config.steps
    return _scheduled(config, start, step / config.steps) * (min(1.0, (step + 1) / rise) if rise else 1.0)


def _scheduled(config: TrainConfig, start: float, done: float) -> float:
    """Return the rate without warm-up when the part ``done`` of a run is over."""
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
    """Interpolate by half a cosine from ``start`` to ``end``."""
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
    """Set training mode for all layers but the frozen ones, whose batch statistics stay."""
    network.train()
    for name, layer in network.named_modules():
        if _lies_in(name, frozen):
            layer.eval()


def _lies_in(name: str, layers: tuple[str, ...]) -> bool:
    return any(name == layer or name.startswith(f"{layer}.") for layer in layers)


def create_optimizer(config: TrainConfig, network: nn.Module) -> torch.optim.Optimizer:
    """Create the fused optimizer of ``network``; ``set_rates`` fills the rates of its groups."""
    device = next(network.parameters()).device
    whole: list[dict[str, Any]] = [{"params": list(network.parameters()), "lr_factor": 1.0, "decays": True}]
    parameters = []
    for group in network.parameter_groups() if isinstance(network, PatchNetwork) else whole:
        learning = [parameter for parameter in group["params"] if parameter.requires_grad]
        decay = config.weight_decay if group["decays"] else 0.0
        rate = {"lr": torch.zeros((), device=device), "factor": group["lr_factor"]}
        if learning:
            parameters.append({"params": learning, "weight_decay": decay, **rate})
    lr = torch.zeros((), device=device)
    if config.optimizer == "sgd":
        return torch.optim.SGD(parameters, lr=lr, momentum=config.momentum, dampening=config.dampening, fused=True)
    kind = torch.optim.AdamW if config.optimizer == "adamw" else torch.optim.Adam
    return kind(parameters, lr=lr, fused=True, capturable=device.type == "cuda")


def set_rates(config: TrainConfig, optimizer: torch.optim.Optimizer, step: int) -> None:
    """Fill the rate tensors for step ``step``; one tiny kernel for each group, no synchronization."""
    rate = learning_rate(config, step)
    for group in optimizer.param_groups:
        group["lr"].fill_(rate * group["factor"])


def create_batcher(config: TrainConfig, source: PatchSource) -> StepBatcher:
    """Create the batcher of ``config`` for this rank's share.

    Raises:
        UserError: it does not take so many views, or the source has too few points for one batch.
    """
    kind = BATCHERS[config.batcher]
    check_option_types(f"batcher {config.batcher!r}", config.batcher_options, kind)
    _check_views(config, kind.views_of_point)
    _check_size(config, source, kind.views_of_point)
    views = () if kind.views_of_point else (config.views,)
    place = {"seed": config.seed, "rank": ranks.rank(), "world": ranks.world_size()}
    return kind(source, config.batch, *views, **config.batcher_options, **place)


def _check_views(config: TrainConfig, takes: int) -> None:
    name, views = config.batcher, config.views
    if takes == 1 != views:
        raise UserError(f"--batcher {name} takes whole groups, each patch by itself; give --views 1, not {views}")
    if views == 1 != takes:
        raise UserError(f"--views is 1, but --batcher {name} needs 2 views of a point; groups takes all")
    if takes == 2 != views:
        raise UserError(f"--batcher {name} takes 2 views of a point, not --views {views}; classes takes any number")


def _check_size(config: TrainConfig, source: PatchSource, views: int) -> None:
    enough = config.batcher_options.get("min_views", 2)
    several = source.num_views[source.num_views >= enough]
    if views == 1:
        usable, what = int(several.sum()), "patches of points with two views"
    elif config.batcher == "instances":
        usable, what = int(source.num_views.sum()), "patches" if source.channels == 1 else "images"
    else:
        usable = len(several)
        what = "points with two views" if source.channels == 1 else "classes with two images"
        what = what if enough > 1 else "points"
    if usable < config.batch:
        least = 2 if views == 2 else 1
        fits = max(least, 1 << max(usable, 1).bit_length() - 1)
        advice = f"give --batch {fits} or more data" if usable >= 2 else "give more data"
        raise UserError(f"the data have {usable} {what} for training, fewer than --batch {config.batch}; {advice}")
