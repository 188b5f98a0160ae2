"""Networks with random weights for tests of features."""

import pytest
import torch

from patchprint import networks
from patchprint.networks import PatchNetwork


@pytest.fixture(scope="session")
def network() -> PatchNetwork:
    torch.manual_seed(0)
    return networks.create("tfeat").eval()


@pytest.fixture(scope="session")
def binary() -> PatchNetwork:
    torch.manual_seed(0)
    return networks.create("doap", kind="binary", dim=256).eval()
