"""Measure the cost of ``eval ubc`` beyond the network: scoring 100,000 pairs against describing their patches alone.

    python -m perf.speed.ubc_speed --out results/speed/ubc-speed-cpu-hynet.json
    python -m perf.speed.ubc_speed --out results/speed/ubc-speed-cpu-tfeat.json --network tfeat

The patches are noise in a store of 64x64 pixels, as in the UBC sets; the time does not depend on what they show. Machines that
others use are faster and slower by a quarter from one minute to the next, so the overhead is taken within each run of the
benchmark: all its time, against the part of it that it waited for the network. The network alone, given all patches at once,
runs before each, to show that the benchmark does not slow the network down. Medians count.
"""

from __future__ import annotations

import argparse
import dataclasses
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np
import torch

from patchprint import networks
from patchprint.benchmarks import BENCHMARKS, Run, ubc
from patchprint.benchmarks._stores import open_patches
from patchprint.common import files, provenance
from patchprint.data import PatchStore
from patchprint.data.patch_pairs import draw_pairs
from patchprint.features.model import NetworkModel


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--pairs", type=int, default=100_000)
    parser.add_argument("--network", default="hynet")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    started = time.monotonic()
    model = TimedModel(networks.create(options.network).eval().to(options.device))
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "store"
        write_noise(store, points=options.pairs, views=2)
        benchmark, settings = BENCHMARKS["ubc"](), ubc.Settings(pairs=options.pairs)
        run = Run(benchmark, settings, model, (store,), device=options.device)
        patches = distinct_patches(run, settings)
        model.describe_patches(patches[:4096])
        alone, inside, whole = [], [], []
        for _ in range(options.repeats):
            alone.append(timed(lambda: model.describe_patches(patches)))
            model.seconds = 0.0
            # A fresh run, so that the checksum of the data counts each time.
            whole.append(timed(lambda: benchmark.evaluate(dataclasses.replace(run), settings)))
            inside.append(model.seconds)
            print(
                f"network alone {alone[-1]:.2f} s; benchmark {whole[-1]:.2f} s, network {inside[-1]:.2f} s of it",
                flush=True,
            )
    scores = {
        "patches": len(patches),
        "network_alone_seconds": alone,
        "whole_seconds": whole,
        "network_inside_seconds": inside,
        "overhead_percent": 100 * (median(w / n for w, n in zip(whole, inside, strict=True)) - 1),
        "inside_over_alone": median(inside) / median(alone),
    }
    chosen = {name: getattr(options, name) for name in ("pairs", "network", "device", "repeats")}
    result = provenance.record(
        "ubc-speed", settings=chosen, scores=scores, model={"name": options.network}, seed=0, started=started
    )
    files.write_json(options.out, result.to_json())
    print(f"overhead {scores['overhead_percent']:.1f} %")


class TimedModel(NetworkModel):
    """Adds up how long its network takes."""

    seconds = 0.0

    def describe_patches(self, patches: torch.Tensor) -> torch.Tensor:
        started = time.perf_counter()
        descriptors = super().describe_patches(patches)
        self.seconds += time.perf_counter() - started
        return descriptors


def distinct_patches(run: Run, settings: ubc.Settings) -> torch.Tensor:
    """The patches that the benchmark will describe, at the network's size, (U, 1, S, S)."""
    source = open_patches(run, "all")
    pairs = draw_pairs(source, settings.pairs, run.seed)
    size = run.model.input_size
    parts = [
        source.sample(points.to(source.device), views[:, None].to(source.device), size)[:, 0]
        for points, views in zip(pairs.points.split(4096), pairs.views.split(4096), strict=True)
    ]
    return torch.cat(parts)


def write_noise(folder: Path, points: int, views: int) -> None:
    rng = np.random.default_rng(0)
    point = np.repeat(np.arange(points), views)
    blocks = (rng.integers(0, 256, (min(4096, len(point) - i), 64, 64), np.uint8) for i in range(0, len(point), 4096))
    PatchStore.write(folder, blocks, point, np.zeros(len(point), int), ["noise"], patch_scale=12.0)


def timed(function: Callable[[], object]) -> float:
    started = time.perf_counter()
    function()
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
