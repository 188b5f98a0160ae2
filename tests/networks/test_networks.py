"""Properties of every network in the registry."""

import warnings

import pytest
import torch

from patchprint.networks import create, set_num_views
from support.network_patches import PATCH_NETWORKS, known_options, smooth_patches, trained_looking

pytestmark = pytest.mark.parametrize("name", PATCH_NETWORKS)


def trained(name, seed=0):
    return trained_looking(name, seed, **known_options(name, width=8))


def untrained(name, seed=0):
    """A narrow network without dropout, in training mode."""
    torch.manual_seed(seed)
    return create(name, **known_options(name, width=8, dropout=0.0))


def patches_for(network, count=6):
    return smooth_patches(count, network.input_size)


def test_descriptors_have_the_stated_shape_and_unit_length(name):
    network = trained(name)
    descriptors = network(patches_for(network))
    assert descriptors.shape == (6, network.dim)
    assert descriptors.dtype == torch.float32
    assert torch.allclose(descriptors.norm(dim=1), torch.ones(6), atol=1e-5)


def test_a_patch_alone_and_in_a_batch_give_the_same_descriptor(name):
    network = trained(name)
    patches = patches_for(network)
    together = network(patches)
    alone = torch.cat([network(patch[None]) for patch in patches])
    assert torch.allclose(together, alone, atol=1e-6)


def test_bytes_and_floats_give_the_same_descriptor(name):
    network = trained(name)
    patches = patches_for(network)
    assert torch.equal(network(patches), network(patches.float() / 255))


@pytest.mark.parametrize(("gain", "offset"), [(0.7, 0.0), (1.3, 0.0), (0.7, 0.25), (1.0, -0.1)])
def test_contrast_and_where_promised_brightness_hardly_move_the_descriptor(name, gain, offset):
    network = trained(name)
    patches = patches_for(network).float() / 255
    assert patches.flatten(1).std(1).min() > 0.12
    moved = (network(gain * patches + offset) - network(patches)).norm(dim=1)
    assert (moved.max() <= 1e-3) == (offset == 0.0 or network.cancels_brightness)


def test_different_patches_have_different_descriptors(name):
    network = trained(name)
    descriptors = network(patches_for(network))
    assert torch.pdist(descriptors).min() > 1e-2


def test_gradients_reach_every_parameter(name):
    network = untrained(name)
    raw, _ = network.forward_features(patches_for(network, 8))
    (network.head(raw) * torch.randn_like(raw)).sum().backward()
    for key, parameter in network.named_parameters():
        assert parameter.grad is not None, key
        assert torch.isfinite(parameter.grad).all(), key


def test_no_patches_give_no_descriptors_of_the_right_width(name):
    network = trained(name)
    none = patches_for(network)[:0]
    assert network(none).shape == (0, network.dim)
    assert network.describe(none).shape == (0, network.dim // 8 if network.kind == "binary" else network.dim)


def test_describe_works_in_chunks_and_leaves_the_mode_alone(name):
    network = trained(name).train()
    patches = patches_for(network, 7)
    descriptors = network.describe(patches, chunk=3)
    assert network.training
    assert not descriptors.requires_grad
    assert torch.allclose(descriptors.float(), network.describe(patches).float(), atol=1e-6)


def test_bfloat16_autocast_is_finite_and_near(name):
    network = trained(name)
    patches = patches_for(network)
    with torch.autocast("cpu", torch.bfloat16), torch.no_grad():
        raw, _ = network.forward_features(patches)
        descriptors = network.head(raw)
    assert raw.dtype == descriptors.dtype == torch.float32
    assert torch.isfinite(descriptors).all()
    cosine = (descriptors * network(patches)).sum(1)
    assert cosine.min() > (0.9 if network.kind == "binary" else 0.99)


def test_flat_patches_are_finite(name):
    network = trained(name)
    size = network.input_size
    flat = torch.stack([torch.full((1, size, size), value) for value in (0.0, 0.5, 1.0)])
    assert torch.isfinite(network(flat)).all()
    for dtype in (torch.bfloat16, torch.float16):
        with torch.autocast("cpu", dtype), torch.no_grad():
            assert torch.isfinite(network(flat)).all(), dtype


def test_views_in_one_pass_equal_two_passes(name):
    """Anchors and positives side by side give the descriptors of HardNet's two passes, and the running statistics."""
    once, twice = untrained(name, seed=3), untrained(name, seed=3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a batch norm that cannot be told of views
        set_num_views(once, 2)
    a, b = smooth_patches(5, once.input_size, seed=1), smooth_patches(5, once.input_size, seed=2)
    together = once(torch.cat([a, b]))
    assert torch.allclose(together, torch.cat([twice(a), twice(b)]), atol=1e-5)
    for key, value in twice.state_dict().items():
        assert torch.allclose(once.state_dict()[key].float(), value.float(), atol=1e-6), key


def test_maps_are_the_first_and_last_normalized_ones(name):
    network, normalized = untrained(name), []
    for module in network.modules():
        if "Norm" in type(module).__name__:
            module.register_forward_hook(lambda _, __, output: normalized.append(output.flatten(1)))
    raw, maps = network.forward_features(patches_for(network, 8))
    assert (maps is not None) == network.has_maps
    if maps is not None:
        first, last = maps
        # A network of two towers has the maps of both side by side.
        assert any(torch.equal(first[:, : output.shape[1]], output) for output in normalized)
        assert (first < 0).any(), "taken before the activation"
        assert torch.equal(last, raw)
    assert network.forward_features(patches_for(network, 8), with_maps=False)[1] is None


def test_wrong_patches_are_refused_in_a_sentence(name):
    network = untrained(name)
    size = network.input_size
    for wrong in (torch.rand(2, 3, size, size), torch.rand(2, 1, size, size + 1), torch.rand(1, size, size)):
        with pytest.raises(ValueError, match="patches must have shape"):
            network(wrong)
    with pytest.raises(ValueError, match="uint8 or floating"):
        network(torch.zeros(2, 1, size, size, dtype=torch.int32))
