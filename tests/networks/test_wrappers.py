"""Center-surround, pooled and spatially transformed networks."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from patchprint import networks
from patchprint.common.errors import UserError
from patchprint.data import open_source
from patchprint.networks import create, weights
from patchprint.networks.network import multiply_adds
from patchprint.networks.wrappers import SpatialTransformer
from support.network_patches import smooth_patches, trained_looking
from support.stores import write_patches


def test_the_surround_sees_what_the_network_it_starts_from_was_trained_on(tmp_path):
    write_patches(tmp_path / "store", np.random.default_rng(0).integers(0, 256, (30, 64, 64), dtype=np.uint8))
    store, network = open_source(tmp_path / "store"), trained_looking("l2net-cs", width=8)
    points, views = torch.arange(5), torch.zeros(5, 1, dtype=torch.int64)
    whole, half = (store.sample(points, views, size)[:, 0] for size in (64, 32))
    assert torch.allclose(network(whole)[:, 128:] * 2**0.5, network.surround(half), atol=1e-5)


def test_the_descriptor_is_two_unit_descriptors_side_by_side_over_root_two():
    network = trained_looking("l2net-cs", width=8)
    patches = smooth_patches(3, 64).float() / 255
    center = network.center(patches[:, :, 16:48, 16:48])
    surround = network.surround(F.avg_pool2d(patches, 2))
    expected = torch.cat([center, surround], 1) / 2**0.5
    assert torch.allclose(network(patches), expected, atol=1e-5)


def test_training_starts_from_one_tower_with_the_surround_frozen():
    tower, network = trained_looking("l2net", width=8), create("l2net-cs", width=8)
    network.start_from(tower)
    network.train()
    before = {key: value.clone() for key, value in network.surround.state_dict().items()}
    network(smooth_patches(6, 64)).sum().backward()
    assert all(parameter.grad is None for parameter in network.surround.parameters())
    assert all(parameter.grad is not None for parameter in network.center.parameters())
    for key, value in network.surround.state_dict().items():
        assert torch.equal(value, before[key]), key
    middle = smooth_patches(2, 64)[:, :, 16:48, 16:48]
    assert torch.equal(network.eval().surround(middle), tower(middle))


OPTIONS = {"width": 8, "input_norm": "standard"}


def test_the_descriptor_is_the_mean_of_the_descriptors_of_three_nested_squares() -> None:
    torch.manual_seed(0)
    network = networks.create("sdgmnet", **OPTIONS, pooled=True).eval()
    patches = torch.rand(4, 1, 64, 64)
    # Two of three pixels are told by areas that are no whole pixels: each is cut in four first.
    quarters = patches[:, :, 8:56, 8:56].repeat_interleave(2, 2).repeat_interleave(2, 3)
    squares = [F.avg_pool2d(patches, 2), F.avg_pool2d(quarters, 3), patches[:, :, 16:48, 16:48]]
    with torch.no_grad():
        expected = F.normalize(torch.stack([network.network(square) for square in squares]).mean(0), dim=1)
        assert torch.allclose(network(patches), expected, atol=1e-5)


def test_squares_may_be_nested_once_more() -> None:
    network = networks.create("sdgmnet", **OPTIONS, fovea=3, pooled=True)
    assert network.input_size == 128
    assert network.describe(torch.rand(2, 1, 128, 128)).shape == (2, 128)
    alone = networks.create("sdgmnet", **OPTIONS, fovea=3)
    assert multiply_adds(network) == 3 * multiply_adds(alone)


def test_weights_of_a_network_alone_are_read_back_pooled(tmp_path) -> None:
    network = networks.create("sdgmnet", **OPTIONS, pooled=True)
    weights.save(network, tmp_path / "pooled.safetensors")
    found = weights.load_network(tmp_path / "pooled.safetensors")
    patches = torch.rand(3, 1, 64, 64)
    assert found.info.input_size == 64
    assert torch.equal(found.describe(patches), network.describe(patches))


def test_it_learns() -> None:
    network = networks.create("sdgmnet", **OPTIONS, pooled=True)
    network(torch.rand(6, 1, 64, 64)).square().sum(0).var().backward()
    assert all(weight.grad is not None for weight in network.parameters())


def test_bits_have_no_mean() -> None:
    with pytest.raises(UserError, match="signs have no mean"):
        networks.create("sdgmnet", **OPTIONS, kind="binary", pooled=True)


def set_affine(layer, values):
    with torch.no_grad():
        layer.predict.bias.copy_(torch.tensor(values))


def test_it_starts_as_the_identity_on_the_whole_patch():
    layer = SpatialTransformer().eval()
    patches = smooth_patches(3, 42).float() / 255
    expected = F.interpolate(patches, size=(32, 32), mode="bilinear", align_corners=False)
    assert torch.allclose(layer(patches), expected, atol=1e-5)


def test_an_affine_map_reads_the_patch_where_it_says():
    """A shift by half the patch to the right shows its right half; beyond the border, the border is repeated."""
    layer = SpatialTransformer().eval()
    set_affine(layer, [1.0, 0, 1.0, 0, 1, 0])
    ramp = torch.linspace(0, 1, 42).expand(1, 1, 42, 42)
    result = layer(ramp)[0, 0, 10].detach()
    assert torch.allclose(result[16:], torch.ones(16))
    assert (result[:15].diff() > 0).all()
    assert abs(float(result[0]) - float(ramp[0, 0, 0, 21])) < 0.02


def test_zero_padding_reads_the_mean_of_the_patch_beyond_its_border():
    """Where the border would be repeated there is what a standardized patch is on average."""
    layer = SpatialTransformer(padding="zeros").eval()
    ramp = torch.linspace(0.2, 1, 42).expand(1, 1, 42, 42)
    inside = layer(ramp)[0, 0, 10].detach()
    set_affine(layer, [1.0, 0, 1.0, 0, 1, 0])
    shifted = layer(ramp)[0, 0, 10].detach()
    assert torch.allclose(shifted[:15], inside[16:31], atol=1e-5)
    assert torch.equal(shifted[17:], torch.zeros(15))
    with pytest.raises(ValueError, match="padding must be one of border, zeros, not 'mirror'"):
        create("doap-st", padding="mirror")


def test_padding_is_all_that_differs():
    """As long as nothing beyond the border is read, both describe alike; brightness cancels either way."""
    patches = smooth_patches(4, 42).float() / 255
    border, zeros = create("doap-st", width=8).eval(), create("doap-st", width=8, padding="zeros").eval()
    zeros.load_state_dict(border.state_dict())
    assert torch.allclose(border(patches), zeros(patches), atol=1e-4)
    for network in (border, zeros):
        set_affine(network.transformer, [1.5, 0, 0.2, 0, 1.5, 0])
        assert torch.allclose(network(0.5 * patches + 0.3), network(patches), atol=1e-4)
    assert not torch.allclose(border(patches), zeros(patches), atol=1e-2)


def test_a_quarter_turn():
    layer = SpatialTransformer().eval()
    patches = smooth_patches(2, 42).float() / 255
    upright = layer(patches)
    set_affine(layer, [0.0, 1, 0, -1, 0, 0])
    assert torch.allclose(layer(patches), torch.rot90(upright, -1, (2, 3)), atol=1e-4)


def test_it_can_learn_and_its_prediction_learns_slowly():
    torch.manual_seed(0)
    network = create("doap-st", width=8)
    rest, slow = network.parameter_groups()
    assert (rest["lr_factor"], slow["lr_factor"]) == (1.0, 0.01)
    assert {id(p) for p in slow["params"]} == {id(p) for p in network.transformer.predict.parameters()}
    assert len(rest["params"]) + len(slow["params"]) == len(list(network.parameters()))
    descriptors = network(smooth_patches(6, 42))
    (descriptors * torch.randn_like(descriptors)).sum().backward()
    assert network.transformer.predict.weight.grad.abs().max() > 0


@pytest.mark.parametrize("padding", ["border", "zeros"])
def test_a_map_that_is_no_number_gives_pixels_that_are_none(padding):
    """PyTorch's own sampling ends the process at such a map, on the way back."""
    layer = SpatialTransformer(padding=padding)
    with torch.no_grad():
        layer.predict.bias[2] = torch.nan
    straightened = layer(smooth_patches(3, 42).float() / 255)
    assert straightened.isnan().all()
    straightened.sum().backward()
