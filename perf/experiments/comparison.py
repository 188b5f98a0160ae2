"""Methods on equal terms: each trained on one photo set and tested on the others, with the same data, steps and batch.

The papers' comparison (FPR95 in percent, floats and signs of the same prints), SDGMNet's ablations (its Fig. 6c), and DOAP's
study of the batch size (its Fig. 4):

    python -m perf.experiments.comparison --out results/experiments/comparison.json
    python -m perf.experiments.comparison --recipes sdgmnet sdgmnet-theta sdgmnet-s sdgmnet-l2 sdgmnet-no-power \
        sdgmnet-theta-no-power sdgmnet-s-no-power sdgmnet-l2-no-power hynet hardnet-frn --out results/experiments/ablation.json
    python -m perf.experiments.comparison --recipes doap doap-binary --batch 64 128 256 512 1024 \
        --out results/experiments/doap-batch.json

Runs go side by side, each in its own process, so that one compiles while another computes. What is done is kept in
``--work``; a study that was stopped goes on from there. Weights are chosen on held-out points of the training set alone.
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import os
import time
import traceback
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from patchprint import files, provenance
from patchprint.benchmarks import BENCHMARKS, Run, ubc
from patchprint.devices import choose_device
from patchprint.distances import pack_bits
from patchprint.features import load
from patchprint.metrics.verification import fpr95
from patchprint.networks import PatchNetwork, weights
from patchprint.training import resolve
from patchprint.training.loop import train
from patchprint.training.run_folder import read_metrics

METHODS = ("l2net", "tfeat", "doap", "hardnet", "cdf", "sosnet", "hynet", "hardnet-frn", "sdgmnet")
SETS = (
    "liberty=data/liberty",
    "notredame=data/notredame",
    "landmarks=data/radcliffe,data/allsouls,data/christchurch,data/bodleian",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipes", nargs="+", default=METHODS)
    parser.add_argument("--sets", nargs="+", default=SETS, help="name=folder[,folder...]; each is trained on once")
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument(
        "--batch",
        type=int,
        nargs="+",
        default=[512],
        help="points of a batch, two views of each; half as many as the patches of DOAP's whole groups",
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--patch-scale", type=float, default=16.0)
    parser.add_argument("--pairs", type=int, default=100_000, help="pairs of a test set")
    parser.add_argument("--width", type=int, default=32, help="channels of the first layer; fewer to try the script")
    parser.add_argument("--workers", type=int, default=6)
    parser.add_argument("--work", type=Path, default=Path("runs/comparison"))
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    started = time.monotonic()
    sets = dict(entry.split("=", 1) for entry in arguments.sets)
    runs = []
    for seed, recipe, batch, learned in itertools.product(arguments.seeds, arguments.recipes, arguments.batch, sets):
        run = {"recipe": recipe, "train": learned, "batch": batch, "seed": seed, "steps": arguments.steps}
        runs.append({**run, "patch_scale": arguments.patch_scale, "width": arguments.width})
    done: list[dict[str, Any]] = []
    failed = 0
    spawn = multiprocessing.get_context("spawn")
    # A process for each run: a compiled step of another run would only be in the way.
    # Threads of many processes would wait for each other; a process of its own sets their number before torch starts.
    os.environ["OMP_NUM_THREADS"] = str(max(1, (os.cpu_count() or 1) // arguments.workers))
    with ProcessPoolExecutor(arguments.workers, mp_context=spawn, max_tasks_per_child=1) as pool:
        waiting = {pool.submit(one_run, run, sets, arguments.pairs, arguments.work): run for run in runs}
        for future in as_completed(waiting):
            try:
                done.append(future.result())
            except Exception:
                failed += 1
                print(f"{waiting[future]} failed:\n{traceback.format_exc()[-1500:]}", flush=True)
                continue
            print(f"{len(done)} of {len(runs)}: {summary(done[-1])}", flush=True)
            write(arguments, done, started)
    if failed:
        raise SystemExit(f"{failed} of {len(runs)} runs failed; the same command tries only them again")


def one_run(run: dict[str, Any], sets: dict[str, str], pairs: int, work: Path) -> dict[str, Any]:
    """Train on one set and test on the others; a run that was done before is read from its file."""
    name = "-".join(str(run[key]) for key in ("recipe", "train", "batch", "steps", "seed"))
    if (work / f"{name}.json").exists():
        before = json.loads((work / f"{name}.json").read_text(encoding="utf-8"))
        if all(before[key] == value for key, value in run.items()):
            return before
    patches = 2 * run["batch"]
    config = resolve(
        run["recipe"],
        data=sets[run["train"]].split(","),
        network_options={"width": run["width"]},
        steps=run["steps"],
        batch=patches // resolve(run["recipe"]).views,
        seed=run["seed"],
        patch_scale=run["patch_scale"],
        log_every=max(1, run["steps"] // 20),
        validate_every=max(1, run["steps"] // 4),
        checkpoint_every=run["steps"],
        tensorboard=False,
    )
    folder = work / name
    if not trained(folder, run["steps"]):
        train(config, None, folder, force=True)
    metrics = read_metrics(folder / "metrics.jsonl")
    network = weights.load_network(folder / "best.safetensors", choose_device())
    result = {**run, "validation": [line for line in metrics if "validation/fpr95" in line]}
    result |= test(network, {other: path for other, path in sets.items() if other != run["train"]}, pairs)
    if config.loss == "sdgm":
        result["statistics"] = [line for line in metrics if "loss/power_positive" in line]
    files.write_json(work / f"{name}.json", result)
    return result


def trained(folder: Path, steps: int) -> bool:
    """Whether a run came to its end before."""
    if not (folder / "best.safetensors").exists():
        return False
    return any(line["step"] == steps and "validation/fpr95" in line for line in read_metrics(folder / "metrics.jsonl"))


def test(network: PatchNetwork, sets: dict[str, str], pairs: int) -> dict[str, dict[str, float]]:
    """FPR95 in percent on each set, of the prints and, where they are floats, of their signs."""
    scores: dict[str, dict[str, float]] = {"fpr95": {}, "fpr95_of_signs": {}}
    for name, folders in sets.items():
        settings, data = ubc.Settings(pairs=pairs), tuple(map(Path, folders.split(",")))
        run = Run(BENCHMARKS["ubc"](), settings, load(network), data, device=choose_device())
        chosen, descriptors, _ = ubc.described_pairs(run, settings)
        scores["fpr95"][name] = 100 * fpr95(chosen.distances(descriptors), chosen.is_match)
        if network.kind == "float":
            scores["fpr95_of_signs"][name] = 100 * fpr95(chosen.distances(pack_bits(descriptors)), chosen.is_match)
    return {kind: values for kind, values in scores.items() if values}


def summary(run: dict[str, Any]) -> str:
    scores = ", ".join(f"{name} {value:.2f}" for name, value in run["fpr95"].items())
    return f"{run['recipe']} (batch {run['batch']}, seed {run['seed']}) on {run['train']}: {scores}"


def write(arguments: argparse.Namespace, done: list[dict[str, Any]], started: float) -> None:
    order = {name: place for place, name in enumerate(arguments.recipes)}
    done = sorted(done, key=lambda run: (order[run["recipe"]], run["batch"], run["train"], run["seed"]))
    result = provenance.record(
        "comparison",
        settings={"steps": arguments.steps, "patch_scale": arguments.patch_scale, "pairs": arguments.pairs},
        model={"name": "trained here", "sha256": ""},
        data={"path": list(arguments.sets)},
        scores={"runs": done},
        started=started,
    )
    files.write_json(arguments.out, result.to_json())


if __name__ == "__main__":
    main()
