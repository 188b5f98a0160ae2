"""The hand-written gradient of filter response normalisation."""

import pytest
import torch
from torch import nn

from patchprint import networks
from patchprint.common.errors import UserError
from patchprint.networks import fast_layers
from support.network_patches import outputs_and_gradients


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


def test_extra_layers_are_fused_like_the_others():
    network = networks.create("sdgmnet", width=8, input_norm="standard", fovea=3, extra=2).eval()
    convolutions = [layer for layer in network.modules() if isinstance(layer, nn.Conv2d)]
    assert [each.out_channels for each in convolutions] == [8, 8, 16, 16, 16, 16, 32, 32, 32, 32, 128]
    patches = torch.rand(3, 1, 64, 64)
    plain = network(patches)
    network.fuse()
    assert torch.allclose(network(patches), plain, atol=1e-5)
    with pytest.raises(UserError, match="extra is a number of layers, not -1"):
        networks.create("sdgmnet", extra=-1)
