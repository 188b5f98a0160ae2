"""Where to compute: by name, or the best that is there."""

from __future__ import annotations

import pytest
import torch

from patchprint.devices import choose_device
from patchprint.features import load, match
from patchprint.types import Features, Keypoints, ModelId


def test_devices_that_are_not_there_are_named() -> None:
    assert choose_device("cpu") == torch.device("cpu")
    with pytest.raises(ValueError, match="unknown device"):
        choose_device("tpu")
    if not torch.cuda.is_available():
        with pytest.raises(ValueError, match="no cuda"):
            choose_device("cuda")
        for use in (load, lambda device: match(*[features()] * 2, device=device)):
            with pytest.raises(ValueError, match="no cuda device that PyTorch can use; take the device cpu"):
                use(device="cuda")


@pytest.mark.parametrize("name", ["cpu:1", "cpu:x"])
def test_numbers_of_devices_are_checked(name: str) -> None:
    with pytest.raises(ValueError, match=f"no device '{name}'; take cpu"):
        choose_device(name)


def features() -> Features:
    return Features(Keypoints.empty(), torch.zeros(0, 8), (4, 4), None, ModelId("none"))
