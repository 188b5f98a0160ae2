"""The layers that training on a GPU swaps in compute what the plain ones do."""

import pytest
import torch

from patchprint import networks
from patchprint.networks import fast_layers
from support.network_patches import outputs_and_gradients


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
