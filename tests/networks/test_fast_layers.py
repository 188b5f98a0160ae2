"""Faster forms of layers compute what the plain ones do, with the same gradients."""

import pytest
import torch
from torch import nn

from patchprint import networks
from patchprint.networks import fast_layers
from support import kernels
from support.network_patches import outputs_and_gradients


def plain_and_fast(make, swap, patches):
    """Outputs and gradients before and after ``swap``, which must leave parameters and their names alone."""
    results = []
    for change in (lambda network: None, swap):
        torch.manual_seed(0)
        network = make()
        keys, parameters = list(network.state_dict()), [id(parameter) for parameter in network.parameters()]
        change(network)
        assert keys == list(network.state_dict())
        assert parameters == [id(parameter) for parameter in network.parameters()]
        results.append(outputs_and_gradients(network, patches))
    return results


def patches(channels, size, dtype=torch.float64):
    return torch.rand(6, channels, size, size, generator=torch.Generator().manual_seed(1), dtype=dtype)


@pytest.mark.parametrize("name", ["hardnet", "sosnet", "l2net-cs", "doap-st", "strided"])
def test_swapped_convolutions_give_the_same_outputs_gradients_and_state(name):
    def make():
        return networks.create(name, width=2, dropout=0.0).to(memory_format=torch.channels_last)

    def swap(network):
        fast_layers.use_fast_convolutions(network, kernels=True)
        kinds = {type(module) for module in network.modules()}
        assert {fast_layers.PaddedInputConv2d, fast_layers.WholeMapConv2d} <= kinds

    given = patches(1, make().input_size, torch.float32)
    (raw, gradients), (fast_raw, fast_gradients) = plain_and_fast(make, swap, given)
    assert torch.allclose(raw, fast_raw, atol=1e-3)
    for parameter, value in gradients.items():
        assert (value - fast_gradients[parameter]).norm() <= 1e-3 * value.norm() + 1e-4, parameter


def test_without_triton_no_convolution_needs_its_kernels():
    network = networks.create("hardnet")
    fast_layers.use_fast_convolutions(network, kernels=False)
    kinds = {type(module) for module in network.modules()}
    assert fast_layers.PaddedInputConv2d in kinds
    assert not {fast_layers.FirstConv2d, fast_layers.OwnGradientConv2d} & kinds


@pytest.mark.parametrize("backbone", ["efficientnet-lite0", "resnet18-narrow"])
def test_folded_norms_give_the_same_outputs_gradients_and_state(backbone):
    def make():
        network = networks.create("embedding", backbone=backbone, dim=8, input_size=32).double()
        for norm in network._backbone_norms():
            norm.running_mean.normal_(0, 0.1)
            norm.running_var.uniform_(0.5, 1.5)
            nn.init.uniform_(norm.weight, 0.5, 1.5)
            nn.init.normal_(norm.bias)
        return network.train()

    def swap(network):
        fast_layers.fuse(network)
        assert any(isinstance(module, fast_layers.FoldedNorm2d) for module in network.modules())

    (raw, gradients), (fast_raw, fast_gradients) = plain_and_fast(make, swap, patches(3, 32))
    torch.testing.assert_close(raw, fast_raw)
    for parameter, value in gradients.items():
        assert (value is None) == (fast_gradients[parameter] is None)
        if value is not None:
            torch.testing.assert_close(value, fast_gradients[parameter], atol=1e-9, rtol=1e-6)


@pytest.mark.parametrize("name", ["hynet", "sdgmnet"])
def test_hand_written_gradient_of_frn_is_that_of_autograd(name):
    def make():
        network = networks.create(name, width=6, dropout=0.0).double()
        for parameter in network.parameters():
            parameter.data += 0.1 * torch.randn_like(parameter)
        return network

    (raw, gradients), (fast_raw, fast_gradients) = plain_and_fast(make, fast_layers.fuse, patches(1, 32))
    assert torch.allclose(raw, fast_raw, atol=1e-9)
    for parameter, value in gradients.items():
        assert torch.allclose(value, fast_gradients[parameter], rtol=1e-7, atol=1e-9), parameter


def test_extra_layers_are_fused_like_the_others():
    network = networks.create("sdgmnet", width=8, input_norm="standard", fovea=3, extra=2).eval()
    convolutions = [layer for layer in network.modules() if isinstance(layer, nn.Conv2d)]
    assert [each.out_channels for each in convolutions] == [8, 8, 16, 16, 16, 16, 32, 32, 32, 32, 128]
    given = torch.rand(3, 1, 64, 64)
    plain = network(given)
    network.fuse()
    assert torch.allclose(network(given), plain, atol=1e-5)


