"""Weight files of other projects."""

from __future__ import annotations

import collections

import pytest
import torch

from patchprint.networks import weights
from support.network_patches import smooth_patches, trained_looking


@pytest.mark.parametrize("name", ["hardnet", "sosnet", "hynet", "tfeat"])
@pytest.mark.parametrize("wrapped", [False, True], ids=["plain", "checkpoint"])
def test_published_files_are_recognised_by_their_keys(name, wrapped, tmp_path):
    """Plain state dicts, and checkpoints as HardNet's: wrapped, from DataParallel, from before batches were counted."""
    network = trained_looking(name)
    state = network.state_dict()
    if wrapped:
        old = {f"module.{key}": value for key, value in state.items() if not key.endswith("num_batches_tracked")}
        content = {"epoch": 9, "state_dict": collections.OrderedDict(old)}
    else:
        content = collections.OrderedDict(state)
    torch.save(content, tmp_path / "published.pth", _use_new_zipfile_serialization=not wrapped)
    loaded = weights.load_network(tmp_path / "published.pth")
    assert loaded.info.network == name
    assert len(loaded.info.sha256) == 64
    patches = smooth_patches(3)
    assert torch.equal(loaded(patches), network(patches))


def test_the_real_tfeat_file_survives_conversion(shared, tmp_path):
    network = weights.load_network(shared("peers/tfeat-liberty.params"))
    assert (network.info.name, network.info.license) == ("tfeat.liberty", "MIT")
    info = weights.save(network, tmp_path / "tfeat.liberty.safetensors")
    assert info.sha256 == network.info.sha256
    patches = smooth_patches(3)
    assert torch.equal(weights.load_network(tmp_path / "tfeat.liberty.safetensors")(patches), network(patches))
