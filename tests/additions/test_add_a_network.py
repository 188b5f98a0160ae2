"""A network is two files: a throw-away one is added to a copy. It has no maps, no dropout and neither width nor dim."""

from __future__ import annotations

from pathlib import Path

import pytest

from additions.trial import after, trial

pytestmark = pytest.mark.slow

NETWORK = '''"""One convolution and a linear layer."""

from __future__ import annotations

from torch import Tensor, nn

from patchprint.networks.blocks import PatchStandardization, ViewBatchNorm2d
from patchprint.networks.network import Maps, PatchNetwork


class Yours(PatchNetwork):
    """Shape: (N, 1, 32, 32) -> (N, 24)."""

    has_maps = False

    def __init__(self, channels: int = 6) -> None:
        super().__init__(dim=24)
        self.standardize = PatchStandardization()
        self.convolution = nn.Sequential(nn.Conv2d(1, channels, 8, stride=8), ViewBatchNorm2d(channels), nn.Tanh())
        self.last = nn.Linear(channels * 16, 24)

    def encode(self, patches: Tensor, with_maps: bool) -> tuple[Tensor, Maps | None]:
        return self.last(self.convolution(self.standardize(patches).to(self.dtype)).flatten(1)), None
'''


def test_a_network_is_two_files(tmp_path: Path) -> None:
    touched = trial(
        tmp_path,
        files={
            "src/patchprint/networks/yours.py": NETWORK,
            "src/patchprint/networks/network.py": after('"tfeat":', '        "yours": "yours:Yours",\n'),
        },
        run=["tests/networks", "tests/interop/test_onnx.py"],
        keyword="yours",
    )
    assert touched == ["src/patchprint/networks/network.py", "src/patchprint/networks/yours.py"]
