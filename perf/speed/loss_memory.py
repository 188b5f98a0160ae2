"""Measure peak memory, time and host synchronizations of every loss, forward and backward, on one device.

    python -m perf.speed.loss_memory --out results/speed/loss-memory.json

Memory is what forward and backward allocate on top of the descriptors at the worst moment (CUDA's allocator, or the
profiler's record of allocations on the CPU). Synchronizations are counted by the profiler (stream synchronizations and copies
from the device to the host; on the CPU, reads of single values), and on CUDA also by PyTorch's own watch for them. Eager
times on a fast GPU are those of the launches; ``graph_ms`` (a recorded CUDA graph) is the time on the device.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from patchprint.common import files, provenance
from patchprint.losses import LOSSES, SEC, DescriptorBatch, Loss, create

ON_CUDA = ("cudaStreamSynchronize", "cudaEventSynchronize", "Memcpy DtoH")
ON_CPU = ("aten::_local_scalar_dense", "aten::nonzero", "aten::masked_select")
MAP_SIZES = (32 * 32 * 32, 128)  # L2-Net's first and last maps


@dataclass(frozen=True)
class Case:
    name: str
    points: int
    views: int = 2
    dim: int = 128
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def label(self) -> str:
        settings = "".join(f" {key}={value}" for key, value in self.settings.items())
        return f"{self.name} P={self.points} K={self.views} D={self.dim}{settings}"

    def loss(self) -> Loss:
        if self.name.startswith("sec:"):
            return SEC(create(self.name.removeprefix("sec:"), **self.settings))
        return create(self.name, **self.settings)


def cases(points: int, large: int) -> list[Case]:
    """Every loss that can be compiled at ``points`` pairs, and average precision at ``large`` patches."""
    settings = {"cdf": {"bins": points // 2}}
    rows = [
        Case(name, points, dim=256 if name == "doap-binary" else 128, settings=settings.get(name, {}))
        for name, loss in LOSSES.items()
        if loss.fixed_shapes
    ]
    rows += [
        Case("sec:hardnet", points),
        Case("hardnet", points, settings={"gor": 1.0, "cpr": 1.0}),
        Case("cdf", points, dim=256, settings={"bins": points // 2, "binary": True}),
        Case("doap", large // 2),
        Case("doap", large // 16, views=16),
        Case("doap-binary", large // 2, dim=256),
    ]
    return rows


def make_step(case: Case, device: torch.device, compiled: bool) -> Callable[[], None]:
    """One forward and backward on fixed random descriptors."""
    generator = torch.Generator().manual_seed(0)
    center = torch.randn(case.points, 1, case.dim, generator=generator)
    raw = center + 0.7 * torch.randn(case.points, case.views, case.dim, generator=generator)
    raw = raw.to(device).requires_grad_()
    desc = torch.nn.functional.normalize(raw.detach(), dim=-1).requires_grad_()
    loss = case.loss().to(device)
    leaves, maps = [desc, raw], None
    if loss.needs_maps:
        maps = tuple(torch.randn(case.points, 2, size, device=device).requires_grad_() for size in MAP_SIZES)
        leaves += maps
    batch = DescriptorBatch(
        desc, raw, maps=maps, progress=torch.tensor(0.5, device=device), step=torch.tensor(1, device=device)
    )
    forward = torch.compile(loss, fullgraph=True) if compiled else loss

    def step() -> None:
        torch.autograd.grad(forward(batch)["total"], leaves, allow_unused=True)

    return step


def milliseconds(step: Callable[[], None], device: torch.device, repeats: int) -> float:
    for _ in range(3):
        step()
    _wait(device)
    started = time.perf_counter()
    for _ in range(repeats):
        step()
    _wait(device)
    return 1000 * (time.perf_counter() - started) / repeats


def peak_mib(step: Callable[[], None], device: torch.device) -> float:
    step()
    if device.type == "cuda":
        _wait(device)
        before = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        step()
        _wait(device)
        return (torch.cuda.max_memory_allocated(device) - before) / 2**20
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        step()
    current = highest = 0
    records = [event for event in profiler.profiler.kineto_results.events() if event.name() == "[memory]"]
    for event in sorted(records, key=lambda event: event.start_ns()):
        current += event.nbytes()
        highest = max(highest, current)
    return highest / 2**20


def host_synchronizations(step: Callable[[], None], device: torch.device) -> int:
    step()
    on_cuda = device.type == "cuda"
    activities = [ProfilerActivity.CPU, ProfilerActivity.CUDA] if on_cuda else [ProfilerActivity.CPU]
    _wait(device)
    with profile(activities=activities) as profiler:
        step()
    watched = ON_CUDA if on_cuda else ON_CPU
    return sum(event.count for event in profiler.key_averages() if event.key.startswith(watched))


def passes_sync_watch(step: Callable[[], None]) -> bool:
    """Return whether PyTorch itself sees no synchronizing call on CUDA."""
    step()
    torch.cuda.set_sync_debug_mode("error")
    try:
        step()
    except RuntimeError as error:
        print(error, flush=True)
        return False
    finally:
        torch.cuda.set_sync_debug_mode("default")
    return True


def graph_milliseconds(step: Callable[[], None], device: torch.device, repeats: int) -> float:
    """Time of the step recorded as a CUDA graph, as training replays it: what the device itself needs."""
    stream = torch.cuda.Stream(device)
    stream.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.current_stream(device).wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return milliseconds(graph.replay, device, repeats)


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def measure(case: Case, device: torch.device, repeats: int, compiled: bool) -> dict[str, float | int]:
    step = make_step(case, device, compiled=False)
    row: dict[str, float | int] = {
        "peak_mib": round(peak_mib(step, device), 2),
        "eager_ms": round(milliseconds(step, device, repeats), 4),
        "host_synchronisations": host_synchronizations(step, device),
    }
    if device.type == "cuda":
        row["passes_sync_watch"] = passes_sync_watch(step)
        row["graph_ms"] = round(graph_milliseconds(step, device, repeats), 4)
    if compiled:
        torch._dynamo.reset()
        started = time.perf_counter()
        fast = make_step(case, device, compiled=True)
        fast()
        _wait(device)
        row["compile_s"] = round(time.perf_counter() - started, 2)
        row["compiled_ms"] = round(milliseconds(fast, device, repeats), 4)
        if device.type == "cuda":
            row["compiled_graph_ms"] = round(graph_milliseconds(fast, device, repeats), 4)
        row["compiled_peak_mib"] = round(peak_mib(fast, device), 2)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--points", type=int, default=1024, help="pairs per batch")
    parser.add_argument("--large", type=int, default=4096, help="patches for average precision")
    parser.add_argument("--repeats", type=int, default=50)
    parser.add_argument("--compile", action="store_true", help="also time the losses under torch.compile")
    parser.add_argument("--only", help="measure the losses of this name only")
    arguments = parser.parse_args()
    started = time.monotonic()
    device = torch.device(arguments.device)
    scores: dict[str, dict[str, float | int]] = {}
    for case in cases(arguments.points, arguments.large):
        if arguments.only in (None, case.name):
            scores[case.label] = measure(case, device, arguments.repeats, arguments.compile)
            print(case.label, scores[case.label], flush=True)
    settings = {key: value for key, value in vars(arguments).items() if key != "out"}
    result = provenance.record("loss-memory", settings=settings, scores=scores, seed=0, started=started)
    files.write_json(arguments.out, result.to_json())


if __name__ == "__main__":
    main()
