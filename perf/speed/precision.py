"""Compare compiled bf16 training with eager float32, three seeds each, and test resuming on a GPU.

    python -m perf.speed.precision --data data/stores/liberty --out results/speed/training-precision.json

All runs go side by side on one GPU, each in its own process. Scores are FPR95 on held-out points after 3000 steps.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from patchprint.common import files, provenance
from patchprint.training.run_folder import read_metrics

MODES: dict[str, dict[str, Any]] = {
    "bf16 compiled": {"precision": "bf16", "acceleration": "auto"},
    "float32 eager": {"precision": "float32", "acceleration": "eager"},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--out", type=Path, default=Path("results/speed/training-precision.json"))
    parser.add_argument("--recipe", default="sdgmnet")
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    started = time.monotonic()
    scores: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        runs = {
            (mode, seed): start(folder / f"{mode}-{seed}".replace(" ", "-"), arguments, seed=seed, **settings)
            for mode, settings in MODES.items()
            for seed in range(arguments.seeds)
        }
        for mode in MODES:
            ends = [finish(*runs[mode, seed]) for seed in range(arguments.seeds)]
            values, confused = [end["validation/fpr95"] for end in ends], [end["validation/confusion"] for end in ends]
            scores[mode] = {"fpr95": values, "mean": statistics.mean(values), "spread": max(values) - min(values)}
            scores[mode] |= {"confusion": confused, "mean_confusion": statistics.mean(confused)}
            print(mode, scores[mode], flush=True)
        scores["resume"] = resume(folder, arguments)
        print(scores["resume"], flush=True)
    means = [scores[mode]["mean"] for mode in MODES]
    spread = max(scores[mode]["spread"] for mode in MODES)
    scores["difference_of_means"] = abs(means[0] - means[1])
    scores["within_the_spread_of_the_seeds"] = scores["difference_of_means"] <= spread
    result = provenance.record(
        "training-precision",
        settings={key: value for key, value in vars(arguments).items() if key not in ("out", "data")},
        model={"name": arguments.recipe, "sha256": ""},
        data={"path": arguments.data},
        scores=scores,
        started=started,
    )
    files.write_json(arguments.out, result.to_json())


def start(folder: Path, arguments: argparse.Namespace, resume: bool = False, **changes: Any) -> tuple[Any, Path]:
    """Begin a run in a process of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    settings = {
        "recipe": arguments.recipe,
        "data": [arguments.data],
        "out": str(folder / "run"),
        "steps": arguments.steps,
        "batch": arguments.batch,
        "network_options": {"width": arguments.width},
        "validate_every": arguments.steps,
        "checkpoint_every": arguments.steps,
        "tensorboard": False,
        **changes,
    }
    files.write_json(folder / "run.json", settings)
    command = [sys.executable, "-m", "patchprint.training", str(folder / "run.json"), *(["--resume"] if resume else [])]
    log = open(folder / "log.txt", "w")  # noqa: SIM115 - the child writes to it
    return subprocess.Popen(command, stdout=log, stderr=log), folder


def finish(process: Any, folder: Path) -> dict[str, float]:
    """The last validation of a run."""
    if process.wait() != 0:
        raise RuntimeError((folder / "log.txt").read_text()[-3000:])
    lines = read_metrics(folder / "run" / "metrics.jsonl")
    return [line for line in lines if "validation/fpr95" in line][-1]


def resume(folder: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """Train 12 steps with a checkpoint at 10; do steps 11 and 12 again from it; compare their losses."""
    whole = folder / "whole"
    changes: dict[str, Any] = {"steps": 12, "checkpoint_every": 10, "log_every": 1, "validate_every": 12, "seed": 0}
    finish(*start(whole, arguments, **changes))
    again = folder / "again"
    shutil.copytree(whole, again)
    for file in (again / "run" / "checkpoints").glob("step-*12.safetensors"):
        file.unlink()
    finish(*start(again, arguments, resume=True, **changes))
    losses = [
        {
            line["step"]: line["loss/total"]
            for line in read_metrics(place / "run" / "metrics.jsonl")
            if "loss/total" in line
        }
        for place in (whole, again)
    ]
    first, second = (abs(losses[0][step] - losses[1][step]) for step in (11, 12))
    return {"first_resumed_step": first, "second_resumed_step": second, "losses": json.dumps(losses[1])}


if __name__ == "__main__":
    main()
