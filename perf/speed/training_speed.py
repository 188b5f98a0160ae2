"""Time one training step on a GPU: ours against a plain eager float32 step in the manner of the authors' code.

    python -m perf.speed.training_speed --out results/speed/training-speed.json

Needs torch, numpy, safetensors, tqdm; images are synthetic unless --data names a store. Every variant runs in a process
of its own; one that fails is recorded with its error. On a CPU: --pairs 32 --width 8 --steps 3 --variants "sdgmnet".
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from patchprint.common import files, provenance
from patchprint.data import Tracks, TrackStore, open_source
from patchprint.networks import fast_layers
from patchprint.training import assembly, resolve
from patchprint.training.step import TrainStep
from perf.speed.contest import plain_step

H200_BF16_TFLOPS = 989.0
GROUPS = {
    "FRN with bias and TLU": ("_forward_kernel", "_backward_kernel"),
    "convolution": ("conv", "xmma", "cutlass", "cudnn", "implicit", "gemm", "nvjet", "wgrad", "dgrad", "fprop"),
    "fused by the compiler": ("triton",),
    "optimiser and averages": ("multi_tensor", "foreach", "fused_sgd", "fused_adam"),
    "copies and fills": ("memcpy", "memset", "fill", "copy"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("results/speed/training-speed.json"))
    parser.add_argument("--data", default=None, help="a store; without it, images are made up")
    parser.add_argument("--pairs", type=int, default=1024)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--steps", type=int, default=200, help="steps that are timed")
    parser.add_argument("--variants", nargs="*", default=list(VARIANTS), help="which ones, by name")
    parser.add_argument("--only", default=None, help="one variant in this process, the numbers to --out")
    arguments = parser.parse_args()
    if arguments.only:
        files.write_json(arguments.out, measure(arguments.only, arguments))
        return
    started, measured = time.monotonic(), {}
    for name in arguments.variants:
        measured[name] = in_own_process(name, arguments)
        # Written after each, so that a run that is cut short leaves what it has.
        write_result(measured, arguments, started)


def write_result(measured: dict[str, Any], arguments: argparse.Namespace, started: float) -> None:
    plain = measured.get("plain eager float32", {}).get("milliseconds")
    own = measured.get("sdgmnet", {}).get("milliseconds")
    summary: dict[str, Any] = {"times_faster": round(plain / own, 2) if plain and own else None}
    if own:
        summary |= against_limit(own, arguments.pairs, arguments.width)
    print(summary, flush=True)
    result = provenance.record(
        "training-speed",
        settings={"pairs": arguments.pairs, "width": arguments.width, "steps": arguments.steps},
        model={"name": "sdgmnet", "sha256": ""},
        data={"path": arguments.data or "synthetic photos"},
        seed=0,
        scores={**summary, "variants": measured},
        started=started,
    )
    files.write_json(arguments.out, result.to_json())


def in_own_process(name: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """A variant that fails may leave the GPU's state spoiled, so each gets a process; the error text is its result."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "numbers.json"
        command = [sys.executable, "-m", "perf.speed.training_speed", "--only", name, "--out", str(out)]
        for option in ("pairs", "width", "steps"):
            command += [f"--{option}", str(getattr(arguments, option))]
        if arguments.data:
            command += ["--data", arguments.data]
        before = time.monotonic()
        done = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)
        seconds = time.monotonic() - before
        numbers = json.loads(out.read_text()) if out.exists() else {"error": (done.stdout + done.stderr)[-4000:]}
    print(f"== {name} ({seconds:.0f} s): {numbers.get('milliseconds', numbers.get('error', numbers))}", flush=True)
    print(done.stdout, flush=True)
    return numbers


def measure(name: str, arguments: argparse.Namespace) -> dict[str, Any]:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    source = open_source(arguments.data, device) if arguments.data else synthetic_images(device)
    with contextlib.ExitStack() as context:
        numbers = VARIANTS[name](source, arguments, context)
    print({key: value for key, value in numbers.items() if key != "profile"}, flush=True)
    return numbers


