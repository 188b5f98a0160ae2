"""Recipes for patches: the published methods, and the shipped weights (``*-shipped``).

Numbers are those of the papers and their code; docstrings say where sources leave a gap. Where a paper counts epochs, steps
are those on Liberty of the UBC sets. Drops, warm-up and moving averages are fractions of the run and follow ``steps``.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

from patchprint.training.config import TrainConfig


def l2net() -> TrainConfig:
    """L2-Net: log-softmax of distances, compact dimensions, discriminative maps; progressive sampling of 128 points."""
    return TrainConfig(
        recipe="l2net",
        network="l2net",
        loss="l2net",
        batcher="progressive",
        batch=128,
        augmentation="l2net",
        steps=125_000,
        lr=0.01,
        weight_decay=1e-4,
        schedule="drops",
        drop_every=0.4,
        drop_factor=0.1,
    )


def l2net_cs() -> TrainConfig:
    """L2-Net's center-surround network: needs --init with weights of l2net; the surround tower stays frozen."""
    return dataclasses.replace(l2net(), recipe="l2net-cs", network="l2net-cs")


def doap() -> TrainConfig:
    """DOAP: average precision of a ranking, whole groups, 1024 patches a batch (that of the paper's tables is unknown).

    100 epochs are 44,000 steps, fewer of a larger --batch, which the learning rate follows.
    """
    return TrainConfig(
        recipe="doap",
        network="doap",
        loss="doap",
        batcher="groups",
        batch=1024,
        views=1,
        separate_views=False,
        augmentation="doap",
        steps=44_000,
        lr=0.1,
        lr_for_patches=1024,
        weight_decay=1e-4,
        schedule="linear",
    )


def doap_binary() -> TrainConfig:
    """DOAP with 256 bits: tanh in training, signs afterwards."""
    return _in_bits(doap(), "doap-binary")


def doap_st() -> TrainConfig:
    """DOAP behind a spatial transformer: 42x42 pixels in, the affine prediction learns a hundred times slower."""
    return dataclasses.replace(doap(), recipe="doap-st", network="doap-st")


def doap_st_binary() -> TrainConfig:
    """DOAP with 256 bits behind a spatial transformer."""
    return _in_bits(doap_st(), "doap-st-binary")


def doap_hpatches() -> TrainConfig:
    """DOAP on HPatches without label mining: groups of all sequences alike, pairs inside of a sequence do not count.

    32 epochs of the 76 training sequences of a split; like the paper, without augmentation.
    """
    return dataclasses.replace(
        doap(),
        recipe="doap-hpatches",
        batcher="scene-groups",
        augmentation="none",
        hold_out=False,
        steps=51_400,
        schedule="drops",
        drop_every=10 / 32,
        drop_factor=0.1,
    )


def doap_st_hpatches() -> TrainConfig:
    """DOAP on HPatches behind a spatial transformer, without label mining."""
    return dataclasses.replace(doap_hpatches(), recipe="doap-st-hpatches", network="doap-st")


def doap_st_lm() -> TrainConfig:
    """DOAP on HPatches with mined labels: two sequences a batch, 512 patches (32 groups of 16) of each."""
    return dataclasses.replace(doap_st_hpatches(), recipe="doap-st-lm", batcher="sequence-pairs", steps=91_200)


def doap_rome() -> TrainConfig:
    """DOAP on RomePatches: batch k begins with group k of 1000, 5 epochs of as many batches; more decay and dropout."""
    return dataclasses.replace(
        doap(),
        recipe="doap-rome",
        network_options={"dropout": 0.5},
        batcher="leading-groups",
        augmentation="none",
        hold_out=False,
        steps=5_000,
        weight_decay=5e-4,
    )


def doap_binary_rome() -> TrainConfig:
    """DOAP with 256 bits on RomePatches."""
    return _in_bits(doap_rome(), "doap-binary-rome")


def _in_bits(method: TrainConfig, name: str) -> TrainConfig:
    options = {**method.network_options, "dim": 256, "kind": "binary"}
    return dataclasses.replace(method, recipe=name, loss="doap-binary", network_options=options)


