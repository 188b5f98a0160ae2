"""The hand-written gradient of filter response normalisation."""

import pytest
import torch

from patchprint import networks
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
