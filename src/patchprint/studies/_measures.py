"""What several studies measure: FPR95 on UBC's sets, tasks of HPatches, and probes of how descriptors are distributed."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from patchprint.benchmarks import Benchmark, Run
from patchprint.benchmarks._stores import describe_patches, open_patches
from patchprint.benchmarks.ubc import PUBLISHED
from patchprint.common import rng
from patchprint.common.errors import UserError
from patchprint.common.registry import Registry
from patchprint.data import PatchSource
from patchprint.data.batches import two_views
from patchprint.data.patch_pairs import pairs_of
from patchprint.losses.mining import angle, hardest_cosine
from patchprint.losses.sdgm import SDGMLoss, Spread
from patchprint.metrics.verification import fpr95
from patchprint.studies._study import Column, Measure, Study

# What the studies on UBC share: the sets, FPR95 on those that a run did not learn, and what the papers print.
UBC_SETS = {
    "liberty": "store of UBC's Liberty, or of any other images",
    "notredame": "store of Notre Dame",
    "yosemite": "store of Yosemite",
}
UBC = {name: Measure("ubc", on=name) for name in UBC_SETS}
MEAN = "mean FPR95 %"
FPR95 = (
    *(Column(f"{name} FPR95 %", f"{name}.fpr95", lower_is_better=True) for name in UBC_SETS),
    Column(MEAN, tuple(f"{name}.fpr95" for name in UBC_SETS), lower_is_better=True),
)
# A table with a row for each method and training set.
UBC_TABLE = partial(Study, data=UBC_SETS, measures=UBC, columns=FPR95, mean_over="trained on")
# Sets of training and test in the benchmark's list.
_ORDER = (
    ("notredame", "liberty"), ("yosemite", "liberty"), ("liberty", "notredame"),
    ("yosemite", "notredame"), ("liberty", "yosemite"), ("notredame", "yosemite"),
)  # fmt: skip

HPATCHES_SET = {"hpatches": "store of HPatches, or one made of image sequences (16 views of a point)"}
HPATCHES = {"hpatches": Measure("hpatches", on="hpatches")}


def published_fpr95(method: str, learned: str) -> dict[str, float]:
    """Return the published FPR95 of a method by column title, and the mean over the test sets."""
    found = {
        tested: value for (train, tested), value in zip(_ORDER, PUBLISHED[method], strict=True) if train == learned
    }
    return {**{f"{name} FPR95 %": value for name, value in found.items()}, MEAN: sum(found.values()) / len(found)}


def mean_ap(task: str, measure: str = "hpatches") -> Column:
    """Return the column of the mAP of a task of HPatches in percent."""
    return Column(f"{task} mAP", f"{measure}.{task}", scale=100)


_BINS = 100
_FEWEST = 8  # points among which negatives are searched


@dataclass(frozen=True)
class AngleSettings:
    points: int = 100_000  # that are described, in two views each
    batch: int = 1024  # points among which the hardest negative is searched
    margin: float = 0.6  # SDGMNet's probabilistic margin


class Angles(Benchmark):
    """Angles of matching pairs and hardest negatives, and the weights that SDGMNet gives them.

    The network is in evaluation mode on patches as they are: without dropout and augmentation angles are smaller than those
    that the loss saw.
    """

    settings = AngleSettings

    def evaluate(self, run: Run, settings: AngleSettings) -> dict[str, Any]:
        angles = self._angles(run, settings)
        relative = angles[0] - angles[1]
        spreads = [Spread(each.mean(), each.std()) for each in (*angles, relative)]
        names = ("positive", "negative", "relative")
        x = torch.linspace(float(min(each.min() for each in angles)), float(max(each.max() for each in angles)), _BINS)
        difference = torch.linspace(float(relative.min()), float(relative.max()), _BINS)
        own, coupled = SDGMLoss(coupled="none"), SDGMLoss(self_weight="theta", margin=settings.margin)
        of_positive, of_negative = own.weights(x, x, *spreads)
        of_triplet, _ = coupled.weights(difference, torch.zeros(_BINS), *spreads)
        across, up = torch.meshgrid(x[::2], x[::2], indexing="xy")
        product = torch.stack([*own.weights(across, up, *spreads), coupled.weights(across, up, *spreads)[0]]).prod(0)
        return {
            "points": len(relative),
            "statistics": {
                name: {"mean": float(spread.mean), "std": float(spread.std)}
                for name, spread in zip(names, spreads, strict=True)
            },
            "angles": {name: _density(each) for name, each in zip(names, (*angles, relative), strict=True)},
            "weights": {
                "positive": _curve(x, of_positive),
                "negative": _curve(x, of_negative),
                "relative": _curve(difference, of_triplet),
            },
            "map": {"x": _rounded(x[::2]), "y": _rounded(x[::2]), "z": [_rounded(line) for line in product]},
        }

    def headline(self, scores: dict[str, Any]) -> dict[str, float]:
        return {f"mean of {name}": values["mean"] for name, values in scores["statistics"].items()}

    def _angles(self, run: Run, settings: AngleSettings) -> tuple[Tensor, Tensor]:
        """Return the angles of matching pairs and of the hardest negatives, each (N,)."""
        source = open_patches(run, "all")
        key = rng.fold_in(rng.key(run.seed), 0xA2F1E)
        usable = torch.nonzero(source.num_views.cpu() >= 2)[:, 0]
        if len(usable) < _FEWEST:
            raise UserError(f"{run.data_name} has {len(usable)} points with two views, fewer than {_FEWEST}")
        points = usable[rng.permutation(rng.fold_in(key, 1), len(usable))[: settings.points]]
        views = two_views(rng.fold_in(key, 2), source.num_views.cpu()[points])
        first, second = (_floats(run, source, points, views[:, side]) for side in (0, 1))
        limit = SDGMLoss().cosine_guard
        positive = angle((first * second).sum(1))
        whole = len(points) // settings.batch * settings.batch or len(points)
        batches = zip(first[:whole].split(settings.batch), second[:whole].split(settings.batch), strict=True)
        negative = torch.cat([angle(hardest_cosine(one, two, limit)) for one, two in batches])
        return positive[:whole], negative


@dataclass(frozen=True)
class ValueSettings:
    patches: int = 100_000  # that are described, each of another point


class Values(Benchmark):
    """Distribution of the values of descriptors, and the mean of each of their signs."""

    settings = ValueSettings

    def evaluate(self, run: Run, settings: ValueSettings) -> dict[str, Any]:
        source = open_patches(run, "all")
        points = rng.permutation(rng.fold_in(rng.key(run.seed), 0x5167), source.num_points)[: settings.patches]
        found = _floats(run, source, points, torch.zeros_like(points))
        bit_means = torch.where(found > 0, 1.0, -1.0).mean(0)
        return {
            "patches": len(found),
            "mean": float(found.mean()),
            "std": float(found.std()),
            "density": _density(found.flatten()),
            "bit_means": _curve(torch.arange(found.shape[1]), bit_means),
            "largest_bit_mean": float(bit_means.abs().max()),
            "mean_bit_mean": float(bit_means.abs().mean()),
        }

    def headline(self, scores: dict[str, Any]) -> dict[str, float]:
        return {"largest mean of a bit": scores["largest_bit_mean"]}


@dataclass(frozen=True)
class ThresholdSettings:
    pairs: int = 100_000  # to draw where the data bring no list


class Thresholds(Benchmark):
    """FPR95 of descriptors, and of their bits: larger than zero, than the mean of a dimension, than its median."""

    settings = ThresholdSettings

    def evaluate(self, run: Run, settings: ThresholdSettings) -> dict[str, Any]:
        source = open_patches(run, "all")
        pairs, _ = pairs_of(source, settings.pairs, run.seed)
        found = _floats(run, source, pairs.points, pairs.views)
        cuts = {"zero": torch.zeros(1), "mean": found.mean(0), "median": found.median(0).values}
        bits = {name: torch.where(found > cut, 1.0, -1.0) for name, cut in cuts.items()}
        distances = {name: pairs.distances(each) for name, each in ({"floats": found} | bits).items()}
        return {"fpr95": {name: 100 * fpr95(each, pairs.is_match) for name, each in distances.items()}}

    def headline(self, scores: dict[str, Any]) -> dict[str, float]:
        return {f"FPR95 % of {name}": value for name, value in scores["fpr95"].items()}


PROBES: Registry[Callable[[], Benchmark]] = Registry(
    "probe",
    {
        "angles": lambda: Angles("angles"),
        "values": lambda: Values("values"),
        "thresholds": lambda: Thresholds("thresholds"),
    },
)


def _floats(run: Run, source: PatchSource, points: Tensor, views: Tensor) -> Tensor:
    """Describe patches with a network of floats, points (U,), views (U,) -> (U, D)."""
    if run.model.kind == "binary":
        raise UserError(f"{run.model.info.name} has binary descriptors; this probe needs floats")
    return describe_patches(run, source, points, views)


def _density(values: Tensor) -> dict[str, list[float]]:
    """Return a histogram, normalized to area one, as a curve over the centers of its bins."""
    low, high = float(values.min()), float(values.max())
    width = max((high - low) / _BINS, 1e-6)
    counts = torch.histc(values.float(), _BINS, low, low + _BINS * width)
    return _curve(low + width * (torch.arange(_BINS) + 0.5), counts / (len(values) * width))


def _curve(x: Tensor, y: Tensor) -> dict[str, list[float]]:
    return {"x": _rounded(x), "y": _rounded(y)}


def _rounded(values: Tensor) -> list[float]:
    """Round to four digits, which are enough for a figure."""
    return [float(f"{value:.4g}") for value in values.tolist()]
