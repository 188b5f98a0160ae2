"""Fit the probability that two images show the same place, and write it into the package.

    python -m perf.verdict.fit --data ../shared/data --cache runs/verdict

A logistic function of the numbers of `patchprint.matching.two_view_geometry.Evidence`, fitted on right geometries of the same
place and on geometries of different places, both with the same weight in all. Left out are wrong geometries of the same place,
and those with which no more matches agree than a geometry can be made of: ``without_evidence`` is the probability of these.
Each is seen three times: as it is, without the angles of the keypoints (as with ``upright``), and without their scales too (as
some files have them), so that it is known what agreement means then. Below ``different_below`` no geometry is kept, from
``same_from`` on the answer is "same"; from 0.6 on fewer than 1 in 100 pairs of different places are left here even where only
positions are known.
"""

from __future__ import annotations

import argparse
import dataclasses
import time
from pathlib import Path

import numpy as np
import torch

from patchprint.common import files, provenance
from patchprint.common.types import Features
from patchprint.matching.two_view_geometry import FITTED, GEOMETRIES, THRESHOLD, Evidence, estimate_geometry, weigh
from perf.verdict.drawn_images import FIT, SEED, draw
from perf.verdict.pairs import MatchedPair, different_places, matched_pairs, same_place

DIFFERENT_BELOW, SAME_FROM = 0.6, 0.9
SMOOTHING = 1.0  # of the squared weights, in units of standardized numbers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--cache", type=Path, required=True, help="features, made by perf.verdict.drawn_images")
    parser.add_argument("--ways", type=int, default=2, help="ways of matching drawn for each pair")
    parser.add_argument("--different", type=int, default=500, help="pairs of different places")
    parser.add_argument("--out", type=Path, default=FITTED)
    arguments = parser.parse_args()
    started = time.monotonic()
    rng = np.random.default_rng(SEED)
    photos = draw("fit", arguments.data)
    different = different_places(photos)
    drawn = [different[index] for index in rng.permutation(len(different))[: arguments.different]]
    pairs = same_place(photos, arguments.data) + drawn
    seen: list[tuple[Evidence, bool]] = []
    for pair in matched_pairs(pairs, arguments.data, arguments.cache, arguments.ways, rng):
        seen += observations(pair)
    right = np.array([is_right for _, is_right in seen])
    evident = np.array([evidence.beyond_sample > 0 for evidence, _ in seen])
    names = list(seen[0][0].numbers())
    numbers = np.array([list(evidence.numbers().values()) for evidence, _ in seen])
    constant, weights = logistic(numbers[evident], right[evident])
    above = evident & (constant + numbers @ weights >= np.log(DIFFERENT_BELOW / (1 - DIFFERENT_BELOW)))
    missed, empty = (~evident)[right].mean(), (~evident)[~right].mean()
    result = provenance.record(
        "verdict-fit",
        settings={"ways": arguments.ways, "smoothing": SMOOTHING, "scenes": [scene.folder for scene in FIT]},
        data={"path": str(arguments.data)},
        seed=SEED,
        scores={
            "right": int(right.sum()),
            "different": int((~right).sum()),
            "right_kept": round(float(above[right].mean()), 4),
            "different_kept": round(float(above[~right].mean()), 4),
        },
        started=started,
    )
    fitted = {
        "constant": round(constant, 4),
        "weights": {name: round(float(weight), 4) for name, weight in zip(names, weights, strict=True)},
        "without_evidence": round(float(missed / (missed + empty)), 4),
        "different_below": DIFFERENT_BELOW,
        "same_from": SAME_FROM,
        "made": {key: value for key, value in result.to_json().items() if key not in ("schema", "model")},
    }
    files.write_json(arguments.out, fitted)
    print(fitted)


def observations(pair: MatchedPair) -> list[tuple[Evidence, bool]]:
    """The evidence for each kind of geometry, and whether it is right (True) or of different places (False)."""
    seen = []
    for kind in GEOMETRIES:
        found = estimate_geometry(pair.a, pair.b, pair.matches, kind)
        right = pair.is_right(found)
        if found.model is not None and (right or not pair.same):
            forms = ((pair.a, pair.b), *(tuple(map(form, (pair.a, pair.b))) for form in (without_angles, bare)))
            seen += [(weigh(a, b, found, THRESHOLD[kind]), right) for a, b in forms]
    return seen


def without_angles(features: Features) -> Features:
    return dataclasses.replace(features, keypoints=features.keypoints.upright())


def bare(features: Features) -> Features:
    """Features of which only the positions are known."""
    keypoints = features.keypoints.upright()
    return dataclasses.replace(
        features, keypoints=dataclasses.replace(keypoints, scale=torch.ones_like(keypoints.scale))
    )


def logistic(numbers: np.ndarray, right: np.ndarray) -> tuple[float, np.ndarray]:
    """The logistic function with the largest likelihood, both answers counting alike, by Newton's method.

    Shape:
        numbers (N, D), right (N,) bool -> constant, weights (D,).
    """
    middle, spread = numbers.mean(0), numbers.std(0)
    inputs = np.column_stack([np.ones(len(numbers)), (numbers - middle) / spread])
    importance = np.where(right, 0.5 / right.sum(), 0.5 / (~right).sum()) * len(right)
    penalty = SMOOTHING * np.diag([0.0, *np.ones(numbers.shape[1])])
    weights = np.zeros(inputs.shape[1])
    for _ in range(100):
        probability = 1 / (1 + np.exp(-inputs @ weights))
        slope = inputs.T @ (importance * (probability - right)) + penalty @ weights
        curvature = (inputs * (importance * probability * (1 - probability))[:, None]).T @ inputs + penalty
        step = np.linalg.solve(curvature, slope)
        weights -= step
        if np.abs(step).max() < 1e-9:
            break
    scaled = weights[1:] / spread
    return float(weights[0] - scaled @ middle), scaled


if __name__ == "__main__":
    main()
