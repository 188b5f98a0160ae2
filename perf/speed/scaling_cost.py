"""Estimate the cost of training on many GPUs: from the measured step to 64 GPUs and 10^9 patches.

    python -m perf.speed.scaling_cost --speed results/speed/training-speed.json --out results/speed/scaling.json

Measured: the step of one GPU. Assumed, and recorded in the result: bandwidth and latency of the network between GPUs, rate
of float32 matrix products, memory bandwidth, price of a GPU hour.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

from patchprint import networks
from patchprint.common import files, provenance

ASSUMED = {
    "network_bytes_per_second": 40e9,  # of 400 Gbit/s a GPU, what collectives reach
    "collective_latency_seconds": 30e-6,
    "float32_products_per_second": 50e12,
    "memory_bytes_per_second": 4e12,
    "passes_over_the_distance_matrix": 12,
    "dollars_per_gpu_hour": 3.0,
    "patches": 1e9,
    "photo_bytes": 1024 * 768 * 4 / 3,
    "patches_per_photo": 1000,
    "bytes_per_observation": 24,
}
DIMENSION, VIEWS, PIXELS = 128, 2, 32 * 32


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--speed", type=Path, default=Path("results/speed/training-speed.json"))
    parser.add_argument("--out", type=Path, default=Path("results/speed/scaling.json"))
    arguments = parser.parse_args()
    started = time.monotonic()
    speed = json.loads(arguments.speed.read_text())
    step = speed["scores"]["variants"]["sdgmnet"]["milliseconds"] / 1e3
    pairs = speed["settings"]["pairs"]
    parameters = sum(value.numel() for value in networks.create("sdgmnet").parameters())
    scores: dict[str, Any] = {"step_milliseconds_one_gpu": step * 1e3, "parameters": parameters}
    ways = ((1, True), (8, True), (8, False), (64, True), (64, False))
    scores["ways"] = [cost(ranks, split, pairs, step, parameters) for ranks, split in ways]
    for way in scores["ways"]:
        print(way)
    result = provenance.record(
        "scaling-on-paper",
        settings={**ASSUMED, "pairs_per_gpu": pairs},
        model={"name": "sdgmnet", "sha256": ""},
        data={"path": str(arguments.speed)},
        scores=scores,
        started=started,
    )
    files.write_json(arguments.out, result.to_json())


def cost(ranks: int, split: bool, pairs: int, step: float, parameters: int) -> dict[str, Any]:
    """One step of every rank with ``pairs`` pairs, negatives from all ranks, images divided.

    The code has the loss ``split`` by anchors: a rank compares its own with all points. Without, each computes all of it.
    """
    everyone = ranks * pairs
    rows = pairs if split else everyone
    vectors = everyone * VIEWS * DIMENSION * 4
    received = (ranks - 1) / ranks * vectors * 2  # unit and raw vectors in float32
    summed = 2 * (ranks - 1) / ranks * vectors * split  # gradients that the rows of all ranks give the unit vectors
    patches = pairs * VIEWS
    exchanged = (ranks - 1) / ranks * patches * (PIXELS * 4 + 7 * 8)  # where to cut a patch, and the patch
    gradients = 2 * (ranks - 1) / ranks * parameters * 4
    # One batch norm in the FRN trunk: mean and variance of two views, forwards and backwards. Then two gathers of vectors,
    # three exchanges for the patches, and for a split loss a gather of negatives and a sum of gradients.
    collectives = 0 if ranks == 1 else 8 + 2 + 3 + 2 * split
    gather = (received + summed + exchanged) / ASSUMED["network_bytes_per_second"]
    latency = collectives * ASSUMED["collective_latency_seconds"]
    # Anchors and positives, each with all of both; twice more backwards. One GPU's share is in the measured step already.
    table = VIEWS * rows * VIEWS * everyone
    entries = table - (VIEWS * pairs) ** 2
    products = 3 * 2 * entries * DIMENSION / ASSUMED["float32_products_per_second"]
    traffic = ASSUMED["passes_over_the_distance_matrix"] * entries * 4 / ASSUMED["memory_bytes_per_second"]
    total = step + gather + latency + products + traffic
    hours = ASSUMED["patches"] / (ranks * patches) * total / 3600
    return {
        "gpus": ranks,
        "split": split,
        "step_milliseconds": round(total * 1e3, 2),
        "exchange_milliseconds": round(gather * 1e3, 2),
        "latency_milliseconds": round(latency * 1e3, 2),
        "mining_milliseconds": round((products + traffic) * 1e3, 2),
        "gradients_megabytes": round(gradients / 1e6, 1),
        "received_megabytes": round((received + summed + exchanged) / 1e6, 1),
        "distance_matrix_gigabytes": round(table * 4 / 1e9, 2),
        "patches_per_second": round(ranks * patches / total),
        "efficiency": round(step / total, 3),
        "minutes_for_one_pass": round(hours * 60, 1),
        "dollars_for_one_pass": round(hours * ranks * ASSUMED["dollars_per_gpu_hour"], 2),
        "photo_gigabytes_per_gpu": round(
            ASSUMED["patches"] / ASSUMED["patches_per_photo"] * ASSUMED["photo_bytes"] / ranks / 1e9, 1
        ),
        "track_gigabytes_per_gpu": round(ASSUMED["patches"] * ASSUMED["bytes_per_observation"] / 1e9, 2),
    }


if __name__ == "__main__":
    main()