def tfeat() -> TrainConfig:
    """TFeat: random triplets with anchor swap; optimizer and length after its public code, since no paper is at hand."""
    return TrainConfig(
        recipe="tfeat",
        network="tfeat",
        loss="tfeat",
        batch=128,
        augmentation="tfeat",
        steps=100_000,
        lr=0.1,
        weight_decay=1e-4,
        schedule="linear",
    )


def hardnet() -> TrainConfig:
    """HardNet: the hardest negative in the batch; rate 10 with dampening 0.9, linear to zero."""
    return TrainConfig(
        recipe="hardnet",
        network="hardnet",
        loss="hardnet",
        network_options={"dropout": 0.3},
        augmentation="hardnet",
        steps=48_828,
        lr=10.0,
        dampening=0.9,
        weight_decay=1e-4,
        schedule="linear",
    )


def hardnet_gor() -> TrainConfig:
    """HardNet with global orthogonal regularization, weight 1."""
    return dataclasses.replace(hardnet(), recipe="hardnet-gor", loss_settings={"gor": 1.0})


def sosnet() -> TrainConfig:
    """SOSNet: second-order similarity; Adam at 0.01 without a schedule, as long as HyNet (its own length is not known)."""
    return TrainConfig(
        recipe="sosnet",
        network="sosnet",
        loss="sosnet",
        network_options={"dropout": 0.1},
        batch=512,
        augmentation="hynet",
        steps=87_800,
        optimizer="adam",
        lr=0.01,
    )


def cdf() -> TrainConfig:
    """Dynamic soft margin: triplets weighed by the running distribution of their difference; one pass for both views."""
    return TrainConfig(
        recipe="cdf",
        network="hardnet",
        loss="cdf",
        network_options={"dropout": 0.3},
        separate_views=False,
        augmentation="cdf",
        steps=100_000,
        lr=0.1,
        weight_decay=1e-4,
        schedule="linear",
    )


def hynet() -> TrainConfig:
    """HyNet: hybrid similarity and equal norms, on filter response normalization; Adam at 0.01 throughout."""
    return TrainConfig(
        recipe="hynet",
        network="hynet",
        loss="hynet",
        network_options={"dropout": 0.3},
        batch=512,
        augmentation="hynet",
        steps=87_800,
        optimizer="adam",
        lr=0.01,
    )


def hynet_bn() -> TrainConfig:
    """HyNet's loss and settings on the batch-norm network of L2-Net and HardNet ("L2Net + proposed loss" of its response)."""
    return dataclasses.replace(hynet(), recipe="hynet-bn", network="hardnet")


def hynet_sosr() -> TrainConfig:
    """HyNet with SOSNet's second-order term."""
    return dataclasses.replace(hynet(), recipe="hynet-sosr", loss_settings={"second_order": 1.0})


def sosnet_frn() -> TrainConfig:
    """SOSNet's loss on HyNet's network."""
    return dataclasses.replace(sosnet(), recipe="sosnet-frn", network="hynet", network_options={"dropout": 0.3})


def sdgmnet() -> TrainConfig:
    """SDGMNet: gradients modulated by running statistics of the angles; rate 1 halved every tenth of the run.

    As in the released code, the hardest negative is that of four blocks of distances, not of HardNet's
    two, and there is no limit on false negatives in the first tenth of the run.
    """
    return TrainConfig(
        recipe="sdgmnet",
        network="sdgmnet",
        loss="sdgm",
        network_options={"dropout": 0.3},
        augmentation="sdgmnet",
        steps=200_000,
        lr=1.0,
        weight_decay=1e-4,
        schedule="drops",
    )


def sdgmnet_standardized() -> TrainConfig:
    """SDGMNet on standardized patches, so that brightness cancels: not the paper's input, but that of the shipped weights."""
    return dataclasses.replace(
        sdgmnet(), recipe="sdgmnet-standardized", network_options={"dropout": 0.3, "input_norm": "standard"}
    )


