"""The spatial transformer: identity at the start, replicated border, slow affine prediction."""

from __future__ import annotations

import torch
from torch.nn import functional as F

from patchprint.networks import create
from patchprint.networks.spatial_transformer import SpatialTransformer
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
