"""Time a match and a training with OpenMP threads that sleep while they wait, as ``patchprint`` has them, and by default.

    python -m perf.speed.waiting_threads a.jpg b.jpg --out results/speed/waiting-threads.json

By default they spin for a while. Each timing is a process of its own; the two ways take turns, beside no and one process that
keeps a core busy. What else the machine does slows both down, so that ratios of neighboring timings count, and their median.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from patchprint.common import files, provenance
from perf.speed.contest.__main__ import busy_cores

WAYS: dict[str, dict[str, str]] = {"default": {}, "sleep": {"OMP_WAIT_POLICY": "PASSIVE"}}
LIMIT = 200  # seconds of a timing


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("images", nargs="*", help="two, which are matched")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=25, help="of a training as that of make demo")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--only", choices=("match", "train"), help="one timing, in this process")
    arguments = parser.parse_args()
    if arguments.only:
        print(json.dumps(timed(arguments.only, arguments.images, arguments.steps)))
        return
    started, scores = time.monotonic(), {}
    flags = [*arguments.images, "--steps", str(arguments.steps)]
    for work in ("match", "train"):
        for busy in (0, 1):
            rounds = []
            for number in range(arguments.rounds):
                order = list(WAYS)[:: 1 if number % 2 else -1]
                with busy_cores(busy):
                    rounds.append({way: in_own_process(work, way, flags, arguments.threads) for way in order})
            scores[f"{work}, {busy} busy"] = summary(rounds)
            print(work, busy, scores[f"{work}, {busy} busy"], flush=True)
    result = provenance.record(
        "waiting-threads",
        settings={name: getattr(arguments, name) for name in ("rounds", "steps", "threads")} | {"limit_s": LIMIT},
        scores=scores | {"load_average_at_the_end": os.getloadavg()},
        data={"path": arguments.images},
        seed=0,
        started=started,
    )
    files.write_json(arguments.out, result.to_json())


def in_own_process(work: str, way: str, flags: list[str], threads: int) -> dict[str, float]:
    """Seconds of wall clock and CPU; one that takes too long counts with the limit."""
    command = [sys.executable, "-m", "perf.speed.waiting_threads", "--only", work, *flags]
    unset = {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"}
    environment = unset | {"OMP_NUM_THREADS": str(threads)} | WAYS[way]
    try:
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, timeout=LIMIT, check=True)
    except subprocess.TimeoutExpired:
        return {"wall": LIMIT}
    return json.loads(done.stdout.splitlines()[-1])


def timed(work: str, images: list[str], steps: int) -> dict[str, float]:
    """Import and data are not timed; one match warms up."""
    import patchprint
    from patchprint.data.builders import bundled_images
    from patchprint.training import resolve
    from patchprint.training.loop import train

    with tempfile.TemporaryDirectory() as folder:
        if work == "match":
            a = b = patchprint.extract(images[0])
        else:
            options: dict[str, Any] = {
                "network_options": {"width": 16, "dropout": 0.1},
                "batch": 128,
                "tensorboard": False,
            }
            config = resolve("sdgmnet", network="hardnet", steps=steps, device="cpu", **options)
            source = bundled_images.training_source()
        wall, cpu = time.perf_counter(), time.process_time()
        if work == "match":
            a, b = (patchprint.extract(image) for image in images)
            patchprint.verify(a, b, patchprint.match(a, b))
        else:
            train(config, source, out=Path(folder) / "run")
        return {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}


def summary(rounds: list[dict[str, dict[str, float]]]) -> dict[str, Any]:
    """Medians of seconds, and of how many times as long the default took in the same round."""
    return {
        **{
            f"{way}, {clock} s": round(statistics.median(times), 2) if len(times) == len(rounds) else None
            for way in WAYS
            for clock in ("wall", "cpu")
            for times in [[each[way][clock] for each in rounds if clock in each[way]]]
        },
        "ratios": [round(each["default"]["wall"] / each["sleep"]["wall"], 2) for each in rounds],
        "median_ratio": round(statistics.median(each["default"]["wall"] / each["sleep"]["wall"] for each in rounds), 2),
    }


if __name__ == "__main__":
    main()
