"""Measure how often the same-place verdict is right, on images that it was not fitted on.

    python -m perf.verdict.measure --data ../shared/data --cache runs/verdict --out results/verdict.json
    python -m perf.verdict.measure ... --ways 0 --matcher graph --out results/verdict-graph.json

Each pair is matched as ``patchprint match`` does by itself ("default"), and in other ways drawn for it ("other ways"; and once
more as if only the positions of the keypoints were known).

``different``: pairs of different places, those for which some geometry is estimated (``models_without_verdict``) and those
for which ``verify`` returns one (``false_models``). ``same``: pairs of the same place; ``recovered`` are those for which one of
both estimates is right before any verdict (`perf.verdict.pairs`), ``kept`` those of them for which ``verify`` returns a
geometry, and ``kept_right`` those for which it is right, which is also a matter of the choice between both.
``by_geometry``: the same where only one kind of geometry is asked for: right estimates, and those that are returned.
``by_probability``: how many pairs show the same place among those that are given a probability within each tenth, wrong
geometries of the same place left out.
"""

from __future__ import annotations

import argparse
import dataclasses
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from patchprint.common import files, provenance
from patchprint.matching import verify
from patchprint.matching.two_view_geometry import (
    FITTED,
    GEOMETRIES,
    THRESHOLD,
    estimate_geometry,
    exceeds_chance,
    judge,
    weigh,
)
from perf.verdict.drawn_images import SEED, TEST, draw
from perf.verdict.fit import bare
from perf.verdict.pairs import (
    DEFAULT_WAY,
    PIXELS,
    RIGHT_SHARE,
    SHARED,
    MatchedPair,
    Pair,
    different_places,
    matched_pairs,
    same_place,
)

Row = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--cache", type=Path, required=True, help="features, made by perf.verdict.drawn_images")
    parser.add_argument("--ways", type=int, default=1, help="ways of matching drawn for each pair, beside the default")
    parser.add_argument(
        "--different", type=int, default=600, help="pairs of different places, beside Oxford's first images"
    )
    parser.add_argument("--matcher", default=DEFAULT_WAY[2], help="in place of the default")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    started = time.monotonic()
    default_way = (*DEFAULT_WAY[:2], arguments.matcher)
    rng = np.random.default_rng([SEED, 2])
    photos = draw("test", arguments.data)
    different = different_places(photos)
    others = [pair for pair in different if not of_first_images(pair)]
    drawn = [others[index] for index in rng.permutation(len(others))[: arguments.different]]
    pairs = [*same_place(photos, arguments.data), *filter(of_first_images, different), *drawn]
    matched = matched_pairs(pairs, arguments.data, arguments.cache, arguments.ways, rng, (default_way,))
    rows: dict[str, list[Row]] = {"default": [], "other ways": [], "other ways, positions alone": []}
    for pair in matched:
        if pair.way == default_way:
            rows["default"].append(outcome(pair))
        else:
            rows["other ways"].append(outcome(pair))
            bare_pair = dataclasses.replace(pair, a=bare(pair.a), b=bare(pair.b))
            rows["other ways, positions alone"].append(outcome(bare_pair))
    result = provenance.record(
        "verdict",
        settings={
            "ways": arguments.ways,
            "default_way": list(default_way),
            "shared_points": SHARED,
            "pixels": PIXELS,
            "right_share": RIGHT_SHARE,
            "scenes": [scene.folder for scene in TEST],
            "fitted": {"file": FITTED.name, "sha256": provenance.sha256_of_file(FITTED)},
        },
        model={"name": "several", "sha256": ""},
        data={"path": str(arguments.data)},
        seed=SEED,
        scores={way: scores(here) for way, here in rows.items()},
        started=started,
    )
    files.write_json(arguments.out, result.to_json())


def of_first_images(pair: Pair) -> bool:
    return all(photo.scene.folder.startswith("oxford/") and photo.name == "img1.png" for photo in pair[:2])


