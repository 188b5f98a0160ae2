"""Measure which overlapping pairs image retrieval finds, and what a 3D model loses if only these are matched.

    python -m perf.scale.retrieval --images ../shared/data/photos --work runs/retrieval --out results/scale/retrieval.json

A pair overlaps where, of its matches in exhaustive matching, COLMAP's verification keeps at least so many. Recall is the share
of these pairs that are among the pairs of each image with the images that look most like it. The last set is all images
together: those of the other sets can only mislead. One set is reconstructed too, by the functions of ``patchprint sfm
--ratio``.

What is in ``--work`` is not made again: a run that was stopped goes on. Seconds of matching are those of the CPU, so that they
do not depend on what else the machine does.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sqlite3
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from patchprint.common import provenance
from patchprint.common.files import write_json
from patchprint.common.types import Features
from patchprint.features.extract import DescribeSettings
from patchprint.interop import colmap_sfm
from patchprint.matching.pair_selection import MatchRule, Pair, choose_pairs
from patchprint.pipelines.structure_from_motion import FEWEST_MATCHES
from patchprint.storage import colmap_output
from patchprint.storage.colmap_output import View
from patchprint.storage.feature_files import VECTORS, FeatureFolder
from patchprint.storage.feature_folder import describe_folder
from patchprint.storage.match_folder import MatchFolder, match_folder

NEIGHBORS = (20, 50, 100)
INLIERS = (15, 30)  # of a pair that overlaps; the first is COLMAP's own limit


SETS = {"liberty": "liberty/images", "notredame": "notredame/images", "oxford-landmarks": "oxford-landmarks"}
RECONSTRUCTED = "notredame"
SETTINGS = DescribeSettings(max_keypoints=1024)
RULE = MatchRule("mutual+ratio", fewest=FEWEST_MATCHES)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True, help="features, matches and models, which are kept")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--neighbors", type=int, default=20, help="of the reconstruction")
    arguments = parser.parse_args()
    started = time.monotonic()
    scores: dict[str, Any] = {}
    everything: dict[str, Features] = {}
    overlapping: dict[int, set[Pair]] = {inliers: set() for inliers in INLIERS}
    for name in arguments.sets:
        photos, work = arguments.images / SETS[name], arguments.work / name
        features = describe_folder(photos, work / "features", SETTINGS)
        seconds, matches = matched(features, choose_pairs(features, "exhaustive"), work / "all")
        if name == RECONSTRUCTED:
            model = reconstructed(photos, features, matches, work / "exhaustive")
            scores["reconstruction"] = {"set": name} | compare(
                photos, features, model, seconds, arguments.neighbors, work
            )
            print("reconstruction", scores["reconstruction"], flush=True)
            database = work / "exhaustive" / "database.db"
        else:
            database = work / "verified.db"
            if not database.is_file():
                colmap_output.write_database(database, features, matches)
        counts = verified_counts(database)
        truth = {inliers: {pair for pair, count in counts.items() if count >= inliers} for inliers in INLIERS}
        scores[name] = recalls(features, truth) | {"exhaustive_matching_seconds": round(seconds, 1)}
        print(name, scores[name], flush=True)
        everything |= {f"{name}/{photo}": item for photo, item in features.items()}
        for inliers, pairs in truth.items():
            overlapping[inliers] |= {(f"{name}/{a}", f"{name}/{b}") for a, b in pairs}
        if len(overlapping[INLIERS[0]]) > len(truth[INLIERS[0]]):
            scores["all together"] = recalls(everything, overlapping)
        result = provenance.record(
            "retrieval",
            settings={"describe": asdict(SETTINGS), "match": asdict(RULE), "inliers_of_an_overlap": INLIERS},
            data={each: {"path": str(arguments.images / SETS[each])} for each in SETS if each in scores},
            scores=scores,
            seed=0,
            started=started,
        )
        write_json(arguments.out, result.to_json())  # after each set, since all of them take an hour


def recalls(features: Mapping[str, Features], truth: dict[int, set[Pair]]) -> dict[str, Any]:
    """Of each number of neighbors: the pairs that are matched, and the share of overlapping ones among them."""
    number = len(features)
    rows = {}
    for neighbors in NEIGHBORS:
        pairs = {(min(pair), max(pair)) for pair in choose_pairs(features, "retrieval", neighbors)}
        row: dict[str, Any] = {
            "pairs": len(pairs),
            "share_of_all_pairs": round(2 * len(pairs) / number / (number - 1), 4),
        }
        for inliers, wanted in truth.items():
            row[f"recall_of_{inliers}_inliers"] = round(len(wanted & pairs) / max(1, len(wanted)), 4)
        rows[str(neighbors)] = row
    overlap = {f"overlapping_pairs_{inliers}_inliers": len(pairs) for inliers, pairs in truth.items()}
    return {"photos": number, "all_pairs": number * (number - 1) // 2, **overlap, "neighbors": rows}


def compare(
    photos: Path, features: FeatureFolder, exhaustive: Any, seconds: float, neighbors: int, work: Path
) -> dict[str, Any]:
    """The model of exhaustive matching beside that of retrieval, whose time has the choice of pairs in it."""
    (features.folder / VECTORS).unlink(missing_ok=True)  # they are part of what is timed
    started = time.process_time()
    pairs = choose_pairs(features, "retrieval", neighbors)
    choosing = time.process_time() - started
    matching, matches = matched(features, pairs, work / "alike")
    model = reconstructed(photos, features, matches, work / "retrieval")
    names = [{image.name for image in each.images.values() if image.has_pose} for each in (exhaustive, model)]
    number = len(features)
    return {
        "neighbors": neighbors,
        "exhaustive": colmap_sfm.summarize(exhaustive, number)
        | {"pairs": number * (number - 1) // 2, "matching_seconds": round(seconds, 1)},
        "retrieval": colmap_sfm.summarize(model, number)
        | {"pairs": len(pairs), "choosing_seconds": round(choosing, 1), "matching_seconds": round(matching, 1)},
        "share_of_registered": round(len(names[0] & names[1]) / len(names[0]), 4),
        "share_of_matching_time": round((matching + choosing) / seconds, 4),
    }


def matched(features: FeatureFolder, pairs: list[Pair], out: Path) -> tuple[float, MatchFolder]:
    """CPU seconds and matches; where they are there already, the seconds of the run that made them."""
    kept = out.with_suffix(".json")
    if not kept.is_file():
        started = time.process_time()
        match_folder(features, pairs, out, RULE, force=out.exists())
        write_json(kept, time.process_time() - started)
    return json.loads(kept.read_text()), match_folder(features, pairs, out, RULE)


def reconstructed(photos: Path, features: FeatureFolder, matches: MatchFolder, work: Path) -> Any:
    keypoints = View(features, lambda item: item.keypoints)
    indices = View(matches, lambda found: found.indices.numpy())
    return colmap_sfm.reconstruct(photos, keypoints, indices, work)


def verified_counts(database: Path) -> dict[Pair, int]:
    """Inliers by pair of names, the smaller name first, as COLMAP's verification left them in a database."""
    query = (
        "SELECT a.name, b.name, rows FROM two_view_geometries, images a, images b WHERE rows > 0 "
        "AND a.image_id = pair_id / 2147483647 AND b.image_id = pair_id % 2147483647"
    )
    with contextlib.closing(sqlite3.connect(f"{database.resolve().as_uri()}?mode=ro", uri=True)) as connection:
        rows = connection.execute(query).fetchall()
    return {(min(first, second), max(first, second)): count for first, second, count in rows}


if __name__ == "__main__":
    main()
