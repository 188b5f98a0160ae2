"""Networks for whole images: heads, frozen batch norm, two rates, backbones of others, files."""

import pytest
import torch
from torch import nn

from patchprint.common.errors import UserError
from patchprint.networks import backbones, create, weights
from patchprint.networks.backbones import BACKBONES, register_backbone
from patchprint.networks.embedding import EmbeddingNetwork

SMALL = {"backbone": "resnet18-narrow", "dim": 16, "input_size": 32}


class Patchwork(nn.Module):
    """The mean color, as a backbone."""

    num_features = 3

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(3))

    def forward(self, images):
        return images.mean((2, 3)) * self.scale


@pytest.fixture
def patchwork(monkeypatch):
    monkeypatch.setattr(backbones, "BACKBONES", dict(BACKBONES))
    register_backbone("patchwork", Patchwork)


def images(count=6, size=32):
    return torch.rand(count, 3, size, size, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("last_norm", ["none", "batch", "weight"])
def test_unit_vectors_and_raw_ones(last_norm):
    network = create("embedding", **SMALL, last_norm=last_norm)
    descriptors, raw = network.describe(images(), chunk=4), network.raw(images(), chunk=4)
    assert descriptors.shape == raw.shape == (6, 16)
    torch.testing.assert_close(descriptors, raw / raw.norm(dim=1, keepdim=True))
    torch.testing.assert_close(network.describe((images() * 255).byte()), descriptors, atol=0.02, rtol=0)
    assert network.describe(images(0)).shape == (0, 16)


def test_batch_norm_on_the_embedding_makes_its_dimensions_even():
    network = create("embedding", **SMALL, last_norm="batch").train()
    raw, _ = network.forward_features(images())
    assert raw.mean(0).abs().max() < 1e-5
    torch.testing.assert_close(raw.var(0, correction=0), torch.ones(16), atol=1e-2, rtol=0)


def test_weight_norm_is_on_the_last_layer_alone():
    network = create("embedding", **SMALL, last_norm="weight")
    assert [name for name in network.state_dict() if "parametrizations" in name] == [
        "embed.parametrizations.weight.original0",
        "embed.parametrizations.weight.original1",
    ]


def test_frozen_norm_keeps_statistics_and_affine_parts_of_the_backbone():
    network = create("embedding", **SMALL).train()
    before = {name: value.clone() for name, value in network.state_dict().items()}
    network(images()).sum().backward()
    moved = {name for name, value in network.state_dict().items() if not torch.equal(value, before[name])}
    assert moved == {f"feature_norm.{name}" for name in ("running_mean", "running_var", "num_batches_tracked")}
    assert network.backbone.bn1.weight.grad is None
    assert network.backbone.conv1.weight.grad is not None
    learning = create("embedding", **SMALL, frozen_norm=False).train()
    learning(images()).sum().backward()
    assert learning.backbone.bn1.training
    assert learning.backbone.bn1.weight.grad is not None


def test_two_rates_and_no_decay_of_norms_and_biases():
    network = create("embedding", **SMALL, backbone_rate=0.25)
    groups = network.parameter_groups()
    found = {id(p): (group["lr_factor"], group["decays"]) for group in groups for p in group["params"]}
    assert len(found) == len(list(network.parameters()))
    assert found[id(network.backbone.conv1.weight)] == (0.25, True)
    assert found[id(network.backbone.bn1.weight)] == (0.25, False)
    assert found[id(network.embed.weight)] == (1.0, True)
    assert found[id(network.embed.bias)] == (1.0, False)
    assert found[id(network.feature_norm.weight)] == (1.0, False)


def test_files_bring_back_the_same_network(tmp_path):
    network = create("embedding", **SMALL, last_norm="weight", feature_norm=False)
    info = weights.save(network, tmp_path / "a.safetensors")
    assert info.channels == 3
    again = weights.load_network(tmp_path / "a.safetensors")
    torch.testing.assert_close(again.describe(images()), network.describe(images()))


def test_any_module_is_a_backbone(patchwork, tmp_path):
    network = create("embedding", backbone="patchwork", dim=4, input_size=8, feature_norm=False)
    weights.save(network, tmp_path / "a.safetensors")
    torch.testing.assert_close(
        weights.load_network(tmp_path / "a.safetensors").raw(images(size=8)), network.raw(images(size=8))
    )
    direct = EmbeddingNetwork(Patchwork(), dim=4, input_size=8)
    assert direct.describe(images(size=8)).shape == (6, 4)
    with pytest.raises(UserError, match="already"):
        register_backbone("patchwork", Patchwork)


def test_a_file_with_an_unknown_backbone_says_what_to_do(patchwork, monkeypatch, tmp_path):
    weights.save(create("embedding", backbone="patchwork", dim=4, input_size=8), tmp_path / "a.safetensors")
    backbones.BACKBONES.pop("patchwork")
    with pytest.raises(UserError, match=r"patchwork.*register_backbone"):
        weights.load_network(tmp_path / "a.safetensors")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"backbone": "resnet81"}, "resnet18"),
        ({"last_norm": "layer"}, "none, batch or weight"),
        ({"size": 3}, "no option 'size'"),
    ],
)
def test_wrong_options(options, message):
    with pytest.raises(UserError, match=message):
        create("embedding", **{**SMALL, **options})


def test_no_imagenet_weights_for_a_backbone_without_any():
    with pytest.raises(UserError, match="no ImageNet weights"):
        create("embedding", **SMALL).load_imagenet()


def test_gray_patches_are_refused():
    with pytest.raises(UserError, match=r"\(N, 3, 32, 32\)"):
        create("embedding", **SMALL).describe(torch.rand(2, 1, 32, 32))
