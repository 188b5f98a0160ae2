"""Weights on disk: what is written comes back, damage is noticed, published files are read."""

import collections
import dataclasses
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

import patchprint
from patchprint.common import files
from patchprint.common.errors import UserError
from patchprint.networks import TrainingRecord, create, weights
from support.network_patches import PATCH_NETWORKS, known_options, smooth_patches, trained_looking

OPTIONS = {
    "network": "hardnet",
    "patch_scale": 16.0,
    "training": TrainingRecord(
        "hardnet", "Ansichten (CC0), größtenteils", 10, config={"steps": 20, "data": ["a", "b"]}
    ),
    "license": "Apache-2.0",
    "ratio": 0.85,
    "provisional": True,
    "notes": "for a test",
}


@pytest.mark.parametrize("name", PATCH_NETWORKS)
def test_saved_weights_rebuild_the_network(name, tmp_path):
    network = trained_looking(name, **known_options(name, width=4, dim=16))
    info = weights.save(network, tmp_path / "w.safetensors", dataclasses.replace(network.info, **OPTIONS, name="mine"))
    loaded = patchprint.load(tmp_path / "w.safetensors").network
    assert not loaded.training
    assert loaded.info == info
    assert (info.network, info.dim, info.license, info.ratio) == (name, network.dim, "Apache-2.0", 0.85)
    patches = smooth_patches(3, network.input_size)
    assert torch.equal(loaded.describe(patches), network.describe(patches))


def test_half_precision_storage_halves_the_file_and_keeps_the_descriptors(tmp_path):
    network = trained_looking("hynet", width=16)
    full = weights.save(network, tmp_path / "full.safetensors")
    half = weights.save(network, tmp_path / "half.safetensors", half=True)
    assert full.sha256 != half.sha256
    sizes = [(tmp_path / f"{kind}.safetensors").stat().st_size for kind in ("full", "half")]
    assert sizes[1] < 0.6 * sizes[0]
    loaded = weights.load_network(tmp_path / "half.safetensors")
    assert loaded.layer1[0].eps.item() == network.layer1[0].eps.item()
    patches = smooth_patches(4)
    assert (loaded(patches) - network(patches)).norm(dim=1).max() < 5e-3


def test_the_checksum_depends_on_the_weights_only(tmp_path):
    network = trained_looking("tfeat", width=4)
    a = weights.save(network, tmp_path / "a.safetensors", dataclasses.replace(network.info, name="a"))
    b = weights.save(network, tmp_path / "b.safetensors", dataclasses.replace(network.info, name="b"))
    assert a.sha256 == b.sha256
    with torch.no_grad():
        network.descr[0].bias[0] += 1
    assert weights.save(network, tmp_path / "b.safetensors").sha256 != a.sha256


def test_shipped_weights_are_found_by_name(tmp_path, monkeypatch):
    monkeypatch.setattr(weights, "WEIGHTS_FOLDER", tmp_path / "weights")
    assert weights.list_weights() == []
    with pytest.raises(ValueError, match="comes without weights"):
        weights.load_network("hardnet")
    network = trained_looking("hardnet", width=4)
    for name in ("hardnet", "patchprint.tiny"):
        weights.save(
            network, tmp_path / "weights" / f"{name}.safetensors", dataclasses.replace(network.info, name=name)
        )
    assert [info.name for info in weights.list_weights()] == ["hardnet", "patchprint.tiny"]
    assert weights.load_network("patchprint.tiny").info.name == "patchprint.tiny"
    with pytest.raises(ValueError, match=r"no model 'patchprint.tin'; did you mean patchprint.tiny"):
        weights.load_network("patchprint.tin")
    with pytest.raises(ValueError, match="weights are there for hardnet"):
        weights.load_network("sosnet")


def small_file(folder: Path, kind: str) -> Path:
    network = trained_looking("hardnet", width=4, dim=16)
    if kind == "safetensors":
        weights.save(network, folder / "w.safetensors")
        return folder / "w.safetensors"
    torch.save(network.state_dict(), folder / "w.pth", _use_new_zipfile_serialization=kind == "zip")
    return folder / "w.pth"


@pytest.mark.parametrize("kind", ["safetensors", "zip", "legacy"])
@pytest.mark.parametrize("keep", [0.0, 0.001, 0.1, 0.5, 0.99])
def test_truncated_files_are_refused_in_a_sentence(kind, keep, tmp_path):
    path = small_file(tmp_path, kind)
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * keep)])
    with pytest.raises(ValueError, match=path.name):
        weights.load_network(path)


def test_a_changed_byte_is_noticed(tmp_path):
    path = small_file(tmp_path, "safetensors")
    data = bytearray(path.read_bytes())
    data[-100] ^= 1
    path.write_bytes(data)
    with pytest.raises(ValueError, match="checksum"):
        weights.load_network(path)


class Evil:
    def __reduce__(self):
        return (print, ("this must never be printed",))


def test_foreign_files_are_refused_in_a_sentence(tmp_path, capsys):
    def refused(path, words):
        with pytest.raises(ValueError, match=words) as caught:
            weights.load_network(path)
        assert path.name in str(caught.value)
        assert "\n" not in str(caught.value)

    (tmp_path / "text.pth").write_text("not weights")
    refused(tmp_path / "text.pth", "damaged or no weight file")
    torch.save({"weights": Evil()}, tmp_path / "evil.pth")
    refused(tmp_path / "evil.pth", "read safely")
    assert "never" not in capsys.readouterr().out
    torch.save({"fc.weight": torch.zeros(3, 3)}, tmp_path / "other.pth")
    refused(tmp_path / "other.pth", "another network")
    torch.save([1, 2, 3], tmp_path / "list.pth")
    refused(tmp_path / "list.pth", "no weights")
    deeper = create("hardnet", width=4).state_dict() | {"features.22.weight": torch.zeros(4, 4, 8, 8)}
    torch.save(deeper, tmp_path / "hardnet8.pth")
    refused(tmp_path / "hardnet8.pth", "do not fit network .hardnet.")
    save_file({"a": torch.zeros(2)}, tmp_path / "other.safetensors")
    refused(tmp_path / "other.safetensors", "another network")
    refused(tmp_path / "missing.safetensors", "no weight file")
    refused(tmp_path, "is a folder")


@pytest.mark.parametrize("name", ["hardnet", "sosnet", "hynet", "tfeat", "desdis"])
@pytest.mark.parametrize("wrapped", [False, True], ids=["plain", "checkpoint"])
def test_published_files_are_recognized_by_their_keys(name, wrapped, tmp_path):
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


def test_old_names_of_weights_load_the_new_ones_or_say_what_to_take() -> None:
    with pytest.warns(FutureWarning, match=r"sdgmnet\.tiny are called patchprint\.tiny now"):
        assert weights.load_network("sdgmnet.tiny").info.name == "patchprint.tiny"
    with pytest.raises(ValueError, match=r"sdgmnet\.large are no longer shipped; take patchprint"):
        weights.load_network("sdgmnet.large")