KERNEL = """
from patchprint.networks import frn_kernel
from patchprint.networks.hynet import TLU, FilterResponseNorm2d
for channels, side in ((32, 32), (64, 16), (8, 8)):
    norm, unit = FilterResponseNorm2d(channels).to(device), TLU(channels).to(device)
    for parameter in (norm.weight, norm.bias, unit.tau):
        torch.nn.init.normal_(parameter)
    shift = torch.randn(channels, device=device, requires_grad=True)
    x = torch.randn(3, channels, side, side, device=device).contiguous(memory_format=torch.channels_last).requires_grad_()
    inputs = [x, shift, norm.weight, norm.bias, unit.tau]
    plain = unit(norm(x + shift[:, None, None]))
    fused = frn_kernel.frn_tlu(*inputs, norm.eps)[0]
    gradient = torch.randn_like(plain)
    assert torch.allclose(plain, fused, atol=1e-5)
    for a, b in zip(*(torch.autograd.grad(y, inputs, gradient) for y in (plain, fused))):
        assert torch.allclose(a, b, rtol=1e-4, atol=1e-3), (a - b).abs().max()
"""

CONVOLUTIONS = """
import torch.nn.functional as F
from patchprint.networks import convolution_kernels as kernels
def near(found, expected):
    assert (found.float() - expected).norm() <= tolerance * expected.norm(), (found.float() - expected).norm() / expected.norm()
def made(*shape):
    values = torch.randn(*shape, device=device).to(dtype)
    return values.contiguous(memory_format=torch.channels_last) if shape[1] > 1 else values
# Interpreted, products are exact, and there is no bfloat16; a GPU rounds float32 to 10 bits in them, as cuDNN does.
kinds = ((torch.float32, 1e-4),) if device.type == "cpu" else ((torch.float32, 2e-3), (torch.bfloat16, 1e-2))
for dtype, tolerance in kinds:
    for count, side, channels in ((2, 8, 32), (3, 6, 16), *(((7, 32, 32),) if device.type == "cuda" else ())):
        for inputs, function in ((1, kernels.first), (channels, kernels.with_own_gradient)):
            x, weight = made(count, inputs, side, side), made(channels, inputs, 3, 3)
            gradient = made(count, channels, side, side)
            exact, given = ([each.to(kind).requires_grad_() for each in (x, weight)] for kind in (torch.float32, dtype))
            expected, found = F.conv2d(*exact, padding=1), function(*given)
            near(found, expected)
            pairs = zip(torch.autograd.grad(found, given, gradient), torch.autograd.grad(expected, exact, gradient.float()))
            for ours, theirs in pairs:
                near(ours, theirs)
"""
SWAPPED = """
from patchprint import networks
from patchprint.networks import fast_layers
tolerance = 2e-3 if device.type == "cpu" else 2e-2  # products in 10 bits, several layers of them
for name in ("hardnet", "hynet"):
    raw, gradients = [], []
    for swap in (False, True):
        torch.manual_seed(0)
        network = networks.create(name, width=16, dropout=0.0).to(device, memory_format=torch.channels_last)
        if swap:
            fast_layers.use_fast_convolutions(network, kernels=True)
            kinds = {type(module) for module in network.modules()}
            assert {fast_layers.FirstConv2d, fast_layers.OwnGradientConv2d, fast_layers.WholeMapConv2d} <= kinds
        network.train()
        raw.append(network(torch.rand(3, 1, 32, 32, generator=torch.Generator().manual_seed(1)).to(device)))
        gradients.append(torch.autograd.grad(raw[-1][:, :5].sum(), list(network.parameters()), allow_unused=True))
    assert torch.allclose(*raw, atol=1e-3)
    for plain, fast in zip(*gradients):
        assert plain is None or (plain - fast).norm() <= tolerance * plain.norm() + 1e-4
"""


def test_frn_kernel_equals_the_layers():
    kernels.run(KERNEL)


@pytest.mark.parametrize("code", [CONVOLUTIONS, SWAPPED], ids=["kernels", "networks"])
def test_kernels_of_convolutions_equal_the_operations(code):
    kernels.run(code)
