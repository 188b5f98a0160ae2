"""Estimate the cost of a million images with a thousand descriptors each, from what growth measured.

    python -m perf.scale.cost --growth results/scale/growth-1000-keypoints.json --out results/scale/cost.json

Describing, pooling and matching are CPU seconds of an image or a pair at the largest size of that file, multiplied: the work on
one image or pair does not depend on how many others there are. What is not measured is in ASSUMED. COLMAP is left out.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from patchprint.common import provenance
from patchprint.common.files import write_json
from patchprint.ops.pooling import EXACT
from patchprint.storage.shards import images_per_shard

PHOTOS = (10_000, 100_000, 1_000_000)
ASSUMED = {
    "dollars_per_core_hour": 0.04,
    "network_bytes_per_second_of_the_writer": 1.25e9,  # 10 Gbit/s
    "products_per_second_of_a_core": 2e10,  # float32, of the index of vectors
    "numbers_of_a_photo_vector": 512,
    "vectors_compared_with_each_by_an_index": 8192,  # 32 lists of 256
    "share_of_time_that_workers_work": 0.9,
    "cores": 1000,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--growth", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    growth = json.loads(arguments.growth.read_text(encoding="utf-8"))
    unit = unit_costs(growth["scores"])
    scores = {
        "measured": unit,
        "photos": {str(number): cost(number, unit, growth["settings"]["neighbors"]) for number in PHOTOS},
    }
    result = provenance.record(
        "cost of many photos, on paper",
        settings={"assumed": ASSUMED, **growth["settings"]},
        data={"growth": str(arguments.growth)},
        scores=scores,
    )
    write_json(arguments.out, result.to_json())
    print(json.dumps(scores, indent=2))


def unit_costs(scores: dict[str, Any]) -> dict[str, float]:
    """Of one image and one pair, at the largest size; matching by retrieval has the pooling of each image in it."""
    described = max((each["describe, shards"] for each in scores.values()), key=lambda row: row["photos"])
    alike = max((each["match, retrieval"] for each in scores.values()), key=lambda row: row["photos"])
    whole = max(
        (each["match, all pairs"] for each in scores.values() if "match, all pairs" in each),
        key=lambda row: row["pairs"],
    )
    pair = whole["cpu_seconds"] / whole["pairs"]
    return {
        "photos": described["photos"],
        "keypoints_per_photo": round(described["keypoints"] / described["photos"], 1),
        "describe_cpu_seconds_per_photo": round(described["cpu_seconds"] / described["photos"], 4),
        "match_cpu_seconds_per_pair": round(pair, 6),
        "pool_cpu_seconds_per_photo": round(
            max(0.0, alike["cpu_seconds"] - pair * alike["pairs"]) / alike["photos"], 4
        ),
        "pairs_per_photo": round(alike["pairs"] / alike["photos"], 2),
        "mib_per_photo": round(described["mib"] / described["photos"], 4),
        "mib_per_pair": round(alike["mib"] / alike["pairs"], 6),
    }


def cost(photos: int, unit: dict[str, float], neighbors: int) -> dict[str, Any]:
    """Core hours, files and gigabytes of a collection."""
    pairs = {"retrieval": photos * min(unit["pairs_per_photo"], neighbors), "all": photos * (photos - 1) / 2}
    compared = photos if photos <= EXACT else ASSUMED["vectors_compared_with_each_by_an_index"]
    index = photos * compared * ASSUMED["numbers_of_a_photo_vector"] / ASSUMED["products_per_second_of_a_core"]
    seconds = {
        "describe": photos * unit["describe_cpu_seconds_per_photo"],
        "pool": photos * unit["pool_cpu_seconds_per_photo"],
        "index": index,
        "match_retrieval": pairs["retrieval"] * unit["match_cpu_seconds_per_pair"],
        "match_all": pairs["all"] * unit["match_cpu_seconds_per_pair"],
    }
    total = sum(value for name, value in seconds.items() if name != "match_all")
    features = photos * unit["mib_per_photo"] * 2**20
    spread = ASSUMED["cores"] * ASSUMED["share_of_time_that_workers_work"]
    serial = seconds["pool"] + seconds["index"]  # in the process that was started
    written = features / ASSUMED["network_bytes_per_second_of_the_writer"]
    return {
        "prints": round(photos * unit["keypoints_per_photo"]),
        "core_hours": {name: round(value / 3600, 2) for name, value in seconds.items()},
        "dollars": round(total / 3600 * ASSUMED["dollars_per_core_hour"], 2),
        "dollars_all_pairs": round(
            (total - seconds["match_retrieval"] + seconds["match_all"]) / 3600 * ASSUMED["dollars_per_core_hour"]
        ),
        "features_gb": round(features / 1e9, 1),
        "matches_gb": round(pairs["retrieval"] * unit["mib_per_pair"] * 2**20 / 1e9, 1),
        "feature_files": -(-photos // images_per_shard(photos)) + 1,
        "hours_on_all_cores": round((max((total - serial) / spread, written) + serial) / 3600, 2),
        "hours_on_one_core": round(total / 3600, 1),
    }


if __name__ == "__main__":
    main()
