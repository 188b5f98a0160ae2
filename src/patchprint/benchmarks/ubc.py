"""Patch verification as on the UBC (Brown) sets: FPR95 over 100,000 pairs, half of them matching.

A store built from the original files brings their pair list ``m50_100000_100000_0``. From any other source of patches as
many pairs are drawn with a seed: a matching pair is two views of one point, a non-matching pair two points of one scene.
Every distinct patch is described once.
"""

import base64
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch

from patchprint.benchmarks._benchmark import Benchmark, Run, Scores
from patchprint.benchmarks._stores import describe_patches, open_patches
from patchprint.common.errors import parsing
from patchprint.data import PatchSource
from patchprint.data.patch_pairs import PairList, pairs_of
from patchprint.data.preview import stretch_contrast
from patchprint.interop.images import decode_gray, encode_image
from patchprint.metrics.average_precision import Ties, average_precision
from patchprint.metrics.verification import FPR95_VARIANTS, curves, roc_auc

# FPR95 in percent, train>test in this order; + means augmented training data.
_ORDER = ("nd>lib", "yos>lib", "lib>nd", "yos>nd", "lib>yos", "nd>yos")
PUBLISHED: dict[str, tuple[float, ...]] = {
    "TFeat": (7.39, 10.31, 3.06, 3.80, 8.06, 7.24),
    "L2-Net": (3.64, 5.29, 1.15, 1.62, 4.43, 3.30),
    "L2-Net+": (2.36, 4.70, 0.72, 1.29, 2.57, 1.71),
    "L2-Net CS": (2.55, 4.24, 0.87, 1.39, 3.81, 2.84),
    "L2-Net CS+": (1.71, 3.87, 0.56, 1.09, 2.07, 1.30),
    "L2-Net binary": (10.3, 11.71, 6.37, 6.76, 13.5, 11.57),
    "L2-Net binary+": (7.44, 10.29, 3.81, 4.31, 8.81, 7.45),
    "L2-Net CS binary": (5.25, 7.83, 3.07, 3.52, 8.49, 6.92),
    "L2-Net CS binary+": (4.01, 6.65, 1.90, 2.51, 5.61, 4.04),
    "DOAP+": (1.54, 2.62, 0.43, 0.87, 2.00, 1.21),
    "DOAP-ST+": (1.47, 2.29, 0.39, 0.78, 1.98, 1.35),
    "DOAP binary 256+": (3.18, 4.32, 1.04, 1.57, 4.10, 3.87),
    "DOAP-ST binary 256+": (2.87, 4.17, 0.96, 1.76, 3.93, 3.64),
    "HardNet+ (NIPS)": (2.28, 3.25, 0.57, 0.96, 2.13, 2.22),
    "HardNet-GOR+": (1.89, 3.03, 0.54, 0.90, 2.41, 2.39),
    "HardNet+ (lr 10)": (1.49, 2.51, 0.53, 0.78, 1.96, 1.84),
    "CDF": (1.21, 2.01, 0.39, 0.68, 1.51, 1.29),
    "SOSNet": (1.08, 2.12, 0.34, 0.67, 1.03, 0.95),
    "HardNet+FRN": (1.26, 1.76, 0.41, 0.58, 1.16, 1.05),
    "HyNet": (0.89, 1.37, 0.34, 0.61, 0.88, 0.96),
    "SDGMNet (best test epoch)": (0.82, 1.41, 0.30, 0.46, 0.80, 0.76),
}
_TEST_SETS = {"liberty": (0, 1), "notredame": (2, 3), "yosemite": (4, 5)}
# Not trained on a UBC set: liberty, notredame, yosemite.
PUBLISHED_FROM_ELSEWHERE: dict[str, tuple[float, float, float]] = {
    "SIFT": (29.84, 22.53, 27.29),
    "L2-Net (hpatches)": (4.16, 1.54, 4.41),
    "L2-Net+ (hpatches)": (3.2, 1.3, 3.6),
    "L2-Net CS (hpatches)": (2.43, 0.92, 2.58),
    "L2-Net CS+ (hpatches)": (1.9, 0.73, 1.85),
    "L2-Net binary (hpatches)": (12.4, 6.4, 13.16),
    "L2-Net binary+ (hpatches)": (10.74, 5.44, 11.07),
    "L2-Net CS binary (hpatches)": (6.43, 2.88, 6.91),
    "L2-Net CS binary+ (hpatches)": (5.4, 2.44, 5.88),
}

HARDEST = ("missed", "confused")  # kinds of pairs that descriptors get wrong
_COUNT, _SIDE = 6, 32  # pairs of each kind that a result shows, and pixels along the side of their patches


@dataclass(frozen=True)
class Settings:
    # Pairs to draw where the data brings no list; half of them match.
    pairs: int = 100_000
    # Only the points of one part of the split of a store.
    split: Literal["all", "train", "val", "test"] = "all"
    # Equal distances count against the descriptor (fair), or in the order of the file, as in HardNet's routine (official).
    ties: Literal["fair", "official"] = "fair"


