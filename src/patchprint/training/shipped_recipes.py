"""The runs that made the weights of the package, each called after them: ours, built on the methods of ``recipes``."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from patchprint.training.config import TrainConfig
from patchprint.training.recipes import distill, doap_binary, hardnet, hynet, sdgmnet, sdgmnet_standardized


def sdgmnet_shipped() -> TrainConfig:
    """The default weights of the package: sdgmnet-standardized on photos, against neighbors in the photo, strong changes."""
    return _shipped(
        sdgmnet_standardized(),
        "sdgmnet-shipped",
        steps=50_000,
        batcher="neighbors",
        batcher_options={"run": 128},
        augmentation="wide",
    )


def sdgmnet_large_shipped() -> TrainConfig:
    """The weights sdgmnet.large of the package: sdgmnet-shipped on larger patches, seen in three nested squares."""
    return dataclasses.replace(
        sdgmnet_shipped(),
        recipe="sdgmnet-large-shipped",
        network_options={"dropout": 0.3, "input_norm": "standard", "fovea": 3},
        patch_scale=36.0,
        batch=2048,
        steps=36_000,
        validate_every=6000,
    )


def sdgmnet_fast_shipped() -> TrainConfig:
    """The weights sdgmnet.fast of the package: a small network that learned from sdgmnet.large, for CPUs."""
    return _taught_by_large("sdgmnet-fast-shipped", width=32, extra=1, fovea=3)


def sdgmnet_tiny_shipped() -> TrainConfig:
    """The weights sdgmnet.tiny of the package: sdgmnet.fast with half the channels."""
    return _taught_by_large("sdgmnet-tiny-shipped", width=16, extra=1, fovea=3)


def sdgmnet_bits_shipped() -> TrainConfig:
    """The weights sdgmnet.bits of the package: 256 bits whose similarities are those of the floats of sdgmnet.large."""
    return _taught_by_large("sdgmnet-bits-shipped", width=64, extra=1, fovea=3, dim=256, kind="binary")


def hynet_shipped() -> TrainConfig:
    """The weights hynet of the package: HyNet on photos, patches standardized first, rate falling to zero."""
    options = {"dropout": 0.3, "input_norm": "standard"}
    return _shipped(hynet(), "hynet-shipped", steps=20_000, network_options=options, schedule="linear")


def hardnet_shipped() -> TrainConfig:
    """The weights hardnet of the package: HardNet on photos."""
    return _shipped(hardnet(), "hardnet-shipped", steps=15_000)


def hardnet_small_shipped() -> TrainConfig:
    """The weights hardnet.small of the package: SDGMNet's loss on HardNet's network with half the channels."""
    options = {"dropout": 0.3, "width": 16}
    return _shipped(sdgmnet(), "hardnet-small-shipped", steps=20_000, network="hardnet", network_options=options)


def doap_binary_shipped() -> TrainConfig:
    """The weights doap-binary of the package: 256 bits learned on photos, on whole groups, 2048 patches a batch."""
    return _shipped(doap_binary(), "doap-binary-shipped", steps=15_000, batch=2048, augmentation="wide")


def _taught_by_large(name: str, **network_options: Any) -> TrainConfig:
    return dataclasses.replace(
        distill(),
        recipe=name,
        network_options=network_options,
        teacher=("sdgmnet.large",),
        patch_scale=36.0,
        steps=10_000,
        validate_every=4000,
    )


def _shipped(method: TrainConfig, name: str, **changes: Any) -> TrainConfig:
    """What all shipped weights share: patches of 24 sigma cut from photos, averaged weights, the best of few validations."""
    shared = {"patch_scale": 24.0, "augmentation": "photos", "average": 0.999, "validate_every": 5000}
    return dataclasses.replace(method, recipe=name, **{**shared, **changes})


_ALL: tuple[Callable[[], TrainConfig], ...] = (
    sdgmnet_shipped,
    sdgmnet_large_shipped,
    sdgmnet_fast_shipped,
    sdgmnet_tiny_shipped,
    sdgmnet_bits_shipped,
    hynet_shipped,
    hardnet_shipped,
    hardnet_small_shipped,
    doap_binary_shipped,
)
SHIPPED_RECIPES = {recipe.__name__.replace("_", "-"): recipe for recipe in _ALL}
