"""How fast prints are matched: our bits and vectors against FAISS and OpenCV, on this machine's CPU.

python -m perf.speed.matching --out results/speed/matching.json
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

# Threads that wait must sleep: spinning ones take the cores from each other's library (and from other programs).
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import cv2
import faiss
import torch
import torch.nn.functional as F

from patchprint import provenance
from patchprint.features.matching import match
from patchprint.files import write_json
from patchprint.types import Features, Keypoints, ModelId


def measure(count: int, repeats: int, threads: int, seed: int) -> dict[str, Any]:
    """Best milliseconds of each way to find the mutual nearest neighbours of ``count`` prints in ``count`` others."""
    torch.set_num_threads(threads)
    faiss.omp_set_num_threads(threads)
    cv2.setNumThreads(threads)
    generator = torch.Generator().manual_seed(seed)
    vectors = [F.normalize(torch.randn(count, 128, generator=generator)) for _ in range(2)]
    bits = [torch.randint(0, 256, (count, 32), dtype=torch.uint8, generator=generator) for _ in range(2)]
    ways: dict[str, Callable[[], Any]] = {
        "patchprint, 256 bits": lambda: match(_features(bits[0]), _features(bits[1]), "mutual"),
        "patchprint, 128 floats": lambda: match(_features(vectors[0]), _features(vectors[1]), "mutual"),
        "FAISS, 128 floats": lambda: match(_features(vectors[0]), _features(vectors[1]), "mutual", backend="faiss"),
        "OpenCV, 128 floats": lambda: _opencv(cv2.NORM_L2, vectors),
        "OpenCV, 256 bits": lambda: _opencv(cv2.NORM_HAMMING, bits),
    }
    best = dict.fromkeys(ways, float("inf"))
    for repeat in range(repeats + 1):  # in turns, so that a busy moment does not fall on one of them alone
        for name, run in ways.items():
            started = time.perf_counter()
            run()
            if repeat:  # the first is for warming up
                best[name] = min(best[name], (time.perf_counter() - started) * 1000)
        print(f"{threads} threads, round {repeat} of {repeats}", flush=True)
    ours = best["patchprint, 256 bits"]
    return {
        "milliseconds": {name: round(value, 2) for name, value in best.items()},
        "bits_faster_than_faiss_float": round(best["FAISS, 128 floats"] / ours, 2),
        "bits_faster_than_opencv_float": round(best["OpenCV, 128 floats"] / ours, 2),
    }


def _features(descriptors: torch.Tensor) -> Features:
    keypoints = Keypoints(torch.zeros(len(descriptors), 2), torch.ones(len(descriptors)), torch.zeros(len(descriptors)))
    return Features(keypoints, descriptors, (1, 1), None, ModelId("random"))


def _opencv(norm: int, descriptors: list[torch.Tensor]) -> Any:
    return cv2.BFMatcher(norm, crossCheck=True).match(descriptors[0].numpy(), descriptors[1].numpy())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--count", type=int, default=4096)
    parser.add_argument("--repeats", type=int, default=8)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    scores = {
        f"{threads} threads": measure(arguments.count, arguments.repeats, threads, arguments.seed)
        for threads in arguments.threads
    }
    result = provenance.record(
        "matching speed",
        settings={
            "OMP_WAIT_POLICY": os.environ["OMP_WAIT_POLICY"],
            "prints": arguments.count,
            "rule": "mutual nearest neighbours",
            "repeats": arguments.repeats,
        },
        model={"name": "random prints"},
        data={},
        seed=arguments.seed,
        scores={**scores, "bytes_per_print": {"256 bits": 32, "128 floats": 512}},
    )
    write_json(arguments.out, result.to_json())
    print(scores)


if __name__ == "__main__":
    main()
