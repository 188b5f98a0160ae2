"""Weights of one size become weights of three."""

import torch

from patchprint import networks
from patchprint.networks import weights
from perf.release.pool_weights import pool


def test_the_pooled_weights_are_those_that_learned_alone(tmp_path) -> None:
    alone = networks.create("sdgmnet", width=8, input_norm="standard")
    weights.save(alone, tmp_path / "alone.safetensors", half=True)
    info = pool(tmp_path / "alone.safetensors", tmp_path / "pooled.safetensors")
    assert (info.input_size, info.ratio) == (64, None)
    learned, pooled = (weights.load_network(tmp_path / f"{name}.safetensors") for name in ("alone", "pooled"))
    assert all(torch.equal(pooled.network.state_dict()[name], value) for name, value in learned.state_dict().items())
