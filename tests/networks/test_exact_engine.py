"""The float32 engine computes convolutions on GPUs with all bits, and leaves the setting of the process as it was."""

import torch

from patchprint import networks
from patchprint.networks.engines.pytorch import Float32Engine


def test_convolutions_off_the_cpu_keep_all_bits(monkeypatch):
    network = networks.create("hardnet", width=4, dim=32).eval()
    engine, seen = Float32Engine(network), []
    patches = torch.rand(2, 1, 32, 32)

    def raw(given):
        seen.append(torch.backends.cudnn.allow_tf32)
        return given

    monkeypatch.setattr(network, "raw", raw)
    monkeypatch.setattr(network, "parameters", lambda: iter([torch.empty(0, device="meta")]))
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", True)
    engine.raw(patches)
    assert seen == [False]
    assert torch.backends.cudnn.allow_tf32
