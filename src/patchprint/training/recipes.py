"""Recipes, and how recipe, file and flags become the config of a run.

Numbers are those of the papers and their code; texts say where sources leave a gap. Where a paper counts epochs, steps are
those on Liberty of the UBC sets. Drops, warm-up and moving averages are fractions of the run and follow ``steps``.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from patchprint import losses, networks
from patchprint.common.errors import UserError
from patchprint.common.registry import Registry, check_options, option_names
from patchprint.data import augment
from patchprint.networks import weights
from patchprint.training import assembly
from patchprint.training.config import TrainConfig, checked, flag, read_config


class Recipe(NamedTuple):
    """Settings that a run starts from, and what they are."""

    text: str
    config: TrainConfig


_RECIPES: dict[str, Recipe] = {}


def _add(name: str, text: str, base: str = "", **settings: Any) -> None:
    """Add a recipe: all of its settings, or those in which it differs from the one called ``base``."""
    config = (
        dataclasses.replace(_RECIPES[base].config, recipe=name, **settings) if base else TrainConfig(name, **settings)
    )
    _RECIPES[name] = Recipe(text, config)


# fmt: off
_add(
    "l2net",
    "L2-Net: log-softmax of distances, compact dimensions, discriminative maps; progressive sampling of 128 points.",
    network="l2net", loss="l2net", batcher="progressive", batch=128, augmentation="l2net", steps=125_000,
    lr=0.01, weight_decay=1e-4, schedule="drops", drop_every=0.4, drop_factor=0.1,
)
_add(
    "l2net-cs",
    "L2-Net's center-surround network: needs --init with weights of l2net; the surround tower stays frozen.",
    "l2net", network="l2net-cs",
)
_add(
    "doap",
    "DOAP: average precision of a ranking, whole groups, 1024 patches a batch (that of the paper's tables is unknown).\n\n"
    "100 epochs are 44,000 steps, fewer of a larger --batch, which the learning rate follows.",
    network="doap", loss="doap", batcher="groups", batch=1024, views=1, separate_views=False, augmentation="doap",
    steps=44_000, lr=0.1, lr_for_patches=1024, weight_decay=1e-4, schedule="linear",
)
_BITS = {"dim": 256, "kind": "binary"}
_add(
    "doap-binary",
    "DOAP with 256 bits: tanh in training, signs afterwards.",
    "doap", loss="doap-binary", network_options=_BITS,
)
_add(
    "doap-st",
    "DOAP behind a spatial transformer: 42x42 pixels in, the affine prediction learns a hundred times slower.",
    "doap", network="doap-st",
)
_add(
    "doap-st-binary",
    "DOAP with 256 bits behind a spatial transformer.",
    "doap-st", loss="doap-binary", network_options=_BITS,
)
_add(
    "doap-hpatches",
    "DOAP on HPatches without label mining: groups of all sequences alike, pairs inside of a sequence do not count.\n\n"
    "32 epochs of the 76 training sequences of a split; like the paper, without augmentation.",
    "doap", batcher="scene-groups", augmentation="none", hold_out=False, steps=51_400,
    schedule="drops", drop_every=10 / 32, drop_factor=0.1,
)
_add(
    "doap-st-hpatches",
    "DOAP on HPatches behind a spatial transformer, without label mining.",
    "doap-hpatches", network="doap-st",
)
_add(
    "doap-st-lm",
    "DOAP on HPatches with mined labels: two sequences a batch, 512 patches (32 groups of 16) of each.",
    "doap-st-hpatches", batcher="sequence-pairs", steps=91_200,
)
_add(
    "doap-rome",
    "DOAP on RomePatches: batch k begins with group k of 1000, 5 epochs of as many batches; more decay and dropout.",
    "doap", network_options={"dropout": 0.5}, batcher="leading-groups", augmentation="none", hold_out=False,
    steps=5_000, weight_decay=5e-4,
)
_add(
    "doap-binary-rome",
    "DOAP with 256 bits on RomePatches.",
    "doap-rome", loss="doap-binary", network_options={"dropout": 0.5, **_BITS},
)
_add(
    "tfeat",
    "TFeat: random triplets with anchor swap; optimizer and length after its public code, since no paper is at hand.",
    network="tfeat", loss="tfeat", batch=128, augmentation="tfeat", steps=100_000,
    lr=0.1, weight_decay=1e-4, schedule="linear",
)
_add(
    "hardnet",
    "HardNet: the hardest negative in the batch; rate 10 with dampening 0.9, linear to zero.",
    network="hardnet", loss="hardnet", network_options={"dropout": 0.3}, augmentation="hardnet", steps=48_828,
    lr=10.0, dampening=0.9, weight_decay=1e-4, schedule="linear",
)
_add(
    "hardnet-gor",
    "HardNet with global orthogonal regularization, weight 1.",
    "hardnet", loss_settings={"gor": 1.0},
)
_add(
    "sosnet",
    "SOSNet: second-order similarity; Adam at 0.01 without a schedule, as long as HyNet (its own length is not known).",
    network="sosnet", loss="sosnet", network_options={"dropout": 0.1}, batch=512, augmentation="hynet", steps=87_800,
    optimizer="adam", lr=0.01,
)
_add(
    "cdf",
    "Dynamic soft margin: triplets weighed by the running distribution of their difference; one pass for both views.",
    network="hardnet", loss="cdf", network_options={"dropout": 0.3}, separate_views=False, augmentation="cdf",
    steps=100_000, lr=0.1, weight_decay=1e-4, schedule="linear",
)
_add(
    "hynet",
    "HyNet: hybrid similarity and equal norms, on filter response normalization; Adam at 0.01 throughout.",
    network="hynet", loss="hynet", network_options={"dropout": 0.3}, batch=512, augmentation="hynet", steps=87_800,
    optimizer="adam", lr=0.01,
)
_add(
    "hynet-bn",
    "HyNet's loss and settings on the batch-norm network of L2-Net and HardNet (\"L2Net + proposed loss\" of its response).",
    "hynet", network="hardnet",
)
_add(
    "hynet-sosr",
    "HyNet with SOSNet's second-order term.",
    "hynet", loss_settings={"second_order": 1.0},
)
_add(
    "hardnet-frn-hynet",
    "HardNet+FRN of HyNet's author response: HardNet's loss as it is with HyNet's network and settings.",
    "hynet", loss="hardnet",
)
_add(
    "sosnet-frn",
    "SOSNet's loss on HyNet's network.",
    "sosnet", network="hynet", network_options={"dropout": 0.3},
)
_add(
    "sdgmnet",
    "SDGMNet: gradients modulated by running statistics of the angles; rate 1 halved every tenth of the run.\n\n"
    "As in the released code, the hardest negative is that of four blocks of distances, not of HardNet's\n"
    "two, and there is no limit on false negatives in the first tenth of the run.",
    network="sdgmnet", loss="sdgm", network_options={"dropout": 0.3}, augmentation="sdgmnet", steps=200_000,
    lr=1.0, weight_decay=1e-4, schedule="drops",
)
_add(
    "sdgmnet-standardized",
    "SDGMNet on standardized patches, so that brightness cancels: not the paper's input, but that of the shipped weights.",
    "sdgmnet", network_options={"dropout": 0.3, "input_norm": "standard"},
)
_add(
    "hardnet-frn",
    "HardNet+FRN of SDGMNet's paper: its network and settings, no negatives nearer than 0.6 rad, mean over active triplets."
    "\n\nHyNet's authors have another one: hardnet-frn-hynet.",
    "sdgmnet", loss="hardnet", loss_settings={"guard": 2 * math.sin(0.3), "active_only": True},
)

# The loss is what --loss-weight adds where points have two views; by itself the teacher teaches alone, and the two views
# are one patch under two jitters and lights. Views share batch statistics, as all patches are of one kind.
_add(
    "distill",
    "A small network that learns what the shipped sdgmnet says: patches of any images, no labels; AdamW, one cycle.",
    network="strided", loss="sdgm", loss_weight=0.0, teacher=("sdgmnet",), patch_scale=16.0,
    batcher="instances", batch=2048, separate_views=False, augmentation="photos", steps=15_000,
    optimizer="adamw", lr=3e-3, weight_decay=0.01, schedule="one-cycle",
)

# The runs that made our own weights, as their files record them, but for what each run chooses anew; the papers' weights are
# made by the papers' recipes.
_FREE = ("data", "teacher_sha256", "log_every", "checkpoint_every", "tensorboard")
for _info in (each for each in weights.list_weights() if each.training.recipe not in _RECIPES):
    _made = {name: value for name, value in _info.training.config.items() if name not in _FREE}
    _made |= {"recipe": _info.training.recipe, "network_options": _info.options}
    _taught = f"distilled from {', '.join(_made['teacher'])}" if _made.get("teacher") else f"loss {_made['loss']}"
    _RECIPES[_info.training.recipe] = Recipe(
        f"The weights {_info.name} of the package: {_taught} on network {_made['network']}.", TrainConfig.from_json(_made),
    )

# Whole images. Compiling the backbone takes as long as the run of metric-lite0.
_LITE0 = {"backbone": "efficientnet-lite0", "dim": 512, "input_size": 128, "backbone_rate": 0.5}
_add(
    "metric-lite0",
    "Metric learning, short (ours): EfficientNet-Lite0 at 128 pixels, 2000 steps; --loss chooses the loss.",
    network="embedding", network_options=_LITE0, init="imagenet", loss="semihard", batcher="classes", batch=40, views=3,
    augmentation="crop-flip", separate_views=False, steps=2000, optimizer="adam", lr=1e-4, weight_decay=2.5e-3,
    schedule="drops", drop_every=5 / 8, drop_factor=0.1, hold_out=False, acceleration="record",
)
# 150 epochs of 50,000 images. The rate is the lowest published: with SEC, a quadratic penalty, runs diverge from about half
# of it on. Decay and warm-up are not on record; they are those of SimCLR's authors.
_RESNET = {"backbone": "resnet50-small", "dim": 128, "input_size": 32, "feature_norm": False, "frozen_norm": False}
_add(
    "simclr",
    "SimCLR on CIFAR-10: ResNet-50, a linear projection, NT-Xent, 150 epochs; published rates are 0.1 to 0.5.",
    network="embedding", network_options=_RESNET, loss="nt-xent", batcher="instances", batch=256, views=2,
    augmentation="simclr", separate_views=False, steps=29_250, optimizer="sgd", lr=0.1, weight_decay=1e-6,
    warm_up=10 / 150, schedule="cosine", hold_out=False,
)

# SEC's metric learning on four sets. Losses, and classes and images of each in a batch.
BATCHES = {
    "triplet": (40, 3), "semihard": (40, 3), "n-pair": (60, 2), "multi-similarity": (24, 5), "tuplet-margin": (32, 4),
}
SETS = {"cub": "CUB-200-2011", "cars": "Cars196", "sop": "Stanford Online Products", "inshop": "In-shop Clothes"}
_LARGE = {"steps": 12_000, "weight_decay": 1e-5, "first_drop": 1 / 2, "drop_every": 1.0, "drop_factor": 0.1}
_SCHEDULES: dict[str, dict[str, Any]] = {
    "cub": {"steps": 8000, "weight_decay": 2.5e-3, "first_drop": 5 / 8, "drop_every": 1.0, "drop_factor": 0.1},
    "cars": {"steps": 8000, "weight_decay": 2.5e-3, "first_drop": 1 / 2, "drop_every": 1 / 4, "drop_factor": 0.5},
    "sop": _LARGE, "inshop": _LARGE,
}
# Rates of head and backbone, in the order of BATCHES. The printed 5e-7 of CUB's multi-similarity is taken for 5e-5, and
# In-shop's doubtful 1e-5 / 2e-4 of tuplet margin for what the other losses have there.
_RATES = {
    "cub": ((5e-6, 2.5e-6), (5e-6, 2.5e-6), (1e-5, 5e-6), (5e-5, 2.5e-5), (4e-5, 2e-5)),
    "cars": ((1e-5, 1e-5), (1e-5, 1e-5), (1e-5, 1e-5), (4e-5, 4e-5), (6e-5, 6e-5)),
    "sop": ((5e-4, 1e-4),) * 5, "inshop": ((5e-4, 1e-4),) * 5,
}
# Multi-similarity without SEC: rates of head and backbone, and parts of the run before the first and between all drops.
_PLAIN_MULTI_SIMILARITY = {"cub": ((1e-5, 5e-6), (3 / 8, 3 / 8)), "cars": ((2e-5, 2e-5), (1 / 4, 1.0))}
# fmt: on


def published(data: str, loss: str = "semihard", plain: bool = False) -> TrainConfig:
    """Return SEC's experiment on one of SETS with one of BATCHES' losses, but for its backbone, BN-Inception.

    ``--sec`` adds SEC: published weights are 1 (CUB, triplet), 0.5 (Cars, semi-hard) and 0.1 (SimCLR).

    Args:
        data: a key of SETS.
        loss: a key of BATCHES.
        plain: multi-similarity without SEC: its own lower rates, and no batch norm before the head.
    """
    head, backbone = _RATES[data][list(BATCHES).index(loss)]
    batch, views = BATCHES[loss]
    schedule, options = _SCHEDULES[data], {**_LITE0, "input_size": 227}
    if (data, loss) == ("cars", "multi-similarity"):
        schedule = {**schedule, "first_drop": 1 / 4, "drop_every": 1.0, "drop_factor": 0.1}
    if plain:
        (head, backbone), (first, every) = _PLAIN_MULTI_SIMILARITY[data]
        schedule = {**schedule, "first_drop": first, "drop_every": every, "drop_factor": 0.1}
        options["feature_norm"] = False
    return dataclasses.replace(
        _RECIPES["metric-lite0"].config,
        recipe=f"metric-{data}",
        network_options={**options, "backbone_rate": backbone / head},
        loss=loss,
        batch=batch,
        views=views,
        lr=head,
        **schedule,
    )


for _data, _title in SETS.items():
    _text = f"SEC's experiment on {_title} with its semi-hard loss, but for its backbone; --sec adds SEC."
    _RECIPES[f"metric-{_data}"] = Recipe(_text, published(_data))
RECIPES: Registry[Recipe] = Registry("recipe", _RECIPES)

# Settings that are chosen by name, and where the options of what was chosen stand.
CHOICES: dict[str, Registry[Any]] = {
    "network": networks.NETWORKS,
    "loss": losses.LOSSES,
    "batcher": assembly.BATCHERS,
    "augmentation": augment.PRESETS,
}
OPTIONS_OF = {"network": "network_options", "loss": "loss_settings", "batcher": "batcher_options"}


@dataclass(frozen=True)
class RunFile:
    """Settings in a JSON file: the config.json of a run, or one written by hand, which may also name ``out``."""

    path: Path
    recipe: str | None
    out: str | None
    settings: dict[str, Any]

    @staticmethod
    def read(path: str | Path) -> RunFile:
        settings = read_config(path)
        named = {name: settings.pop(name, None) for name in ("recipe", "out")}
        for name, value in named.items():
            if not isinstance(value, str | None):
                raise UserError(f"{path}: {name} is {value!r}, which is not a name")
        return RunFile(Path(path), settings=settings, **named)


def resolve(recipe: str, file: RunFile | None = None, **changes: Any) -> TrainConfig:
    """Return the config of a recipe, changed by a file and then by ``changes`` (fields of TrainConfig).

    Options of network, loss and batcher are merged with those that the recipe has. Where another network is chosen, it takes
    over the options that it knows, and the others fall away; options that are given must be known. Likewise loss and batcher.
    """
    config = RECIPES[recipe].config
    if file is not None:
        if file.recipe not in (None, recipe):
            raise UserError(f"{file.path} is of the recipe {file.recipe}, not {recipe}; train {file.recipe} with it")
        config = _change(config, file.settings, str(file.path))
    return _change(config, changes, f"recipe {recipe}")


def read_options(words: Iterable[str]) -> dict[str, Any]:
    """Read name=value words; values are JSON, or else text."""
    options = {}
    for word in words:
        name, separator, text = word.partition("=")
        if not separator or not name:
            raise UserError(f"options are written name=value, not {word!r}")
        try:
            options[name] = json.loads(text)
        except json.JSONDecodeError:
            options[name] = text
    return options


def _change(config: TrainConfig, changes: dict[str, Any], where: str) -> TrainConfig:
    values = checked(changes, where)
    if "teacher" in values:
        values = {"teacher_sha256": (), **values}  # that of another teacher
    names = {choice: values.get(choice, getattr(config, choice)) for choice in CHOICES}
    for choice, options in OPTIONS_OF.items():
        if "=" in names[choice]:
            raise UserError(f"{flag(choice)} takes a name, not {names[choice]!r}; give {flag(options)} {names[choice]}")
    chosen = {choice: registry[names[choice]] for choice, registry in CHOICES.items()}
    for choice, options in OPTIONS_OF.items():
        given, known = values.get(options, {}), option_names(chosen[choice])
        check_options(f"{choice} {names[choice]!r}", given, known)
        kept = {option: value for option, value in getattr(config, options).items() if option in known}
        values[options] = {**kept, **given}
    return dataclasses.replace(config, **values)
