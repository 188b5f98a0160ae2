"""Recipes of the shipped weights, named after them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from patchprint.training.config import TrainConfig
from patchprint.training.recipes import distill, hardnet, hynet, sdgmnet, sdgmnet_standardized


def sdgmnet_shipped() -> TrainConfig:
    """The default weights of the package: sdgmnet-plain-shipped with two more layers, on larger patches seen in three nested
    squares, and with the average precision of all matches of a batch beside the loss."""
    return dataclasses.replace(
        sdgmnet_plain_shipped(),
        recipe="sdgmnet-shipped",
        network_options={"dropout": 0.3, "input_norm": "standard", "fovea": 3, "extra": 1},
        ranking=2.0,
        patch_scale=48.0,
        batch=2048,
        steps=14_000,
        validate_every=14_000,
    )


def sdgmnet_large_shipped() -> TrainConfig:
    """The weights sdgmnet.large of the package: those of sdgmnet, which learned alone, as the mean over three sizes of a patch
    (``perf.release.pool_weights``)."""
    alone = sdgmnet_shipped()
    options = {**alone.network_options, "pooled": True}
    return dataclasses.replace(alone, recipe="sdgmnet-large-shipped", network_options=options)


def sdgmnet_plain_shipped() -> TrainConfig:
    """The weights sdgmnet.plain of the package, for ready-made patches: sdgmnet-standardized on images, against neighbors in
    the image, strong changes."""
    return _shipped(
        sdgmnet_standardized(),
        "sdgmnet-plain-shipped",
        steps=50_000,
        batcher="neighbors",
        batcher_options={"run": 128},
        augmentation="wide",
    )


def sdgmnet_fast_shipped() -> TrainConfig:
    """The weights sdgmnet.fast of the package: a small network that learned from sdgmnet, for CPUs."""
    return _taught("sdgmnet-fast-shipped", width=32, extra=1, fovea=3)


def sdgmnet_64_shipped() -> TrainConfig:
    """The weights sdgmnet.64 of the package: sdgmnet.fast with 64 floats and the similarities of sdgmnet."""
    return _taught("sdgmnet-64-shipped", width=32, extra=1, fovea=3, dim=64)


def sdgmnet_32_shipped() -> TrainConfig:
    """The weights sdgmnet.32 of the package: sdgmnet.fast with descriptors of 32 floats."""
    return _taught("sdgmnet-32-shipped", width=32, extra=1, fovea=3, dim=32)


def sdgmnet_bits_shipped() -> TrainConfig:
    """The weights sdgmnet.bits of the package: 256 bits whose similarities are those of the floats of sdgmnet."""
    return _taught("sdgmnet-bits-shipped", width=48, extra=1, fovea=3, dim=256, kind="binary")


def sdgmnet_tiny_shipped() -> TrainConfig:
    """The weights sdgmnet.tiny of the package: sdgmnet.fast with half the channels and patches of 48 x 48 pixels, since most of
    its time goes into cutting them; it learned from smaller patches, as so few pixels show less of a large one."""
    taught = _taught("sdgmnet-tiny-shipped", width=16, extra=1, fovea=3, size=48)
    return dataclasses.replace(taught, patch_scale=40.0, steps=18_000, validate_every=18_000)


def hynet_shipped() -> TrainConfig:
    """The weights hynet of the package: HyNet on images, patches standardized first, rate falling to zero."""
    options = {"dropout": 0.3, "input_norm": "standard"}
    return _shipped(hynet(), "hynet-shipped", steps=20_000, network_options=options, schedule="linear")


def hardnet_shipped() -> TrainConfig:
    """The weights hardnet of the package: HardNet on images."""
    return _shipped(hardnet(), "hardnet-shipped", steps=15_000)


def hardnet_small_shipped() -> TrainConfig:
    """The weights hardnet.small of the package: SDGMNet's loss on HardNet's network with half the channels."""
    options = {"dropout": 0.3, "width": 16}
    return _shipped(sdgmnet(), "hardnet-small-shipped", steps=20_000, network="hardnet", network_options=options)


def _taught(name: str, **network_options: Any) -> TrainConfig:
    return dataclasses.replace(
        distill(),
        recipe=name,
        network_options=network_options,
        teacher=("sdgmnet",),
        patch_scale=48.0,
        steps=12_000,
        validate_every=12_000,
    )


def _shipped(method: TrainConfig, name: str, **changes: Any) -> TrainConfig:
    """What all shipped weights share: patches of 24 sigma cut from images, averaged weights, the best of few validations."""
    shared = {"patch_scale": 24.0, "augmentation": "photos", "average": 0.999, "validate_every": 5000}
    return dataclasses.replace(method, recipe=name, **{**shared, **changes})


_ALL: tuple[Callable[[], TrainConfig], ...] = (
    sdgmnet_shipped,
    sdgmnet_large_shipped,
    sdgmnet_plain_shipped,
    sdgmnet_fast_shipped,
    sdgmnet_tiny_shipped,
    sdgmnet_64_shipped,
    sdgmnet_32_shipped,
    sdgmnet_bits_shipped,
    hynet_shipped,
    hardnet_shipped,
    hardnet_small_shipped,
)
SHIPPED_RECIPES = {recipe.__name__.replace("_", "-"): recipe for recipe in _ALL}
