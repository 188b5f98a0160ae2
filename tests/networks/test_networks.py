"""What every network must do, asked of every name in the catalogue."""

from __future__ import annotations

import pytest
import torch

from network_patches import smooth_patches, trained_looking
from patchprint.networks import NETWORKS, create, set_num_views
from patchprint.networks.blocks import ViewBatchNorm2d

pytestmark = pytest.mark.parametrize("name", NETWORKS)
WIDTH = 8


def patches_for(network, count=6):
    return smooth_patches(count, network.input_size)


def test_prints_have_the_stated_shape_and_unit_length(name):
    network = trained_looking(name, width=WIDTH)
    descriptors = network(patches_for(network))
    assert descriptors.shape == (6, network.dim)
    assert descriptors.dtype == torch.float32
    assert torch.allclose(descriptors.norm(dim=1), torch.ones(6), atol=1e-5)


def test_a_patch_alone_and_in_a_batch_give_the_same_print(name):
    network = trained_looking(name, width=WIDTH)
    patches = patches_for(network)
    together = network(patches)
    alone = torch.cat([network(patch[None]) for patch in patches])
    assert torch.allclose(together, alone, atol=1e-6)


def test_bytes_and_floats_give_the_same_print(name):
    network = trained_looking(name, width=WIDTH)
    patches = patches_for(network)
    assert torch.equal(network(patches), network(patches.float() / 255))


@pytest.mark.parametrize(("gain", "offset"), [(0.7, 0.0), (1.3, 0.0), (0.7, 0.25), (1.0, -0.1)])
def test_brightness_and_contrast_hardly_move_the_print(name, gain, offset):
    # HyNet as published (and in kornia) divides by the root mean square only: brightness needs its standardised form.
    options = {"input_norm": "standard"} if name == "hynet" and offset else {}
    network = trained_looking(name, width=WIDTH, **options)
    patches = patches_for(network).float() / 255
    assert patches.flatten(1).std(1).min() > 0.12
    moved = (network(gain * patches + offset) - network(patches)).norm(dim=1)
    assert moved.max() <= 1e-3


def test_different_patches_have_different_prints(name):
    network = trained_looking(name, width=WIDTH)
    descriptors = network(patches_for(network))
    assert torch.pdist(descriptors).min() > 1e-2


def test_gradients_reach_every_parameter(name):
    torch.manual_seed(0)
    network = create(name, width=WIDTH, **({"dropout": 0.0} if name != "tfeat" else {}))
    raw, _ = network.forward_features(patches_for(network, 8))
    (network.head(raw) * torch.randn_like(raw)).sum().backward()
    for key, parameter in network.named_parameters():
        assert parameter.grad is not None, key
        assert torch.isfinite(parameter.grad).all(), key


def test_no_patches_give_no_prints_of_the_right_width(name):
    network = trained_looking(name, width=WIDTH)
    none = patches_for(network)[:0]
    assert network(none).shape == (0, network.dim)
    assert network.describe(none).shape == (0, network.dim // 8 if network.kind == "binary" else network.dim)


def test_describe_works_in_chunks_and_leaves_the_mode_alone(name):
    network = trained_looking(name, width=WIDTH).train()
    patches = patches_for(network, 7)
    descriptors = network.describe(patches, chunk=3)
    assert network.training
    assert not descriptors.requires_grad
    assert torch.allclose(descriptors.float(), network.describe(patches).float(), atol=1e-6)


def test_bfloat16_autocast_is_finite_and_near(name):
    network = trained_looking(name, width=WIDTH)
    patches = patches_for(network)
    with torch.autocast("cpu", torch.bfloat16), torch.no_grad():
        raw, _ = network.forward_features(patches)
        descriptors = network.head(raw)
    assert raw.dtype == descriptors.dtype == torch.float32
    assert torch.isfinite(descriptors).all()
    cosine = (descriptors * network(patches)).sum(1)
    assert cosine.min() > (0.9 if network.kind == "binary" else 0.99)


def test_flat_patches_are_finite(name):
    network = trained_looking(name, width=WIDTH)
    size = network.input_size
    flat = torch.stack([torch.full((1, size, size), value) for value in (0.0, 0.5, 1.0)])
    assert torch.isfinite(network(flat)).all()


def test_state_dict_round_trip(name):
    source, target = trained_looking(name, width=WIDTH, seed=1), create(name, width=WIDTH).eval()
    target.load_state_dict(source.state_dict(), strict=True)
    patches = patches_for(source)
    assert torch.equal(source(patches), target(patches))


def test_views_in_one_pass_equal_two_passes(name):
    """Anchors and positives side by side give what HardNet's two passes give: prints and running statistics."""
    options = {"width": WIDTH} | ({} if name == "tfeat" else {"dropout": 0.0})
    torch.manual_seed(3)
    once = create(name, **options)
    twice = create(name, **options)
    twice.load_state_dict(once.state_dict())
    set_num_views(once, 2)
    a, b = smooth_patches(5, once.input_size, seed=1), smooth_patches(5, once.input_size, seed=2)
    together = once(torch.cat([a, b]))
    assert torch.allclose(together, torch.cat([twice(a), twice(b)]), atol=1e-5)
    for key, value in twice.state_dict().items():
        assert torch.allclose(once.state_dict()[key].float(), value.float(), atol=1e-6), key


def test_maps_are_the_first_and_last_normalised_ones(name):
    network = create(name, width=WIDTH)
    raw, maps = network.forward_features(patches_for(network, 8))
    if name == "tfeat":
        assert maps is None
        return
    first, last = maps
    towers = 2 if name == "l2net-cs" else 1
    assert first.shape == (8, towers * WIDTH * 32 * 32)
    assert torch.equal(last, raw)
    assert (first < 0).any(), "taken before the activation"
    if any(isinstance(module, ViewBatchNorm2d) for module in list(network.modules())[:5]):
        channels = first.unflatten(1, (WIDTH, -1))
        assert channels.mean((0, 2)).abs().max() < 1e-5


def test_wrong_patches_are_refused_in_a_sentence(name):
    network = create(name, width=WIDTH)
    size = network.input_size
    for wrong in (torch.rand(2, 3, size, size), torch.rand(2, 1, size, size + 1), torch.rand(1, size, size)):
        with pytest.raises(ValueError, match="patches must have shape"):
            network(wrong)
    with pytest.raises(ValueError, match="uint8 or floating"):
        network(torch.zeros(2, 1, size, size, dtype=torch.int32))
