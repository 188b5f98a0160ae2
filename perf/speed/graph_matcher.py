"""Time and memory of the graph matcher beside mutual neighbors with the ratio test, by number of keypoints.

    python -m perf.speed.graph_matcher --out results/speed/graph-matcher.json
    python -m perf.speed.graph_matcher --device cuda --counts 2000 8000 20000 --out results/speed/graph-matcher-h200.json

Each number of keypoints and each matcher runs in a process of its own, on random keypoints of which half are in both images.
Wall-clock and CPU seconds are the least of ``--rounds``; ``peak_mib`` is the resident memory that the process gained by
matching. On a busy machine only the CPU seconds of one thread say something.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

from patchprint.common import files, provenance
from patchprint.common.types import Features, Keypoints
from patchprint.features.model import load
from patchprint.matching import match

MODEL, SEED = "patchprint", 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--counts", type=int, nargs="+", default=[2000, 8000, 20_000])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--profile", action="store_true", help="print what the last round takes, instead of a result file"
    )
    parser.add_argument("--part", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    if given.part:
        print(json.dumps(measure(given.part[0], int(given.part[1]), given)))
        return
    if given.profile:
        profile(given)
        return
    started = time.monotonic()
    scores = {}
    for count in given.counts:
        for matcher in ("mutual+ratio", "graph"):
            same = ["--device", given.device, "--threads", str(given.threads), "--rounds", str(given.rounds)]
            command = [sys.executable, "-m", "perf.speed.graph_matcher", "--part", matcher, str(count), *same]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            scores[f"{matcher}, {count} keypoints"] = json.loads(done.stdout)
            print(matcher, count, done.stdout.strip(), flush=True)
    settings = {"device": given.device, "threads": given.threads, "rounds": given.rounds}
    result = provenance.record("graph-matcher-speed", settings=settings, scores=scores, seed=SEED, started=started)
    files.write_json(given.out, result.to_json())


def measure(matcher: str, count: int, given: argparse.Namespace) -> dict[str, Any]:
    torch.set_num_threads(given.threads)
    a, b = features(count)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    times = []
    for _ in range(given.rounds):
        clock, cpu = time.perf_counter(), time.process_time()
        # The result is on the CPU, so that nothing is left to be waited for.
        found = match(a, b, matcher, device=given.device)
        times.append((time.perf_counter() - clock, time.process_time() - cpu))
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    wall, cpu = (round(min(column), 6) for column in zip(*times, strict=True))
    return {"seconds": wall, "cpu_seconds": cpu, "peak_mib": round((after - before) / 1024, 1), "matches": len(found)}


def profile(given: argparse.Namespace) -> None:
    torch.set_num_threads(given.threads)
    a, b = features(given.counts[0])
    for _ in range(given.rounds):
        match(a, b, "graph", device=given.device)
    with torch.profiler.profile() as profiler:
        match(a, b, "graph", device=given.device)
    key = "cpu_time_total" if given.device == "cpu" else "device_time_total"
    print(profiler.key_averages().table(sort_by=key, row_limit=30, max_name_column_width=60))


def features(count: int) -> tuple[Features, Features]:
    """Keypoints on a square of constant density, and half of them again, turned and larger, among others."""
    generator = torch.Generator().manual_seed(SEED)

    def random(*shape: int) -> torch.Tensor:
        return torch.rand(*shape, generator=generator)

    side, model = 20 * count**0.5, load(MODEL)
    xy, scale, angle = random(count, 2) * side, 1.5 + 6 * random(count), 6.28 * random(count)
    one = F.normalize(random(count, model.dim) - 0.5)
    kept, turn = torch.arange(count) < count // 2, torch.tensor([[0.8, 0.6], [-0.6, 0.8]])
    moved = torch.where(kept[:, None], 1.3 * xy @ turn, 1.3 * random(count, 2) * side)
    other = F.normalize(
        torch.where(kept[:, None], one + 0.5 * (random(count, model.dim) - 0.5), random(count, model.dim) - 0.5)
    )
    size = (int(2 * side), int(2 * side))
    first = Features(Keypoints(xy, scale, angle), one, size, None, model.id, model.ratio)
    second = Keypoints(moved, torch.where(kept, 1.3 * scale, scale), angle + torch.where(kept, 0.6435, random(count)))
    return first, Features(second, other, size, None, model.id, model.ratio)


if __name__ == "__main__":
    main()
