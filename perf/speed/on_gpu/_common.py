"""What the sections share: the images of the lease, times, profiles, and results that are kept one by one."""

from __future__ import annotations

import json
import math
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from patchprint.common.provenance import Result
from patchprint.common.types import Keypoints
from patchprint.ops.geometry import wrap_angle
from patchprint.pipelines.bench import BenchImages
from perf.speed.contest import open_images

Work = Callable[[], Any]
_FEWEST = 5  # calls of a measurement


class Lease:
    """The folder that was carried along; ``device`` is the GPU, or the CPU where the script is tried.

    With ``brief`` sections run once, to see that they work.
    """

    def __init__(self, folder: Path, brief: bool = False) -> None:
        self.folder = folder
        self.brief = brief
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

    @property
    def rounds(self) -> int:
        return 1 if self.brief else 5

    @property
    def bench(self) -> BenchImages:
        return open_images(self.folder / "bench.npz")

    @property
    def real(self) -> dict[str, np.ndarray]:
        with np.load(self.folder / "real.npz") as arrays:
            return {name: arrays[name] for name in arrays.files}

    def keep(self, name: str, value: Any) -> None:
        (self.folder / "results").mkdir(exist_ok=True)
        (self.folder / "results" / f"{name}.json").write_text(json.dumps(value, indent=1, default=str))

    def keep_result(self, name: str, result: Result) -> None:
        """Write a file in the format of results/speed."""
        self.keep(name, result.to_json())

    def kept(self, name: str) -> dict[str, Any]:
        path = self.folder / "results" / f"{name}.json"
        return json.loads(path.read_text()) if path.is_file() else {}


def attempt(name: str, work: Work) -> Any:
    """Return what ``work`` returns; its error is printed and the next attempt goes on."""
    began = time.perf_counter()
    try:
        found = work()
    except Exception:
        print(f"FAILED {name}\n{traceback.format_exc()}", flush=True)
        return None
    print(f"{name}: {'done' if found is None else found} ({time.perf_counter() - began:.1f} s)", flush=True)
    return found


def wait() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def milliseconds(work: Work, seconds: float = 0.25) -> tuple[float, float]:
    """Median and least milliseconds of a call with all that it queued."""
    for _ in range(3):
        work()
    wait()
    taken: list[float] = []
    began = time.perf_counter()
    while len(taken) < _FEWEST or time.perf_counter() - began < seconds:
        before = time.perf_counter()
        work()
        wait()
        taken.append(1e3 * (time.perf_counter() - before))
    return round(float(np.median(taken)), 4), round(min(taken), 4)


def on_device(work: Work, calls: int = 20) -> float:
    """Milliseconds of a call on the GPU, of calls that are queued one after the other."""
    if not torch.cuda.is_available():
        return milliseconds(work, 0.0)[0]
    for _ in range(3):
        work()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    begin.record()
    for _ in range(calls):
        work()
    end.record()
    torch.cuda.synchronize()
    return round(begin.elapsed_time(end) / calls, 4)


def profile(work: Work, calls: int = 10, rows: int = 30) -> None:
    """Print the time of a call by kernel, and by operation on the host."""
    from torch.profiler import ProfilerActivity, profile as profiler

    with profiler(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as trace:
        for _ in range(calls):
            work()
        wait()
    events = trace.key_averages()
    kernels = [each for each in events if each.self_device_time_total > 0 and "cuda" in str(each.device_type).lower()]
    busy, count = sum(each.self_device_time_total for each in kernels), sum(each.count for each in kernels)
    print(f"   {busy / calls:.0f} us on the GPU in {count / calls:.0f} launches")
    for each in sorted(kernels, key=lambda each: -each.self_device_time_total)[:rows]:
        print(f"   {each.self_device_time_total / calls:9.1f} us  x{each.count / calls:<5.1f} {each.key[:110]}")
    for each in sorted(events, key=lambda each: -each.self_cpu_time_total)[:14]:
        print(
            f"   host {each.self_cpu_time_total / calls:7.1f} us  x{each.count / calls:<5.1f} {each.key[:90]}",
            flush=True,
        )


def found_again(a: Keypoints, b: Keypoints) -> float:
    """The share of ``a`` that is in ``b`` too: within half a pixel, 5 degrees and a twentieth of the scale."""
    is_there = []
    for start in range(0, len(a), 500):
        part = a[start : start + 500]
        near = torch.cdist(part.xy, b.xy, compute_mode="donot_use_mm_for_euclid_dist") <= 0.5
        near &= (b.scale / part.scale[:, None]).log().abs() < math.log(1.05)
        near &= wrap_angle(b.angle - part.angle[:, None]).abs() < math.radians(5)
        is_there.append(near.any(1))
    return float(torch.cat(is_there).float().mean())
