"""Which overlapping pairs of photos retrieval finds, and what a 3D model loses where only its pairs are matched.

    python -m perf.scale.retrieval --photos ../shared/data/photos --work runs/retrieval --out results/scale/retrieval.json

A pair overlaps where, of its matches in exhaustive matching, COLMAP's verification keeps at least so many. Recall is the share
of these pairs that are among the pairs of each photo with the photos that look most like it. The last set is all photos
together: those of the other sets can only mislead. The reconstruction is that of ``patchprint sfm``: the same functions.
"""

from __future__ import annotations

import argparse
import contextlib
import sqlite3
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from patchprint import provenance
from patchprint.features import colmap_files
from patchprint.features.folder import DescribeSettings, describe_folder
from patchprint.features.pair_lists import Pair, choose_pairs, match_pairs
from patchprint.features.storage import FeatureFolder
from patchprint.files import write_json
from patchprint.interop import colmap_sfm
from patchprint.pipelines.sfm import FEWEST_MATCHES
from patchprint.types import Features, Matches

SETS = {"notredame": "notredame/images", "liberty": "liberty/images", "oxford-landmarks": "oxford-landmarks"}
RECONSTRUCTED = "notredame"
NEIGHBORS = (20, 50, 100)
INLIERS = (15, 30)  # of a pair that overlaps; the first is COLMAP's own limit
SETTINGS = DescribeSettings(detector="colmap", max_keypoints=2048)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--photos", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True, help="features and models; described photos are kept")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--neighbors", type=int, default=20, help="of the reconstruction")
    arguments = parser.parse_args()
    started = time.monotonic()
    scores: dict[str, Any] = {}
    everything: dict[str, Features] = {}
    overlapping: dict[int, set[Pair]] = {inliers: set() for inliers in INLIERS}
    for name in arguments.sets:
        photos, work = arguments.photos / SETS[name], arguments.work / name
        features = describe_folder(photos, work / "features", SETTINGS)
        seconds, matches = matched(features, choose_pairs(features, "exhaustive"))
        database = work / "exhaustive.db"
        colmap_files.write_database(database, features, matches)
        counts = verified_counts(database)
        truth = {inliers: {pair for pair, count in counts.items() if count >= inliers} for inliers in INLIERS}
        scores[name] = recalls(features, truth) | {"matching_seconds": round(seconds, 1)}
        everything |= {f"{name}/{photo}": item for photo, item in features.items()}
        for inliers, pairs in truth.items():
            overlapping[inliers] |= {(f"{name}/{a}", f"{name}/{b}") for a, b in pairs}
        if name == RECONSTRUCTED:
            model = reconstructed(photos, features, matches, work / "exhaustive")
            scores["reconstruction"] = compare(photos, features, model, seconds, arguments.neighbors, work)
            print("reconstruction", scores["reconstruction"], flush=True)
        print(name, scores[name], flush=True)
    if len(arguments.sets) > 1:
        scores["all together"] = recalls(everything, overlapping)
    result = provenance.record(
        "retrieval",
        settings={"describe": SETTINGS.__dict__, "inliers_of_an_overlap": INLIERS, "sets": arguments.sets},
        data={name: {"path": str(arguments.photos / SETS[name])} for name in arguments.sets},
        scores=scores,
        seed=0,
        started=started,
    )
    write_json(arguments.out, result.to_json())


def recalls(features: Mapping[str, Features], truth: dict[int, set[Pair]]) -> dict[str, Any]:
    """Of each number of neighbors: the pairs that are matched, and the share of overlapping ones among them."""
    number = len(features)
    rows = {}
    for neighbors in NEIGHBORS:
        started = time.monotonic()
        pairs = {tuple(sorted(pair)) for pair in choose_pairs(features, "retrieval", neighbors)}
        row: dict[str, Any] = {
            "pairs": len(pairs),
            "share_of_all_pairs": round(2 * len(pairs) / number / (number - 1), 4),
        }
        row["seconds"] = round(time.monotonic() - started, 1)
        for inliers, wanted in truth.items():
            row[f"recall_of_{inliers}_inliers"] = round(len(wanted & pairs) / max(1, len(wanted)), 4)
        rows[str(neighbors)] = row
    overlap = {f"overlapping_pairs_{inliers}_inliers": len(pairs) for inliers, pairs in truth.items()}
    return {"photos": number, "all_pairs": number * (number - 1) // 2, **overlap, "neighbors": rows}


def compare(
    photos: Path, features: FeatureFolder, exhaustive: Any, seconds: float, neighbors: int, work: Path
) -> dict[str, Any]:
    """The model of exhaustive matching beside that of retrieval; the time of retrieval has the choice of pairs in it."""
    started = time.monotonic()
    pairs = choose_pairs(features, "retrieval", neighbors)
    choosing = time.monotonic() - started
    matching, matches = matched(features, pairs)
    model = reconstructed(photos, features, matches, work / "retrieval")
    registered = {
        name: {each.name for each in found.images.values() if each.has_pose}
        for name, found in (("exhaustive", exhaustive), ("retrieval", model))
    }
    number = len(features)
    return {
        "set": RECONSTRUCTED,
        "neighbors": neighbors,
        "exhaustive": colmap_sfm.summarize(exhaustive, number)
        | {"pairs": number * (number - 1) // 2, "matching_seconds": round(seconds, 1)},
        "retrieval": colmap_sfm.summarize(model, number)
        | {
            "pairs": len(pairs),
            "choosing_seconds": round(choosing, 1),
            "matching_seconds": round(matching + choosing, 1),
        },
        "share_of_registered": round(
            len(registered["retrieval"] & registered["exhaustive"]) / len(registered["exhaustive"]), 4
        ),
        "share_of_matching_time": round((matching + choosing) / seconds, 4),
    }


def matched(features: FeatureFolder, pairs: list[Pair]) -> tuple[float, dict[Pair, Matches]]:
    """As ``patchprint sfm`` matches; seconds first."""
    started = time.monotonic()
    found = match_pairs(features, pairs, "mutual", fewest=FEWEST_MATCHES)
    return time.monotonic() - started, found


def reconstructed(photos: Path, features: FeatureFolder, matches: dict[Pair, Matches], work: Path) -> Any:
    keypoints = {name: item.keypoints for name, item in features.items()}
    indices = {pair: found.indices.numpy() for pair, found in matches.items()}
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
