"""``create``: options, their names, and what is recorded about them."""

import pytest
import torch
from torch import nn

import patchprint
from patchprint import losses
from patchprint.common.errors import UserError
from patchprint.common.types import Keypoints
from patchprint.losses import DescriptorBatch
from patchprint.networks import create, weights
from patchprint.networks.hynet import HyNet
from support.network_patches import PATCH_NETWORKS, known_options, smooth_patches, trained_looking
from support.slowness import slow_but


def test_options_change_width_dimension_and_kind():
    network = create("hardnet", width=4, dim=24, kind="binary", dropout=0.25)
    assert network.features[0].weight.shape == (4, 1, 3, 3)
    assert network.features[18].p == 0.25
    assert network.describe(smooth_patches(2)).shape == (2, 3)
    assert network.info.options == {"dim": 24, "width": 4, "dropout": 0.25, "kind": "binary"}


@pytest.mark.parametrize("size", [0, -1, 1.5, True, None])
@pytest.mark.parametrize("option", ["dim", "width"])
def test_sizes_that_are_none_are_refused(option, size):
    with pytest.raises(UserError, match=f"{option} is {size}, which is not a whole number above 0"):
        create("hardnet", **{option: size})


def test_a_network_made_by_its_class_is_called_like_it_and_describes(tmp_path):
    network = HyNet(dim=16, width=4)
    assert (network.info.name, network.info.network, network.info.dim) == ("hynet", "", 16)
    image, point = smooth_patches(1, 64)[0, 0].numpy(), Keypoints([[32.0, 32.0]], [2.0], [0.0])
    features = patchprint.extract(image, network, keypoints=point)
    assert (features.model.name, tuple(features.descriptors.shape)) == ("hynet", (1, 16))
    with pytest.raises(ValueError, match=r"a HyNet that was made by its class .* networks\.create"):
        weights.save(network, tmp_path / "w.safetensors")
    assert not list(tmp_path.iterdir())


def test_unknown_names_are_answered_with_close_ones():
    with pytest.raises(ValueError, match="did you mean hardnet"):
        create("hardnett")
    with pytest.raises(ValueError, match=r"no option 'dropot'; did you mean dropout"):
        create("hynet", dropot=0.1)
    with pytest.raises(ValueError, match="'float' or 'binary'"):
        create("hardnet", kind="ternary")
    with pytest.raises(ValueError, match="multiple of 8"):
        create("hardnet", kind="binary", dim=20)


@pytest.mark.parametrize(
    ("name", "eps", "dropout", "bias"),
    [
        ("l2net", 1e-4, 0.0, True),
        ("hardnet", 1e-5, 0.3, False),
        ("sosnet", 1e-5, 0.1, False),
        ("doap", 1e-5, 0.1, False),
    ],
)
def test_settings_of_the_l2net_family_are_the_published_ones(name, eps, dropout, bias):
    network = create(name)
    norms = [module for module in network.modules() if isinstance(module, nn.BatchNorm2d)]
    convolutions = [module for module in network.modules() if isinstance(module, nn.Conv2d)]
    assert len(norms) == len(convolutions) == 7
    assert all(not norm.affine and norm.eps == eps for norm in norms)
    assert all((convolution.bias is not None) == bias for convolution in convolutions)
    assert [module.p for module in network.modules() if isinstance(module, nn.Dropout)] == [dropout]


def test_learned_norm_leaves_those_that_maps_are_taken_from():
    """L2-Net's Fig. 3a, curve C: all batch norms but the first and the last learn scale and shift."""
    norms = [module for module in create("l2net", learned_norm=True).modules() if isinstance(module, nn.BatchNorm2d)]
    assert [norm.affine for norm in norms] == [False, True, True, True, True, True, False]


def test_maps_of_all_layers():
    """L2-Net's Fig. 3a, curve D: a map after each of the seven batch norms; the loss asks for all that there are."""
    torch.manual_seed(0)
    network, outputs = create("l2net", width=4, dim=16, maps="all"), []
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.register_forward_hook(lambda _, __, output: outputs.append(output.flatten(1)))
    raw, maps = network.forward_features(smooth_patches(6))
    assert len(maps) == len(outputs) == 7
    assert all(torch.equal(given, output) for given, output in zip(maps, outputs, strict=True))
    views = [value.unflatten(0, (2, 3)).transpose(0, 1) for value in (network.head(raw), raw, *maps)]
    loss = losses.create("l2net")
    parts = [loss(DescriptorBatch(views[0], views[1], maps=(one,)))["e3"] for one in views[2:]]
    together = loss(DescriptorBatch(views[0], views[1], maps=tuple(views[2:])))["e3"]
    assert together.item() == pytest.approx(sum(part.item() for part in parts), rel=1e-5)
    with pytest.raises(ValueError, match="maps must be 'ends' or 'all', not 'some'"):
        create("l2net", maps="some")


def test_hardnet_starts_orthogonal_with_gain_06():
    weight = create("hardnet").features[3].weight.flatten(1)
    assert torch.allclose(weight @ weight.T, 0.36 * torch.eye(32), atol=1e-4)


def test_hynet_as_published_feels_brightness_and_its_standardized_form_does_not():
    patches = smooth_patches(6).float() / 255
    moved = {}
    for norm, options in (("frn", {}), ("standard", {"input_norm": "standard"})):
        network = trained_looking("hynet", **options)
        assert network.info.options["input_norm"] == norm
        moved[norm] = (network(0.7 * patches + 0.25) - network(patches)).norm(dim=1).max()
    assert moved["frn"] > 0.05
    assert moved["standard"] < 1e-3


@pytest.mark.parametrize("name", slow_but({"sdgmnet", "doap-st"}, PATCH_NETWORKS))
def test_one_graph_without_breaks(name):
    """torch.compile needs no return to Python."""
    network = trained_looking(name, **known_options(name, width=8))
    patches = smooth_patches(4, network.input_size)
    torch.compiler.reset()
    compiled = torch.compile(network, backend="eager", fullgraph=True)
    assert torch.allclose(compiled(patches), network(patches), atol=1e-6)
