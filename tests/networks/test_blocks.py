"""Shared layers against their formulas, batch norm across processes, and heads."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

from patchprint import networks
from patchprint.common.errors import UserError
from patchprint.networks.blocks import (
    BinaryHead,
    FloatHead,
    Fovea,
    PatchStandardization,
    ViewBatchNorm2d,
    set_num_views,
)
from patchprint.networks.hynet import TLU, FilterResponseNorm2d
from patchprint.ops.distances import pack_bits
from support.batch_norm_rank import normalize_on_rank, part_of
from support.network_patches import smooth_patches, trained_looking
from support.processes import run_together


def test_frn_follows_its_formula():
    layer = FilterResponseNorm2d(3)
    nn.init.normal_(layer.weight)
    nn.init.normal_(layer.bias)
    x = torch.randn(2, 3, 5, 5) + 0.5
    for n in range(2):
        for c in range(3):
            power = (x[n, c] ** 2).sum() / 25
            expected = layer.weight[0, c] * x[n, c] / torch.sqrt(power + 1e-6) + layer.bias[0, c]
            assert torch.allclose(layer(x)[n, c], expected, atol=1e-6)


def test_frn_takes_its_statistics_in_float32():
    """Sixteen thousand squares near 1e4 overflow float16 and lose their sum in bfloat16."""
    x = 100 + torch.randn(1, 1, 128, 128)
    expected = x / x.square().mean().sqrt()
    for dtype in (torch.float16, torch.bfloat16):
        result = FilterResponseNorm2d(1)(x.to(dtype))
        assert result.dtype == dtype
        assert torch.allclose(result.float(), expected, atol=2e-2)


def test_tlu_keeps_the_larger_of_input_and_threshold():
    layer = TLU(2)
    with torch.no_grad():
        layer.tau[0, 1] = 0.5
    result = layer(torch.tensor([-2.0, 0.0, 2.0]).expand(1, 2, 1, 3))
    assert result.tolist() == [[[[-1.0, 0.0, 2.0]], [[0.5, 0.5, 2.0]]]]


def test_standardized_patches_have_mean_zero_and_unbiased_deviation_one():
    result = PatchStandardization()(torch.rand(4, 1, 32, 32))
    assert torch.allclose(result.mean((1, 2, 3)), torch.zeros(4), atol=1e-6)
    assert torch.allclose(result.flatten(1).std(1), torch.ones(4), atol=1e-4)


def test_standardization_passes_no_gradient_through_its_statistics():
    patches = torch.rand(2, 1, 8, 8, requires_grad=True)
    PatchStandardization()(patches)[0, 0, 3, 3].backward()
    assert patches.grad is not None
    assert patches.grad.count_nonzero() == 1


def test_a_fovea_sees_nested_squares_each_standardized():
    patches = torch.rand(2, 1, 64, 64)
    seen = Fovea(3)(patches)
    middle = patches[:, 0, 8:56, 8:56].double()
    # Three pixels become two: the one between them counts for a half in each of the two, so 1 and 1/2 over 1 1/2.
    pairs = torch.tensor([[2, 1, 0], [0, 1, 2]]).double() / 3
    rows = torch.block_diag(*[pairs] * 16)
    squares = [
        patches[:, 0].unfold(1, 2, 2).unfold(2, 2, 2).mean((3, 4)),
        rows @ middle @ rows.T,
        patches[:, 0, 16:48, 16:48],
    ]
    for channel, square in enumerate(squares):
        expected = PatchStandardization()(square.float()[:, None])[:, 0]
        assert torch.allclose(seen[:, channel], expected, atol=1e-5)
    assert torch.equal(Fovea(2)(patches), seen[:, [0, 2]])


def test_a_network_with_a_fovea_takes_larger_patches_and_cancels_light():
    network = networks.create("sdgmnet", width=8, input_norm="standard", fovea=2).eval()
    patches = torch.rand(3, 1, 64, 64)
    assert network.info.input_size == 64
    assert torch.allclose(network(patches), network(patches * 0.5 + 0.3), atol=1e-4)
    for options in ({"fovea": 4, "input_norm": "standard"}, {"fovea": 2}):
        with pytest.raises(UserError, match="fovea"):
            networks.create("sdgmnet", width=8, **options)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_view_batch_norm_is_several_passes_in_one(dtype):
    x = (torch.randn(12, 4, 3, 3) * torch.arange(1, 13)[:, None, None, None]).to(dtype)
    ours, plain = ViewBatchNorm2d(4), nn.BatchNorm2d(4, affine=False)
    set_num_views(nn.Sequential(ours), 3)
    assert torch.equal(ours(x), torch.cat([plain(view) for view in x.chunk(3)]))
    assert ours.state_dict().keys() == plain.state_dict().keys()
    for key, value in plain.state_dict().items():
        assert torch.equal(ours.state_dict()[key], value), key
    assert torch.equal(ours.eval()(x), plain.eval()(x))


def test_a_batch_norm_that_cannot_be_told_of_views_is_named():
    network = nn.Sequential(ViewBatchNorm2d(2), nn.Sequential(nn.BatchNorm2d(2)), nn.BatchNorm1d(3))
    expected = r"1\.0 \(BatchNorm2d\), 2 \(BatchNorm1d\); use patchprint\.networks\.blocks\.ViewBatchNorm2d"
    with pytest.warns(UserWarning, match=expected):
        set_num_views(network, 2)
    assert network[0].num_views == 2


def test_views_that_do_not_divide_the_batch_are_refused():
    layer = ViewBatchNorm2d(2)
    layer.num_views = 2
    with pytest.raises(ValueError, match="5 patches cannot be split into 2"):
        layer(torch.rand(5, 2, 3, 3))


@pytest.mark.slow
def test_statistics_are_those_of_all_ranks(tmp_path):
    """Two processes, each with half of the points, agree with one process that has them all."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(12, 3, 2, 2, generator=generator) * 2 + 7
    weight = torch.randn(12, 3, 2, 2, generator=generator)
    layer = ViewBatchNorm2d(3)
    layer.num_views = 2
    alone = copy.deepcopy(layer)
    run_together(2, normalize_on_rank, layer, x, weight, tmp_path)
    whole = x.clone().requires_grad_()
    expected = alone(whole)
    (expected * weight).sum().backward()
    for rank in range(2):
        saved = torch.load(tmp_path / f"{rank}.pt", weights_only=True)
        assert torch.allclose(saved["result"], part_of(expected, rank, 2, 2), atol=1e-5)
        assert torch.allclose(saved["grad"], part_of(whole.grad, rank, 2, 2), atol=1e-5)
        for key, value in alone.state_dict().items():
            assert torch.allclose(saved["state"][key].float(), value.float(), atol=1e-5), key