def outcome(pair: MatchedPair) -> Row:
    """What is found without a verdict, and what ``verify`` says and returns."""
    estimates = {kind: estimate_geometry(pair.a, pair.b, pair.matches, kind) for kind in GEOMETRIES}
    alone = {
        kind: {
            "right": pair.is_right(found),
            "returned": exceeds_chance(judge(weigh(pair.a, pair.b, found, THRESHOLD[kind]))),
        }
        for kind, found in estimates.items()
    }
    verified = verify(pair.a, pair.b, pair.matches)
    assert verified.verdict is not None
    first, second = pair.photos
    return {
        "group": _group(pair),
        "pair": f"{first.scene.folder}/{first.name} {second.scene.folder}/{second.name}",
        "way": pair.way,
        "same": pair.same,
        "estimated": any(found.model is not None for found in estimates.values()),
        "recovered": any(found["right"] for found in alone.values()),
        "alone": alone,
        "answer": verified.verdict.answer,
        "probability": verified.verdict.probability,
        "returned": verified.model is not None,
        "right": pair.is_right(verified),
        "geometry": verified.geometry if verified.model is not None else None,
        "inliers": verified.num_inliers,
    }


def _group(pair: MatchedPair) -> str:
    first, second = pair.photos
    if not pair.same:
        return "Oxford's first images" if of_first_images((first, second, None)) else "photos of different sets"
    if first.scene.folder.startswith("oxford/"):
        return "Oxford 1-k" if "img1.png" in (first.name, second.name) else "Oxford, other pairs"
    return first.scene.folder


def scores(rows: list[Row]) -> dict[str, Any]:
    same, different = [row for row in rows if row["same"]], [row for row in rows if not row["same"]]
    return {
        "different": _by_group(different, _different),
        "same": _by_group(same, _same),
        "by_geometry": {kind: _alone(same, different, kind) for kind in GEOMETRIES},
        "by_probability": _by_probability([row for row in rows if row["right"] or not row["same"]]),
        "false_models": [
            {key: row[key] for key in ("pair", "way", "answer", "probability", "geometry", "inliers")}
            for row in different
            if row["returned"]
        ],
    }


def _by_group(rows: list[Row], count: Callable[[list[Row]], dict[str, Any]]) -> dict[str, Any]:
    groups = {
        group: [row for row in rows if row["group"] == group] for group in dict.fromkeys(r["group"] for r in rows)
    }
    return {group: count(members) for group, members in {**groups, "all": rows}.items()}


def _different(rows: list[Row]) -> dict[str, Any]:
    returned = sum(row["returned"] for row in rows)
    return {
        "pairs": len(rows),
        "models_without_verdict": sum(row["estimated"] for row in rows),
        "false_models": returned,
        "false_share": round(returned / max(len(rows), 1), 4),
        "said_same": sum(row["answer"] == "same" for row in rows),
    }


def _same(rows: list[Row]) -> dict[str, Any]:
    recovered = [row for row in rows if row["recovered"]]
    kept = sum(row["returned"] for row in recovered)
    return {
        "pairs": len(rows),
        "recovered": len(recovered),
        "kept": kept,
        "kept_share": round(kept / max(len(recovered), 1), 4),
        "kept_right": sum(row["right"] for row in recovered),
        "returned": sum(row["returned"] for row in rows),
        "right": sum(row["right"] for row in rows),
        "said_same": sum(row["answer"] == "same" for row in rows),
        "homographies": sum(row["geometry"] == "homography" for row in rows),
        "fundamental_matrices": sum(row["geometry"] == "fundamental" for row in rows),
    }


def _alone(same: list[Row], different: list[Row], kind: str) -> dict[str, Any]:
    right = [row["alone"][kind] for row in same if row["alone"][kind]["right"]]
    kept = sum(found["returned"] for found in right)
    return {
        "different": len(different),
        "false_models": sum(row["alone"][kind]["returned"] for row in different),
        "right": len(right),
        "kept": kept,
        "kept_share": round(kept / max(len(right), 1), 4),
    }


def _by_probability(rows: list[Row]) -> list[dict[str, Any]]:
    table = []
    for tenth in range(10):
        here = [row for row in rows if min(int(10 * row["probability"]), 9) == tenth]
        table.append({"from": tenth / 10, "pairs": len(here), "same": sum(row["same"] for row in here)})
    return table


if __name__ == "__main__":
    main()