def plain(source: TrackStore, arguments: argparse.Namespace, context: contextlib.ExitStack) -> dict[str, Any]:
    return time_plain(source, arguments, {"width": arguments.width, "dropout": 0.3})


def ours(
    recipe: str, fused: bool = True, inductor: dict[str, Any] | None = None, profile: bool = False, **changes: Any
) -> Callable[..., dict[str, Any]]:
    def variant(source: TrackStore, arguments: argparse.Namespace, context: contextlib.ExitStack) -> dict[str, Any]:
        import torch._inductor.config

        context.enter_context(torch._inductor.config.patch(**(inductor or {})))
        if not fused:
            fast_layers.fuse = lambda network: None
        options = {"width": arguments.width, "dropout": 0.3}
        return time_ours(source, recipe, arguments, options, profile, **changes)

    return variant


def parts(source: TrackStore, arguments: argparse.Namespace, context: contextlib.ExitStack) -> dict[str, Any]:
    return time_parts(source, arguments, {"width": arguments.width, "dropout": 0.3})


def time_plain(source: TrackStore, arguments: argparse.Namespace, options: dict[str, Any]) -> dict[str, float]:
    step = plain_step(resolve("sdgmnet", network_options=options, batch=arguments.pairs), source)
    return timed(step, source.device, max(arguments.steps // 4, 2), warmup=5)


def time_ours(
    source: TrackStore,
    recipe: str,
    arguments: argparse.Namespace,
    options: dict[str, Any],
    profile: bool = False,
    **changes: Any,
) -> dict[str, Any]:
    config = resolve(recipe, network_options=options, batch=arguments.pairs, **changes)
    step = TrainStep(config, source, assembly.create(config, source.device))
    result: dict[str, Any] = timed(step.run, source.device, arguments.steps, warmup=8)
    result["loss"] = float(step.losses["total"])
    result["patches_per_second"] = round(2 * arguments.pairs / result["milliseconds"] * 1e3)
    if profile and source.device.type == "cuda":
        result["profile"] = kernels(step.run)
    return result


def time_parts(source: TrackStore, arguments: argparse.Namespace, options: dict[str, Any]) -> dict[str, float]:
    """Sampling, network with loss forward, forward and backward: each recorded as a graph of its own."""
    config = resolve(
        "sdgmnet", network_options=options, batch=arguments.pairs, acceleration="compile", precision="bf16"
    )
    step = TrainStep(config, source, assembly.create(config, source.device))
    for _ in range(4):
        step.run()
    cut = step._patches(step.step)

    def forward() -> None:
        step._objective(*cut, step.step)

    def both() -> None:
        step.state.optimizer.zero_grad(set_to_none=True)
        step._objective(*cut, step.step)[0]["total"].backward()

    parts: dict[str, Callable[[], Any]] = {
        "patches": lambda: step._patches(step.step),
        "forward": forward,
        "forward and backward": both,
        "optimizer": step.state.optimizer.step,
    }
    return {
        name: timed(recorded(part), source.device, arguments.steps, warmup=5)["milliseconds"]
        for name, part in parts.items()
    }


def recorded(function: Callable[[], Any]) -> Callable[[], Any]:
    if not torch.cuda.is_available():
        return function
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            function()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        function()
    return graph.replay


def timed(function: Callable[[], Any], device: torch.device, count: int, warmup: int) -> dict[str, Any]:
    """Milliseconds a call: the median of ten stretches, each ended by a synchronization."""
    for _ in range(warmup):
        function()
    wait(device)
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    stretch = max(count // 10, 1)
    times = []
    for _ in range(min(count, 10)):
        before = time.perf_counter()
        for _ in range(stretch):
            function()
        wait(device)
        times.append((time.perf_counter() - before) / stretch * 1e3)
    peak = torch.cuda.max_memory_reserved() / 2**20 if device.type == "cuda" else 0.0
    return {
        "milliseconds": round(float(np.median(times)), 4),
        "fastest": round(min(times), 4),
        "reserved_mib": round(peak),
    }


def wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def kernels(function: Callable[[], Any], count: int = 10) -> dict[str, Any]:
    """Device time per step by group and by kernel, microseconds."""
    from torch.profiler import ProfilerActivity, profile as profiler

    with profiler(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as trace:
        for _ in range(count):
            function()
        torch.cuda.synchronize()
    rows = [
        (event.key, event.self_device_time_total / count, event.count // count)
        for event in trace.key_averages()
        if event.self_device_time_total > 0 and "cuda" in str(event.device_type).lower()
    ]
    rows.sort(key=lambda row: -row[1])
    groups: dict[str, float] = {}
    for name, microseconds, _ in rows:
        lower = name.lower()
        group = next((g for g, words in GROUPS.items() if any(word in lower for word in words)), "other")
        if lower.startswith("triton"):
            group = "fused by the compiler"
        groups[group] = groups.get(group, 0.0) + microseconds
    for name, microseconds, calls in rows[:45]:
        print(f"   {microseconds:9.1f} us  x{calls:<3d} {name[:130]}", flush=True)
    return {
        "groups_us": {name: round(value, 1) for name, value in sorted(groups.items(), key=lambda item: -item[1])},
        "top_us": [[name[:160], round(microseconds, 1), calls] for name, microseconds, calls in rows[:45]],
    }


def against_limit(milliseconds: float, pairs: int, width: int) -> dict[str, float]:
    """Multiplications of the seven convolutions, forward and twice backward, against the tensor cores' bf16 rate."""
    layers = [(1, 1, 32, 3), (1, 1, 32, 3), (1, 2, 16, 3), (2, 2, 16, 3), (2, 4, 8, 3), (4, 4, 8, 3)]
    products = sum(
        i * o * width * (width if n else 1) * side * side * k * k for n, (i, o, side, k) in enumerate(layers)
    )
    products += 4 * width * 128 * 64
    flops = 2 * products * 3 * 2 * pairs
    limit = flops / (H200_BF16_TFLOPS * 1e12) * 1e3
    return {
        "patches_per_second": round(2 * pairs / milliseconds * 1e3),
        "limit_milliseconds": round(limit, 3),
        "part_of_limit": round(limit / milliseconds, 3),
        "minutes_for_200000_steps": round(milliseconds * 200_000 / 60e3, 1),
    }


def synthetic_images(device: torch.device, count: int = 48, points: int = 20_000, views: int = 4) -> TrackStore:
    """Smooth noise in the size of images, with points that are seen in several of them."""
    generator = np.random.default_rng(0)
    height, width = (768, 1024) if device.type == "cuda" else (192, 256)
    points = points if device.type == "cuda" else 2000
    coarse = torch.from_numpy(generator.random((count, 1, height // 8, width // 8), dtype=np.float32))
    smooth = torch.nn.functional.interpolate(coarse, size=(height, width), mode="bilinear")[:, 0]
    images = [(image * 255).to(torch.uint8).numpy() for image in smooth]
    point = np.repeat(np.arange(points), views)
    tracks = Tracks.from_observations(
        image=generator.integers(0, count, len(point)),
        xy=generator.uniform((0, 0), (width, height), (len(point), 2)),
        scale=np.exp(generator.uniform(0.4, 2.0, len(point))),
        angle=generator.uniform(-np.pi, np.pi, len(point)),
        point=point,
    )
    part = np.zeros(points, np.uint8)
    return TrackStore.from_images(images, dataclasses.replace(tracks, part=part), device=device)


VARIANTS: dict[str, Callable[..., dict[str, Any]]] = {
    "plain eager float32": plain,
    "sdgmnet": ours("sdgmnet", profile=True),
    "hardnet": ours("hardnet", profile=True),
    "sdgmnet, layers by the compiler": ours("sdgmnet", fused=False, profile=True),
    "parts of sdgmnet": parts,
    "sdgmnet, coordinate descent": ours("sdgmnet", inductor={"coordinate_descent_tuning": True}),
    "sdgmnet, compiled, not recorded": ours("sdgmnet", acceleration="compile"),
    "sdgmnet, eager": ours("sdgmnet", acceleration="eager"),
    "sdgmnet, float32": ours("sdgmnet", precision="float32"),
}

if __name__ == "__main__":
    main()
