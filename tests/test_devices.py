"""Where to compute: by name, or the best that is there."""

from __future__ import annotations

import pytest
import torch

from patchprint.devices import choose_device


def test_devices_that_are_not_there_are_named() -> None:
    assert choose_device("cpu") == torch.device("cpu")
    with pytest.raises(ValueError, match="unknown device"):
        choose_device("tpu")
    if not torch.cuda.is_available():
        with pytest.raises(ValueError, match="no cuda"):
            choose_device("cuda")
