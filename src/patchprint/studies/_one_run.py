"""One run of a study, in whatever process: train, measure, write the result, tidy up."""

from __future__ import annotations

import contextlib
import gc
import shutil
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import torch

from patchprint.benchmarks import BENCHMARKS, Run, measure
from patchprint.common import files, provenance
from patchprint.common.devices import choose_device
from patchprint.common.errors import UserError
from patchprint.common.registry import check_options, option_names
from patchprint.features import Model, load
from patchprint.studies._plan import Plan, PlannedMeasure
from patchprint.studies._probes import PROBES
from patchprint.training import checkpoint, train


def attempt(plan: Plan) -> str:
    """Do one run; returns "", or in one sentence why it failed. What it says meanwhile goes to its log."""
    plan.runs.mkdir(parents=True, exist_ok=True)
    # Lines as they are said, so that a full disk is met there and not when the log is closed.
    with (
        files.saying_what_failed(plan.log),
        open(plan.log, "w", encoding="utf-8", buffering=1) as log,
        contextlib.redirect_stderr(log),
    ):
        try:
            _do(plan)
        except UserError as error:
            return str(error)
        except Exception as error:
            traceback.print_exc()
            return f"{type(error).__name__}: {error} ({plan.log} says more)"
        finally:
            _clear_memory()
    plan.log.unlink()
    return ""


def remove_weights(plan: Plan) -> None:
    """Leave what is small and cannot be had from the result: config.json and metrics.jsonl."""
    for weights in plan.folder.glob("*.safetensors"):
        weights.unlink()
    shutil.rmtree(plan.folder / "checkpoints", ignore_errors=True)


def _do(plan: Plan) -> None:
    started = time.monotonic()
    # A run that was stopped before its first checkpoint starts again.
    begun = checkpoint.any_in(plan.folder / "checkpoints")
    outcome = train(plan.config, out=plan.folder, resume=begun, force=not begun)
    model = load(plan.measured_weights, plan.config.device, engine=plan.engine)
    scores = {name: _measured(each, model, plan.config.device) for name, each in plan.measures.items()}
    result = provenance.record(
        "study run",
        settings=plan.config.to_json(),
        model={"name": model.info.name, "sha256": model.info.sha256, "weights": plan.weights, "step": outcome.steps},
        data={"path": ",".join(plan.learns.paths), "sha256": plan.learns.sha256},
        seed=plan.config.seed,
        scores=scores,
        started=started,
    )
    found = {name: value for name, value in outcome.to_json().items() if name not in ("best", "last")}  # but the paths
    files.write_json(plan.result, {**result.to_json(), "labels": plan.case.labels, "outcome": found})
    if not plan.keep:
        remove_weights(plan)


def _measured(planned: PlannedMeasure, model: Model, device: str) -> dict[str, Any]:
    """Headline and all scores of one benchmark, and what they were measured on."""
    benchmark = (PROBES if planned.benchmark in PROBES else BENCHMARKS)[planned.benchmark]()
    check_options(f"benchmark {planned.benchmark!r}", planned.settings, option_names(benchmark.settings))
    settings, paths = benchmark.settings(**planned.settings), tuple(map(Path, planned.data.paths))
    measured = model.signs() if planned.signs else model
    result = measure(Run(benchmark, settings, measured, paths, device=choose_device(device)))
    return {
        "benchmark": result.benchmark,
        "settings": result.settings,
        "data": result.data,
        "engine": result.model["engine"],
        "headline": benchmark.headline(result.scores),
        "scores": result.scores,
    }


def _clear_memory() -> None:
    """The next run of this process finds no compiled step and no GPU memory of this one."""
    if "torch._dynamo" in sys.modules:  # which takes seconds to import
        torch.compiler.reset()
    if torch.cuda.is_available():
        gc.collect()
        torch.cuda.empty_cache()