def test_zero_counts_as_minus_one_and_bit_zero():
    raw = torch.tensor([[0.0, -0.0, 1e-30, -1e-30, 2.0, -2.0, 0.0, 5.0]])
    assert BinaryHead().eval()(raw).sign().tolist() == [[-1, -1, 1, -1, 1, -1, -1, 1]]
    assert pack_bits(raw).tolist() == [[0b00101001]]


def test_binary_descriptors_are_tanh_in_training_and_signs_in_evaluation():
    raw = torch.randn(3, 16)
    head = BinaryHead()
    assert torch.allclose(head(raw), torch.nn.functional.normalize(torch.tanh(raw), dim=1), atol=1e-6)
    assert torch.equal(head.eval()(raw), raw.sign() / 4)


def test_dot_products_of_binary_descriptors_count_differing_bits():
    network = trained_looking("doap-binary", width=8)
    patches = smooth_patches(4)
    descriptors, packed = network(patches), network.describe(patches)
    bits = np.unpackbits(packed.numpy(), axis=1)
    hamming = (bits[:, None] != bits[None]).sum(-1)
    assert torch.allclose(descriptors @ descriptors.T, 1 - 2 * torch.from_numpy(hamming) / 256.0, atol=1e-5)


def test_zero_vectors_stay_finite_with_gradient():
    raw = torch.zeros(2, 8, requires_grad=True)
    FloatHead()(raw).sum().backward()
    assert torch.isfinite(raw.grad).all()


def test_parts_have_equal_length():
    descriptors = FloatHead(parts=2)(torch.randn(3, 10) * torch.tensor([1.0] * 5 + [100.0] * 5))
    assert torch.allclose(descriptors.unflatten(1, (2, 5)).norm(dim=2), torch.full((3, 2), 0.5**0.5))