class Ubc(Benchmark):
    """Patch verification on pairs: FPR95."""

    settings = Settings
    scoring = frozenset({"ties"})
    lower_is_better = frozenset({"FPR95 %"})

    def evaluate(self, run: Run, settings: Settings) -> Scores:
        """Return FPR95 in percent, tie-safe and in the authors' variants, with ROC area and average precision."""
        arrays = run.predictions("distances", lambda: _export(run, settings))
        distance, is_match = arrays["distance"], arrays["is_match"]
        # SDGMNet's routine takes the cosine of unit vectors, which bits do not have.
        defined = [name for name in FPR95_VARIANTS if name != "sdgmnet" or run.model.kind == "float"]
        variants = {name: 100 * FPR95_VARIANTS[name](distance, is_match) for name in defined}
        ties: Ties = "file-order" if settings.ties == "official" else "expectation"
        return {
            "fpr95": variants.pop("hardnet" if settings.ties == "official" else "tie-safe"),
            "fpr95_variants": variants,
            "roc_auc": roc_auc(distance, is_match, ties),
            "ap": average_precision(distance, is_match, ties=ties),
            "pairs": len(distance),
            "patches": int(arrays["patches"]),
            "pair_list": str(arrays["pair_list"]),
            "curves": curves(distance, is_match),
            "hardest": hardest_to_json(arrays),
        }

    def headline(self, scores: Scores) -> dict[str, float]:
        return {"FPR95 %": scores["fpr95"], "ROC area": scores["roc_auc"]}

    def published(self, result: dict[str, Any]) -> dict[str, dict[str, float]]:
        test_set = str(result["data"]["path"]).rstrip("/").rsplit("/", 1)[-1].lower()
        if result["scores"].get("pair_list") != "official" or test_set not in _TEST_SETS:
            return {}
        rows = {
            f"{name} ({_ORDER[column]})": values[column]
            for name, values in PUBLISHED.items()
            for column in _TEST_SETS[test_set]
        }
        place = list(_TEST_SETS).index(test_set)
        others = {name: values[place] for name, values in PUBLISHED_FROM_ELSEWHERE.items()}
        return {name: {"FPR95 %": value} for name, value in {**others, **rows}.items()}


def _export(run: Run, settings: Settings) -> dict[str, np.ndarray]:
    source = open_patches(run, settings.split)
    pairs, origin = pairs_of(source, settings.pairs, run.seed)
    distance = pairs.distances(describe_patches(run, source, pairs.points, pairs.views).to(run.device))
    return {
        "distance": distance,
        "is_match": pairs.is_match,
        "patches": np.array(len(pairs.points)),
        "pair_list": np.array(origin),
        **hardest_pairs(source, pairs, distance),
    }


def hardest_pairs(source: PatchSource, pairs: PairList, distance: np.ndarray) -> dict[str, np.ndarray]:
    """Return the hardest pairs: the farthest matching ones (missed) and the nearest non-matching ones (confused).

    Shape:
        distance (L,) -> missed, confused (C, 2, S, S) uint8; missed_distance, confused_distance (C,).
    """
    found: dict[str, np.ndarray] = {}
    for kind, chosen, sign in zip(HARDEST, (pairs.is_match, ~pairs.is_match), (-1, 1), strict=True):
        rows = np.flatnonzero(chosen)
        rows = rows[np.argsort(sign * distance[rows], kind="stable")[:_COUNT]]
        place = pairs.index.cpu()[torch.from_numpy(rows)].flatten()
        points, views = pairs.points.cpu()[place].to(source.device), pairs.views.cpu()[place].to(source.device)
        patches = stretch_contrast(source.sample(points, views[:, None], _SIDE)[:, 0, 0])
        shown = (patches * 255).round().to(torch.uint8).cpu().numpy()
        found |= {kind: shown.reshape(-1, 2, *shown.shape[1:]), f"{kind}_distance": distance[rows]}
    return found


def hardest_to_json(arrays: dict[str, np.ndarray]) -> dict[str, dict[str, Any]]:
    """Convert the result of `hardest_pairs`: distances, and one PNG with pairs side by side, the patches of a pair stacked."""
    found = {}
    for kind in HARDEST:
        count, _, height, width = arrays[kind].shape
        strip = arrays[kind].transpose(1, 2, 0, 3).reshape(2 * height, count * width)
        found[kind] = {
            "distance": arrays[f"{kind}_distance"].round(4).tolist(),
            "png": base64.b64encode(encode_image(strip)).decode(),
        }
    return found


def hardest_from_json(entry: Any, name: str) -> tuple[np.ndarray, list[float]]:
    """Read patches and distances of one kind of pairs from the result ``name``.

    Shape:
        -> (C, 2, S, S) uint8, and C numbers.
    """
    with parsing(name, "a result with pairs of patches"):
        distance = [float(value) for value in entry["distance"]]
        strip = decode_gray(base64.b64decode(entry["png"], validate=True), name)
        return strip.reshape(2, len(strip) // 2, len(distance), -1).transpose(2, 0, 1, 3), distance
