"""The layers that training on a GPU swaps in compute what the plain ones do."""

import pytest
import torch

from patchprint import networks
from patchprint.networks import fast_layers
from support.network_patches import outputs_and_gradients


@pytest.mark.parametrize("name", ["hardnet", "sosnet", "l2net-cs", "doap-st", "strided"])
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


@pytest.mark.parametrize("backbone", ["efficientnet-lite0", "resnet18-narrow"])
def test_folded_norms_give_the_same_outputs_gradients_and_state(backbone):
    results = []
    for fuse in (False, True):
        torch.manual_seed(0)
        network = networks.create("embedding", backbone=backbone, dim=8, input_size=32).double()
        for norm in network._backbone_norms():
            norm.running_mean.normal_(0, 0.1)
            norm.running_var.uniform_(0.5, 1.5)
            torch.nn.init.uniform_(norm.weight, 0.5, 1.5)
            torch.nn.init.normal_(norm.bias)
        keys, parameters = list(network.state_dict()), [id(parameter) for parameter in network.parameters()]
        if fuse:
            fast_layers.fuse(network)
            folded = [module for module in network.modules() if isinstance(module, fast_layers.FoldedNorm2d)]
            assert folded
        assert keys == list(network.state_dict())
        assert parameters == [id(parameter) for parameter in network.parameters()]
        images = torch.rand(6, 3, 32, 32, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
        results.append(outputs_and_gradients(network.train(), images))
    (raw, gradients), (fast_raw, fast_gradients) = results
    torch.testing.assert_close(raw, fast_raw)
    for parameter, value in gradients.items():
        assert (value is None) == (fast_gradients[parameter] is None)
        if value is not None:
            torch.testing.assert_close(value, fast_gradients[parameter], atol=1e-9, rtol=1e-6)
