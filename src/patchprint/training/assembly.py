"""Create the parts of a run from its config: network, loss, optimizer, weight average."""

from __future__ import annotations

import torch

from patchprint import losses, networks
from patchprint.common.errors import UserError
from patchprint.losses import Distillation, Loss
from patchprint.losses.auxiliary import SEC, MatchRanking, NormPenalty
from patchprint.networks import weights
from patchprint.networks.center_surround import CenterSurround
from patchprint.networks.embedding import EmbeddingNetwork
from patchprint.networks.network import PatchNetwork
from patchprint.training import optimizers
from patchprint.training.checkpoint import TrainState
from patchprint.training.config import TrainConfig
from patchprint.training.step import averaged

IMAGENET = "imagenet"
"""What ``init`` says for a backbone with published weights."""

RANDOM = "random"
"""What ``init`` says for random weights where a method starts from trained ones."""


def create(config: TrainConfig, device: torch.device) -> TrainState:
    """The state of a run before its first step; random weights depend on the seed alone."""
    network = _create_network(config)
    optimizers.freeze(network, config.freeze)
    network = network.to(device).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    loss = _create_loss(config).to(device)
    if loss.needs_maps and not network.has_maps:
        raise UserError(f"loss {config.loss!r} needs normalised maps, which network {config.network!r} does not have")
    _check_kinds(config, network, loss)
    if config.precision == "float64":
        network, loss = network.double(), loss.double()
    average = {name: value.clone() for name, value in averaged(network).items()} if config.average else None
    return TrainState(network, loss, optimizers.create(config, network), average)


def _check_kinds(config: TrainConfig, network: PatchNetwork, loss: Loss) -> None:
    """Bits are learned by a loss for bits on a network for bits; anything else would train another method unawares."""
    if loss.binary is None:
        return
    if loss.binary and network.kind != "binary":
        raise UserError(
            f"--loss {config.loss} learns bits, but --network {config.network} describes by floats; "
            "give --network-options kind=binary"
        )
    if network.kind == "binary" and not loss.binary:
        raise UserError(
            f"--network {config.network} describes by bits (--network-options kind=binary), which --loss {config.loss} does "
            "not learn; give --loss doap-binary, or learn floats and take their signs afterwards"
        )


def _create_network(config: TrainConfig) -> PatchNetwork:
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(config.seed)
        network = networks.create(config.network, **config.network_options)
    if config.init == IMAGENET:
        if not isinstance(network, EmbeddingNetwork):
            raise UserError(f"--init {IMAGENET} is for networks of whole images, not for {config.network}")
        network.load_imagenet()
    elif config.init is None and isinstance(network, CenterSurround):
        raise UserError(
            f"{config.network} starts from a trained tower: give its weights as --init (train l2net for them), "
            f"or --init {RANDOM} to train both towers from scratch"
        )
    elif config.init not in (None, RANDOM):
        start = weights.load_network(config.init)
        if isinstance(network, CenterSurround) and not isinstance(start, CenterSurround):
            network.start_from(start, freeze_surround=True)
        else:
            _copy_weights(network, start, config.init)
    return network.train()


def _copy_weights(network: PatchNetwork, start: PatchNetwork, name: str) -> None:
    # It has no weights of its own, so that nothing else would notice.
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
        loss = MatchRanking(loss, config.ranking)
    if config.teacher:
        loss = Distillation(loss, config.loss_weight, config.teacher_cosine, config.teacher_similarity)
    if config.sec:
        return SEC(loss, config.sec, config.sec_momentum)
    return NormPenalty(loss, config.norm_penalty) if config.norm_penalty else loss
