"""Weight files of other projects."""

from __future__ import annotations

import collections

import pytest
import torch

from patchprint.common import files
from patchprint.common.errors import UserError
from patchprint.networks import weights
from support.network_patches import smooth_patches, trained_looking


@pytest.mark.parametrize("name", ["hardnet", "sosnet", "hynet", "tfeat", "desdis"])
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


def test_hardtfeat_is_tfeat_under_other_keys(tmp_path):
    network = trained_looking("tfeat", standardize=True)
    old = network.state_dict()
    state = {"SIFT.gx.0.weight": torch.zeros(1, 1, 1, 3)}
    for ours, theirs in (("features.1", "features.0"), ("features.4", "features.3"), ("descr.0", "classifier.1")):
        for kind in ("weight", "bias"):
            state[f"{theirs}.{kind}"] = old[f"{ours}.{kind}"]
    state["classifier.1.weight"] = state["classifier.1.weight"].view(-1, 64, 8, 8)
    torch.save({"epoch": 2, "state_dict": state}, tmp_path / "HardTFeat.pth")
    loaded = weights.load_network(tmp_path / "HardTFeat.pth")
    assert (loaded.info.name, loaded.info.network, loaded.info.options["standardize"]) == ("hardtfeat", "tfeat", True)
    patches = smooth_patches(3)
    assert torch.equal(loaded(patches), network(patches))


def test_published_weights_are_used_by_name_once_their_file_is_in_the_cache():
    folder = files.cache_folder("weights")
    with pytest.raises(UserError, match=f"put DesDis-8.pth from https://.*DesDis into {folder}"):
        weights.load_network("desdis-8")
    folder.mkdir(parents=True)
    network = trained_looking("desdis", width=8)
    torch.save(network.state_dict(), folder / "DesDis-8.pth")
    loaded = weights.load_network("desdis-8")
    assert (loaded.info.name, loaded.info.options["width"]) == ("desdis-8", 8)
    assert torch.equal(loaded(smooth_patches(3)), network(smooth_patches(3)))
    with pytest.raises(UserError, match="did you mean desdis-8"):
        weights.load_network("desdis-9")


@pytest.mark.parametrize("name", ["DesDis-8.pth", "DesDis-32.pth", "HardTFeat.pth"])
def test_the_real_files_tell_a_patch_and_its_noisy_copy_from_others(name, shared):
    network = weights.load_network(shared(f"peers/{name}"))
    patches = smooth_patches(40).float() / 255
    noisy = (patches + 0.02 * torch.randn(patches.shape, generator=torch.Generator().manual_seed(0))).clamp(0, 1)
    nearest = torch.cdist(network(patches), network(noisy)).argmin(1)
    assert (nearest == torch.arange(40)).float().mean() > 0.9
