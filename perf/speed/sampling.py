"""Time the sampling of the patches of one training batch (1024 pairs of 32x32) on a GPU, eager and as a CUDA graph.

python -m perf.speed.sampling --data data/castle --out results/speed/sampling-h200.json

Cutting patches in use, beside kornia and OpenCV, is a stage of ``perf.speed.contest``.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from patchprint.common import files, provenance
from patchprint.common.devices import choose_device
from patchprint.data import augment, open_source
from patchprint.data.batches import PairBatcher
from patchprint.data.tracks import TrackStore


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--pairs", type=int, default=1024)
    parser.add_argument("--size", type=int, default=32)
    parser.add_argument("--repeats", type=int, default=30)
    options = parser.parse_args()
    started = time.monotonic()
    store = open_source(options.data, choose_device("cuda"))
    assert isinstance(store, TrackStore)
    scores = measure(store, options)
    for name, value in scores.items():
        print(f"{name}: {value:.4g}")
    settings = {key: getattr(options, key) for key in ("pairs", "size", "repeats")}
    data = {"path": options.data, "photos": len(store.images), "points": store.num_points}
    result = provenance.record("sampling", settings=settings, scores=scores, data=data, seed=0, started=started)
    files.write_json(options.out, result.to_json())


def measure(store: TrackStore, options: argparse.Namespace) -> dict[str, float]:
    batcher, strong = PairBatcher(store, options.pairs), augment.create("strong")
    step = torch.zeros((), dtype=torch.int64, device=store.device)
    batch = batcher.batch(step)
    extent = torch.ones(options.pairs, 2, 2, device=step.device)
    warp = strong.warp(step, extent)

    def whole() -> Tensor:
        fresh = batcher.batch(step)
        views = store.sample(
            fresh.points,
            fresh.views,
            options.size,
            strong.warp(step, extent),
        )
        step.add_(1)
        return strong.light(step, views)

    work: dict[str, Callable[[], Any]] = {
        "sample": lambda: store.sample(batch.points, batch.views, options.size),
        "sample_warped": lambda: store.sample(batch.points, batch.views, options.size, warp),
        "batch_sample_augment": whole,
    }
    scores = {}
    for name, function in work.items():
        scores[f"{name}_eager_ms"] = _device_ms(function, options.repeats)
        compiled = torch.compile(function, fullgraph=True)
        scores[f"{name}_compiled_graph_ms"] = _device_ms(_as_graph(compiled), options.repeats)
        print(name, "done", flush=True)
    return scores


def _device_ms(function: Callable[[], Any], repeats: int) -> float:
    """Median device time of one call, by events around ten calls."""
    for _ in range(3):
        function()
    times = []
    for _ in range(repeats):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(10):
            function()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) / 10)
    return statistics.median(times)


def _as_graph(function: Callable[[], Any]) -> Callable[[], None]:
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            function()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        function()
    return graph.replay


if __name__ == "__main__":
    main()
