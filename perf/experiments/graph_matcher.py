"""The graph matcher beside the ratio test, at the same precision, on scenes that it did not learn from.

    python -m perf.experiments.graph_matcher --photos ../shared/data/photos \
        --scenes oxford-landmarks/bodleian oxford-landmarks/allsouls --others castle notredame liberty sceaux \
        --warped 4 --real 9 --cache runs/keypoint-choice --model patchprint.fast --out results/experiments/graph-matcher.json

Pairs are those of `perf.experiments.keypoint_choice`. For each kind of pairs and each matcher: right matches of a pair where
all matches together have precision ``PRECISION`` (the threshold of the ratio, or the tolerance of the graph, that gives most of
them), and right matches, precision and areas under the curve at the matcher's own limit and at that one. ``turned``: warped
pairs whose second image is turned by 90 and by 180 degrees. ``different``: images of the scenes and of ``--others``, other
places, and how many of their pairs get a geometry from `matching.verify`.
"""

from __future__ import annotations

import argparse
import itertools
import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from patchprint.benchmarks.pipelines import KnownHomography, score_pair
from patchprint.common import files, provenance
from patchprint.common.types import Features, Matches
from patchprint.data.builders.homographies import render_views
from patchprint.features import load
from patchprint.interop.images import limit_size, list_images, read_gray
from patchprint.matching import match, verify
from patchprint.matching.local_agreement import local_errors
from patchprint.matching.matchers.graph import LEAST, TOLERANCE
from patchprint.metrics.geometry import error_auc
from patchprint.ops.distances import nearest
from perf.experiments.keypoint_choice import PIXELS, SEED, SIDE, Describe, Pair, _describer, real_pairs, warped_pairs

PRECISION = 0.88
PRECISIONS = (0.95, 0.9, PRECISION, 0.8, 0.6)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--photos", type=Path, required=True)
    parser.add_argument("--scenes", nargs="+", required=True)
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--model", default="patchprint")
    parser.add_argument("--weights", default="", help="of the matcher, in place of those that are shipped")
    parser.add_argument("--warped", type=int, default=3, help="photos of a scene")
    parser.add_argument("--real", type=int, default=7, help="photos of a scene, which are paired")
    parser.add_argument("--others", nargs="*", default=[], help="scenes of other places")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    started = time.monotonic()
    torch.set_num_threads(1)
    model = load(arguments.model)
    describe = _describer(model, "dog", True, arguments.cache)
    folders = [arguments.photos / scene for scene in arguments.scenes]
    kinds = {
        "warped": [pair for folder in folders for pair in warped_pairs(folder, arguments.warped, describe)],
        "real": [pair for folder in folders for pair in real_pairs(folder, arguments.real, describe)],
        **{f"turned {90 * turns}": [pair for folder in folders for pair in turned(folder, arguments.warped, turns, describe)]
           for turns in (1, 2)},
    }  # fmt: skip
    scores = {kind: judge(pairs, model.ratio or 0.8, arguments.weights) for kind, pairs in kinds.items()}
    if arguments.others:
        ours, theirs = (
            [image for scene in scenes for image in images(arguments.photos / scene, arguments.warped, describe)]
            for scenes in (arguments.scenes, arguments.others)
        )
        scores["different"] = false_models(list(itertools.product(ours, theirs)), arguments.weights)
    print(scores)
    result = provenance.record(
        "graph-matcher",
        settings={
            "precision": PRECISION,
            "side": SIDE,
            "px": PIXELS,
            "ratio": model.ratio,
            "threshold": LEAST,
            "tolerance": TOLERANCE,
        },
        model={"name": model.info.name, "sha256": model.info.sha256},
        data={"path": str(arguments.photos), "scenes": arguments.scenes},
        seed=SEED,
        scores=scores,
        started=started,
    )
    files.write_json(arguments.out, result.to_json())


def images(folder: Path, count: int, describe: Describe) -> Iterator[Features]:
    names = sorted(list_images(folder / "images"))
    for number in np.random.default_rng(SEED).permutation(len(names))[:count]:
        photo = limit_size(read_gray(folder / "images" / names[number]), SIDE)
        yield describe(f"{folder.name}/{names[number]}-view0", photo)


def false_models(pairs: list[tuple[Features, Features]], weights: str) -> dict[str, Any]:
    """How many pairs of different places get a geometry, and how many of their images are said to show the same place."""
    scores: dict[str, Any] = {"pairs": len(pairs)}
    ways: tuple[tuple[str, dict[str, Any]], ...] = (("mutual+ratio", {}), ("graph", {"weights": weights}))
    for name, options in ways:
        verified = [verify(a, b, match(a, b, name, **options)) for a, b in pairs]
        scores[name] = {
            "false models": sum(each.model is not None for each in verified),
            "said same": sum(each.verdict is not None and each.verdict.answer == "same" for each in verified),
            "matches": round(float(np.mean([len(each) for each in verified])), 1),
        }
    return scores


