"""Verification metrics of matching and non-matching pairs: FPR95 and ROC AUC, safe against ties.

Every function takes distances (N,) (smaller means more alike) and labels (N,) bool, arrays or tensors. The order of the pairs
never matters, except in the variants that carry an author's name, which explain why two papers print different numbers for one
model.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from patchprint.common.errors import UserError
from patchprint.metrics.average_precision import Ties, as_numpy, finite_distances

# Where the curves are read off: false positive rates, with 0 and those that so many pairs can tell, and recalls.
CURVE_RATES = (0.0, *(10 ** (exponent / 15) for exponent in range(-75, 1)))
CURVE_RECALLS = tuple(percent / 100 for percent in range(2, 101, 2))
_LONGEST = 2.0 + 1e-6  # between unit vectors, with what rounding may add


def labeled_distances(distance: Any, is_match: Any) -> tuple[np.ndarray, np.ndarray]:
    """Distances (N,) float64 and labels (N,) bool, with at least one pair of each kind."""
    distance, matching = finite_distances(distance), as_numpy(is_match).astype(bool)
    if distance.shape != matching.shape:
        raise UserError(f"distances {distance.shape} and labels {matching.shape} must have the same shape")
    if not matching.any() or matching.all():
        raise UserError(f"need matching and non-matching pairs, got {int(matching.sum())} of {len(matching)} matching")
    return distance, matching


def fpr95(distance: Any, is_match: Any) -> float:
    """False positive rate at 95 % recall, ties counted against the descriptor.

    The threshold is the ceil(0.95 P)-th smallest distance of the P matching pairs; the result is the share of non-matching
    pairs at or below it. Constant descriptors score 1.
    """
    distance, matching = labeled_distances(distance, is_match)
    positive, negative = distance[matching], distance[~matching]
    rank = _rank(len(positive))
    return float(np.mean(negative <= np.partition(positive, rank)[rank]))


def fpr95_hardnet(distance: Any, is_match: Any) -> float:
    """HardNet's routine: negatives sorted before the pair that reaches 95 % recall, ties in file order.

    With matching pairs first in the file, constant descriptors score a perfect 0.
    """
    distance, matching = labeled_distances(distance, is_match)
    ordered = matching[np.argsort(distance, kind="stable")]
    stop = int(np.searchsorted(np.cumsum(ordered), _rank(int(matching.sum())) + 1))
    return float((~ordered[:stop]).sum() / (~matching).sum())


def fpr95_hynet(distance: Any, is_match: Any) -> float:
    """HyNet's routine: the threshold lies one matching pair further than 95 % recall needs."""
    distance, matching = labeled_distances(distance, is_match)
    positive = np.sort(distance[matching])
    threshold = positive[min(_rank(len(positive)) + 1, len(positive) - 1)]
    return float(np.mean(distance[~matching] <= threshold))


def fpr95_sdgmnet(distance: Any, is_match: Any) -> float:
    """SDGMNet's routine: HardNet's on the float32 score 1 / (cos + 10), which makes near distances equal.

    Only unit vectors have that cosine: a Hamming distance would leave the range in which the score rises with the distance.
    """
    distance, matching = labeled_distances(distance, is_match)
    if distance.max() > _LONGEST:
        far = f"{distance.max():g}"
        raise UserError(f"SDGMNet's FPR95 is for unit vectors, at most 2 apart, but two are {far} apart; take another")
    cosine = (1.0 - distance**2 / 2.0).astype(np.float32)
    return fpr95_hardnet(np.float32(1.0) / (cosine + np.float32(10.0)), matching)


FPR95_VARIANTS: dict[str, Callable[[Any, Any], float]] = {
    "tie-safe": fpr95,
    "hardnet": fpr95_hardnet,
    "hynet": fpr95_hynet,
    "sdgmnet": fpr95_sdgmnet,
}


def roc_auc(distance: Any, is_match: Any, ties: Ties = "expectation") -> float:
    """Area under the ROC curve: the chance that a matching pair is nearer than a non-matching one.

    Ties count half, or (``file-order``) are won by what comes first in the list, as in the scripts of HPatches.
    """
    distance, matching = labeled_distances(distance, is_match)
    if ties == "file-order":
        distance = np.argsort(np.argsort(distance, kind="stable"))
    positive, negative = distance[matching], np.sort(distance[~matching])
    farther = len(negative) - np.searchsorted(negative, positive, side="right")
    not_nearer = len(negative) - np.searchsorted(negative, positive, side="left")
    return float((farther + not_nearer).mean() / (2 * len(negative)))


def curves(distance: Any, is_match: Any) -> dict[str, dict[str, list[float]]]:
    """``roc`` (``fpr``, ``recall``) and ``precision_recall`` (``recall``, ``precision``), ties counted against the descriptor.

    They are read off at fixed places, so that those of several models can be drawn together.
    """
    distance, matching = labeled_distances(distance, is_match)
    positive, negative = np.sort(distance[matching]), np.sort(distance[~matching])
    rates = np.array([rate for rate in CURVE_RATES if rate == 0 or rate * len(negative) > 1 - 1e-9])
    # With so many negatives allowed, positives count that are nearer than the first negative that is not.
    allowed = np.floor(rates * len(negative) + 1e-9).astype(np.int64)
    limit = np.append(negative, np.inf)[np.minimum(allowed, len(negative))]
    recall = np.searchsorted(positive, limit, side="left") / len(positive)
    ranks = np.ceil(np.asarray(CURVE_RECALLS) * len(positive) - 1e-9).astype(np.int64)
    threshold = positive[ranks - 1]
    right = np.searchsorted(positive, threshold, side="right")
    precision = right / (right + np.searchsorted(negative, threshold, side="right"))
    return {
        "roc": {"fpr": rates.round(7).tolist(), "recall": recall.round(5).tolist()},
        "precision_recall": {"recall": list(CURVE_RECALLS), "precision": precision.round(5).tolist()},
    }


def _rank(num_positives: int) -> int:
    """Zero-based rank of the positive that completes 95 % recall; in integers, since 0.95 * P is not exact."""
    return -(-95 * num_positives // 100) - 1
