"""Time to cut the patches of one training batch (1024 pairs of 32x32) out of photos.

    python -m perf.speed.sampling --data data/castle --out results/speed/sampling-cpu.json     (two cores; kornia beside it)
    python -m perf.speed.sampling --data data/castle --out results/speed/sampling-h200.json    (a GPU; only the device)

On a CPU kornia's ``extract_patches_from_pyramid`` cuts the same patches in the same run. It builds the pyramid of a photo at
every call, so our time is given with resident pyramids (as in training) and with building those of the same photos.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from patchprint import files, provenance
from patchprint.patches import augment, open_source
from patchprint.patches.batches import PairBatcher
from patchprint.patches.image_bank import ResidentImages
from patchprint.patches.sampler import ImagePyramids
from patchprint.patches.tracks import TrackStore


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--pairs", type=int, default=1024)
    parser.add_argument("--size", type=int, default=32)
    parser.add_argument("--repeats", type=int, default=30)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    started = time.monotonic()
    torch.set_num_threads(options.threads)
    store = open_source(options.data, options.device)
    assert isinstance(store, TrackStore)
    scores = measure_cuda(store, options) if store.device.type == "cuda" else measure_cpu(store, options)
    for name, value in scores.items():
        print(f"{name}: {value:.4g}")
    settings = {key: getattr(options, key) for key in ("device", "pairs", "size", "repeats", "threads")}
    data = {"path": options.data, "photos": len(store.images), "points": store.num_points}
    result = provenance.record("sampling", settings=settings, scores=scores, data=data, seed=0, started=started)
    files.write_json(options.out, result.to_json())


def measure_cuda(store: TrackStore, options: argparse.Namespace) -> dict[str, float]:
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


def measure_cpu(store: TrackStore, options: argparse.Namespace) -> dict[str, float]:
    batch = PairBatcher(store, options.pairs).batch(torch.zeros((), dtype=torch.int64))
    scores = _host_ms("sample", lambda: store.sample(batch.points, batch.views, options.size), options.repeats)
    rows = store.observation(batch.points, batch.views).reshape(-1)
    which = torch.from_numpy(store.tracks.image[rows.numpy()]).long()
    used = torch.unique(which).tolist()
    images = [store.images.pixels(number) for number in used]
    scores["photos_in_batch"] = len(used)
    rounds = max(1, options.repeats // 10)

    def build_and_sample() -> None:
        ResidentImages(ImagePyramids.build(images))
        store.sample(batch.points, batch.views, options.size)

    scores |= _host_ms("build_pyramids_and_sample", build_and_sample, rounds)
    if importlib.util.find_spec("kornia") is None:
        print("kornia is not installed; only our own time was taken")
        return scores
    import kornia.feature as KF

    lafs = _lafs(store, rows)
    batches = [torch.from_numpy(pixels)[None, None].float() / 255 for pixels in images]
    chosen = [(which == number).nonzero()[:, 0] for number in used]
    theirs = torch.empty(len(rows), 1, options.size, options.size)

    def cut_with_kornia() -> None:
        for one, index in zip(batches, chosen, strict=True):
            theirs[index] = KF.extract_patches_from_pyramid(one, lafs[index][None], options.size)[0]

    scores |= _host_ms("kornia", cut_with_kornia, rounds)
    ours = store.sample(batch.points, batch.views, options.size).reshape(theirs.shape)
    scores["mean_absolute_difference"] = float((ours - theirs).abs().mean())
    return scores


def _lafs(store: TrackStore, rows: Tensor) -> Tensor:
    """kornia's frames (N, 2, 3) of observations: half the side of the patch, then the centre."""
    tracks, index = store.tracks, rows.numpy()
    half = torch.from_numpy(tracks.scale[index]) * (store.patch_scale / 2)
    angle = torch.from_numpy(tracks.angle[index])
    cosine, sine = half * torch.cos(angle), half * torch.sin(angle)
    linear = torch.stack([torch.stack([cosine, -sine], -1), torch.stack([sine, cosine], -1)], -2)
    return torch.cat([linear, torch.from_numpy(tracks.xy[index])[:, :, None]], -1)


def _host_ms(name: str, function: Callable[[], Any], repeats: int) -> dict[str, float]:
    """Median wall time of one call, and the processor time of all its threads, which other work inflates less."""
    function()
    wall, processor = [], []
    for _ in range(repeats):
        begin, begin_processor = time.perf_counter(), time.process_time()
        function()
        wall.append((time.perf_counter() - begin) * 1e3)
        processor.append((time.process_time() - begin_processor) * 1e3)
    return {f"{name}_ms": statistics.median(wall), f"{name}_processor_ms": statistics.median(processor)}


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