def turned(folder: Path, count: int, turns: int, describe: Describe) -> Iterator[Pair]:
    """Warped pairs whose second image is turned by 90 degrees ``turns`` times."""
    names = sorted(list_images(folder / "images"))
    for number in np.random.default_rng(SEED).permutation(len(names))[:count]:
        photo = limit_size(read_gray(folder / "images" / names[number]), SIDE)
        views = render_views(photo, 1, SEED + int(number))
        height, width = photo.shape
        matrix = np.eye(3)
        for _ in range(turns):  # counterclockwise, as np.rot90
            matrix = np.array([[0, 1, 0], [-1, 0, width - 1], [0, 0, 1.0]]) @ matrix
            height, width = width, height
        a = describe(f"{folder.name}/{names[number]}-view0", views[0].image)
        b = describe(f"{folder.name}/{names[number]}-turned{turns}", np.rot90(views[1].image, turns).copy())
        yield a, b, KnownHomography(matrix @ views[1].homography)


def judge(pairs: list[Pair], ratio: float, weights: str) -> dict[str, Any]:
    """Scores of both matchers on pairs."""
    scores: dict[str, Any] = {"pairs": len(pairs)}
    for name, own in (("mutual+ratio", -ratio), ("graph", -TOLERANCE)):
        found = [matched(a, b, name, weights) for a, b, _ in pairs]
        value = np.concatenate([each for _, each in found])
        right = np.concatenate(
            [_errors(pair, matches) < PIXELS for pair, (matches, _) in zip(pairs, found, strict=True)]
        )
        order = np.argsort(-value, kind="stable")
        total = np.cumsum(right[order])
        precision = total / np.arange(1, len(order) + 1)
        curve = {}
        for wanted in PRECISIONS:
            enough = np.flatnonzero(precision >= wanted)
            last = int(enough[-1]) if len(enough) else 0
            limit = float(value[order[last]])
            curve[str(wanted)] = {"right": round(float(total[last]) / len(pairs), 1), "limit": round(abs(limit), 4)}
            if wanted == PRECISION:
                curve[str(wanted)] |= _all(pairs, found, limit)
        scores[name] = {"own threshold": {"limit": abs(own), **_all(pairs, found, own)}, "at precision": curve}
    return scores


def matched(a: Features, b: Features, name: str, weights: str) -> tuple[Matches, np.ndarray]:
    """All matches, and what a limit chooses by: minus the ratio of distances, or minus the error by those around a match."""
    if name == "graph":
        found = match(a, b, "graph", threshold=LEAST, weights=weights, tolerance=math.inf)
        assert found.score is not None
        rows, columns = found.indices.unbind(1)
        scale = torch.stack([a.keypoints.scale[rows], b.keypoints.scale[columns]], 1)
        errors = local_errors(a.keypoints.xy[rows], b.keypoints.xy[columns], scale, found.score)
        return found, -errors.numpy()
    found = match(a, b, "mutual")
    distance, _ = nearest(a.descriptors[found.indices[:, 0]], b.descriptors, 2)
    return found, -(distance[:, 0] / distance[:, 1].clamp(min=1e-9)).numpy()


def _errors(pair: Pair, matches: Matches) -> np.ndarray:
    a, b, truth = pair
    return truth.match_errors(*(each.double().numpy() for each in matches.points(a, b)))


def _all(pairs: list[Pair], found: list[tuple[Matches, np.ndarray]], limit: float) -> dict[str, float]:
    scored = []
    for (a, b, truth), (matches, value) in zip(pairs, found, strict=True):
        kept = torch.from_numpy(value >= limit)
        chosen = Matches(
            matches.indices[kept], matches.distance[kept], score=None if matches.score is None else matches.score[kept]
        )
        scored.append(score_pair(a, b, chosen, truth, PIXELS))
    truth = pairs[0][2]
    auc = {f"AUC {limit:g} {truth.unit}": round(error_auc([each["error"] for each in scored], limit), 4)
           for limit in truth.limits}  # fmt: skip
    right, total = (sum(each[key] for each in scored) for key in ("right", "matches"))
    return {"right places": round(right / len(pairs), 1), "precision": round(right / max(total, 1), 4), **auc}


if __name__ == "__main__":
    main()
