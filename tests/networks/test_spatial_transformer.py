"""The spatial transformer: identity at the start, repeated border or zeros, slow affine prediction."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from patchprint.networks import create
from patchprint.networks.wrappers import SpatialTransformer
from support.network_patches import smooth_patches


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