def hardnet_frn() -> TrainConfig:
    """HardNet+FRN of SDGMNet's paper: its network and settings, no negatives nearer than 0.6 rad, mean over active triplets.

    HyNet's authors have another one: hardnet-frn-hynet.
    """
    settings = {"guard": 2 * math.sin(0.3), "active_only": True}
    return dataclasses.replace(sdgmnet(), recipe="hardnet-frn", loss="hardnet", loss_settings=settings)


def hardnet_frn_hynet() -> TrainConfig:
    """HardNet+FRN of HyNet's author response: HardNet's loss as it is with HyNet's network and settings."""
    return dataclasses.replace(hynet(), recipe="hardnet-frn-hynet", loss="hardnet")


def distill() -> TrainConfig:
    """A small network that learns what the shipped sdgmnet.plain says: patches of any images, no labels; AdamW, one cycle."""
    # The loss is what --loss-weight adds where points have two views; by itself the teacher teaches alone, and the two views
    # are one patch under two jitters and lights. Views share batch statistics, as all patches are of one kind.
    return TrainConfig(
        recipe="distill",
        network="strided",
        loss="sdgm",
        loss_weight=0.0,
        teacher=("sdgmnet.plain",),
        patch_scale=24.0,
        batcher="instances",
        batch=2048,
        separate_views=False,
        augmentation="photos",
        steps=15_000,
        optimizer="adamw",
        lr=3e-3,
        weight_decay=0.01,
        schedule="one-cycle",
    )


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


def _student(name: str, text: str, steps: int = 12_000, patch_scale: float = 48.0, **options: Any) -> None:
    """Add the recipe of weights that were distilled from sdgmnet."""

    def recipe() -> TrainConfig:
        return dataclasses.replace(
            distill(),
            recipe=name,
            network_options={**options, "extra": 1, "fovea": 3},
            teacher=("sdgmnet",),
            patch_scale=patch_scale,
            steps=steps,
            validate_every=steps,
        )

    recipe.__doc__ = f"The weights {name.removesuffix('-shipped').replace('-', '.')} of the package: {text}."
    PATCH_RECIPES[name] = recipe


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


def _shipped(method: TrainConfig, name: str, **changes: Any) -> TrainConfig:
    """What all shipped weights share: patches of 24 sigma cut from images, averaged weights, the best of few validations."""
    shared = {"patch_scale": 24.0, "augmentation": "photos", "average": 0.999, "validate_every": 5000}
    return dataclasses.replace(method, recipe=name, **{**shared, **changes})


_ALL: tuple[Callable[[], TrainConfig], ...] = (
    l2net, l2net_cs, doap, doap_binary, doap_st, doap_st_binary, doap_hpatches, doap_st_hpatches, doap_st_lm, doap_rome,
    doap_binary_rome, tfeat, hardnet, hardnet_gor, sosnet, cdf, hynet, hynet_bn, hynet_sosr, hardnet_frn, hardnet_frn_hynet,
    sosnet_frn, sdgmnet, sdgmnet_standardized, distill, sdgmnet_shipped, sdgmnet_large_shipped, sdgmnet_plain_shipped,
    hynet_shipped, hardnet_shipped, hardnet_small_shipped,
)  # fmt: skip
PATCH_RECIPES = {recipe.__name__.replace("_", "-"): recipe for recipe in _ALL}
_student("sdgmnet-fast-shipped", "a small network that learned from sdgmnet, for CPUs", width=32)
# Most of its time goes into cutting patches; so few pixels show less of a large patch.
_student("sdgmnet-tiny-shipped", "half the channels of sdgmnet.fast, 48x48 pixels", 18_000, 40.0, width=16, size=48)
_student("sdgmnet-64-shipped", "sdgmnet.fast with 64 floats and the similarities of sdgmnet", width=32, dim=64)
_student("sdgmnet-32-shipped", "sdgmnet.fast with 32 floats", width=32, dim=32)
_student("sdgmnet-bits-shipped", "256 bits with the similarities of sdgmnet", width=48, dim=256, kind="binary")
