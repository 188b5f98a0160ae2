"""The layers that training on a GPU swaps in compute what the plain ones do."""

import os
import subprocess
import sys

import pytest
import torch

from patchprint import networks
from patchprint.networks import fast_layers


def outputs_and_gradients(network, patches):
    raw, _ = network.forward_features(patches, with_maps=False)
    weights = torch.randn(raw.shape, generator=torch.Generator().manual_seed(2), dtype=raw.dtype)
    (network.head(raw) * weights).sum().backward()
    return raw.detach(), {name: parameter.grad for name, parameter in network.named_parameters()}


@pytest.mark.parametrize("name", ["hardnet", "sosnet", "l2net-cs", "doap-st"])
def test_swapped_convolutions_give_the_same_outputs_gradients_and_state(name):
    results = []
    for fuse in (False, True):
        torch.manual_seed(0)
        network = networks.create(name, width=4, dropout=0.0).to(memory_format=torch.channels_last)
        keys, parameters = list(network.state_dict()), [id(parameter) for parameter in network.parameters()]
        if fuse:
            fast_layers.use_tensor_cores(network)
            kinds = {type(module) for module in network.modules()}
            assert {fast_layers.PaddedInputConv2d, fast_layers.WholeMapConv2d} <= kinds
        assert keys == list(network.state_dict())
        assert parameters == [id(parameter) for parameter in network.parameters()]
        size = network.input_size
        patches = torch.rand(6, 1, size, size, generator=torch.Generator().manual_seed(1))
        results.append(outputs_and_gradients(network, patches))
    (raw, gradients), (fast_raw, fast_gradients) = results
    assert torch.allclose(raw, fast_raw, atol=1e-3)
    for parameter, value in gradients.items():
        assert (value - fast_gradients[parameter]).norm() <= 1e-3 * value.norm() + 1e-4, parameter


@pytest.mark.parametrize("name", ["hynet", "sdgmnet"])
def test_hand_written_gradient_of_frn_is_that_of_autograd(name):
    results = []
    for fuse in (False, True):
        torch.manual_seed(0)
        network = networks.create(name, width=6, dropout=0.0).double()
        for parameter in network.parameters():
            parameter.data += 0.1 * torch.randn_like(parameter)
        if fuse:
            fast_layers.fuse(network)
        patches = torch.rand(6, 1, 32, 32, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
        results.append(outputs_and_gradients(network, patches))
    (raw, gradients), (fast_raw, fast_gradients) = results
    assert torch.allclose(raw, fast_raw, atol=1e-9)
    for parameter, value in gradients.items():
        assert torch.allclose(value, fast_gradients[parameter], rtol=1e-7, atol=1e-9), parameter


KERNEL = """
import torch
from patchprint.networks import frn_kernel
from patchprint.networks.blocks import TLU, FilterResponseNorm2d
device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
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


def test_frn_kernel_equals_the_layers():
    """Triton's interpreter runs the kernel where there is no GPU; both need the package, which only GPU builds bring."""
    pytest.importorskip("triton", reason="Triton comes with PyTorch's GPU builds")
    environment = {**os.environ} if torch.cuda.is_available() else {**os.environ, "TRITON_INTERPRET": "1"}
    done = subprocess.run([sys.executable, "-c", KERNEL], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
