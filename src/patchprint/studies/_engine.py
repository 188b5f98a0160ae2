"""Do the runs of a study, each once, and write one JSON file, one table, one drawing, and one page of all."""

import contextlib
import fnmatch
import gc
import json
import shutil
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from patchprint.common import files, provenance
from patchprint.common.devices import choose_device
from patchprint.common.errors import UserError, require
from patchprint.common.processes import run_tasks
from patchprint.common.safe_io import read_json
from patchprint.common.table import Table
from patchprint.report import page
from patchprint.studies._figures import StudyDrawing
from patchprint.studies._learners import learner_of
from patchprint.studies._plan import Options, Plan, asked_for, plan, run_name
from patchprint.studies._results import Row, RunRecord, blocks, grouped, series_of
from patchprint.studies._study import Study
from patchprint.training import checkpoint
from patchprint.training.run_folder import read_metrics

MADE_BY = "patchprint study"


@dataclass(frozen=True)
class Report:
    """Result of a study: the contents of its JSON file and of its Markdown file, and how many runs failed."""

    result: dict[str, Any]
    table: str
    failed: int


def run_study(name: str, study: Study, options: Options) -> Report:
    """Do the runs that are not done yet, and write NAME.json, NAME.md, NAME.svg and NAME.html into ``options.out``.

    A run that was stopped goes on from its checkpoint. A run that fails is reported, and the others go on.
    """
    started = time.monotonic()
    choose_device(options.device)
    if study.figures:  # better to fail before the runs than after them
        require("matplotlib", extra="images")
    plans = plan(study, options)
    with files.exclusive_writer(options.out):
        written = [f"{name}{suffix}" for suffix in (".json", ".md", ".svg", ".html")]
        files.claim_folder(options.out, MADE_BY, [*written, "runs/*"])
        _take_over(asked_for(plans, options), options.reuse, study)
        errors = _do_runs(plans, options)
        rows = _rows(study, options, plans, errors)
        result = _result(name, study, options, plans, rows, started)
        parts = blocks(study, rows, _conditions(options))
        texts = [part.to_markdown() if isinstance(part, Table) else part for part in parts]
        table = "\n\n".join([f"# {name}: {study.summary}", *texts]) + "\n"
        files.write_json(options.out / f"{name}.json", result)
        files.write_text(options.out / f"{name}.md", table)
        drawing = StudyDrawing(study, rows, name) if study.figures else None
        if drawing is not None:
            files.write_text(options.out / f"{name}.svg", drawing.file())
        page.write(_page(name, study, parts, drawing, result["run"]), options.out / f"{name}.html")
    return Report(result, table, len(errors))


def do_run(plan: Plan) -> str:
    """Train and measure one run; return "", or in one sentence why it failed. What it prints goes to its log."""
    plan.runs.mkdir(parents=True, exist_ok=True)
    # Lines are written at once, so that a full disk is met there and not when the log is closed.
    with (
        files.name_failed_path(plan.log),
        open(plan.log, "w", encoding="utf-8", buffering=1) as log,
        contextlib.redirect_stderr(log),
    ):
        try:
            _train_and_measure(plan)
        except UserError as error:
            return str(error)
        except Exception as error:
            traceback.print_exc()
            return f"{type(error).__name__}: {error} ({plan.log} says more)"
        finally:
            _clear_memory()
    plan.log.unlink()
    return ""


def _runner() -> Callable[[Plan], str]:
    return do_run


def _train_and_measure(plan: Plan) -> None:
    started = time.monotonic()
    # A run that was stopped before its first checkpoint starts again.
    begun = checkpoint.any_in(plan.folder / "checkpoints")
    learner = learner_of(plan.config.recipe)
    outcome = learner.train(plan.config, plan.folder, begun)
    sha256, measured = learner.measure(plan)
    result = {
        "name": plan.name,
        "seed": plan.config.seed,
        "checksum": plan.checksum,
        "config": plan.config.to_json(),
        "sha256": sha256,
        "outcome": {name: value for name, value in outcome.to_json().items() if name not in ("best", "last")},
        "measured": measured,
        "series": {
            name: each._asdict() for name, each in series_of(read_metrics(plan.folder / "metrics.jsonl")).items()
        },
        "complete_series": ["*"],
        "run": provenance.run_info(started),
    }
    files.write_json(plan.result, result)


def _clear_memory() -> None:
    """Leave no compiled step and no GPU memory to the next run of this process."""
    if "torch._dynamo" in sys.modules:  # which takes seconds to import
        torch.compiler.reset()
    if torch.cuda.is_available():
        gc.collect()
        torch.cuda.empty_cache()


def _take_over(plans: Sequence[Plan], sources: Sequence[Path], study: Study) -> None:
    """Copy the results of runs that other studies did with the same settings, data and measures."""
    known = {run["checksum"]: run for source in sources for run in _results_in(source) if _has_series(run, study)}
    for each in plans:
        if each.checksum in known and not each.is_done and not each.folder.exists():
            files.write_json(each.result, {**known[each.checksum], "name": each.name})


def _results_in(source: Path) -> Iterator[dict[str, Any]]:
    """Yield the runs of another study, from its folder or its JSON file."""
    if source.is_dir():
        found = [read_json(path, "the result of a run") for path in sorted((source / "runs").glob("*.json"))]
    else:
        rows = read_json(source, "the result of a study").get("scores", {}).get("rows")
        if not isinstance(rows, list):
            raise UserError(f"--reuse names {source}, which is not the JSON file of a study")
        found = [run for row in rows for run in row["runs"]]
    yield from (run for run in found if "checksum" in run)  # not what failed or was done by an older version


def _has_series(run: dict[str, Any], study: Study) -> bool:
    """Return whether a run of another study holds all lines that this study shows."""
    return all(any(fnmatch.fnmatchcase(name, kept) for kept in run["complete_series"]) for name in study.series)


def _do_runs(plans: Mapping[str, Plan], options: Options) -> dict[str, str]:
    """Do what is not done; return the error messages of the runs that failed, by name."""
    wanted = asked_for(plans, options)
    waiting = _waiting(wanted)
    errors: dict[str, str] = {}
    number = len(wanted) - len(waiting)
    with tqdm(total=len(wanted), initial=number, unit="run", disable=None) as bar:
        for ready in _waves(waiting):
            able = []
            for each in ready:
                if each.start is not None and each.start.name in errors:
                    errors[each.name] = f"{each.start.name}, which it starts from, failed"
                else:
                    able.append(each)
            several = options.workers > 1
            answers = run_tasks(_runner, able, options.workers) if several else enumerate(map(do_run, able))
            for index, answer in answers:
                each, error = able[index], str(answer)
                number += 1
                bar.update()
                if error:
                    errors[each.name] = error
                if error or bar.disable:
                    words = f"failed: {error}" if error else "done"
                    bar.write(f"{number} of {len(wanted)}: {each.name} {words}", file=sys.stderr)
                if not options.keep:
                    _remove_folders([each], plans)
    if not options.keep:
        _remove_folders(wanted, plans)
    return errors


def _waiting(plans: Sequence[Plan]) -> list[Plan]:
    """Return the runs to do: those without a result, and those without the weights that one of these starts from."""
    waiting: list[Plan] = []
    for each in reversed(plans):  # a run stands behind the one it starts from
        needed = any(other.start == each for other in waiting)
        if not each.is_done or (needed and not each.measured_weights.is_file()):
            waiting.insert(0, each)
    return waiting


def _waves(waiting: Sequence[Plan]) -> Iterator[list[Plan]]:
    """Yield the same runs in groups, each behind the runs that it starts from."""
    while waiting:
        names = {each.name for each in waiting}
        ready = [each for each in waiting if each.start is None or each.start.name not in names]
        yield ready
        waiting = [each for each in waiting if each not in ready]


def _remove_folders(runs: Sequence[Plan], plans: Mapping[str, Plan]) -> None:
    """Delete the training folders of runs that are done and that no other run is yet to start from."""
    needed = {each.start.name for each in plans.values() if each.start is not None and not each.is_done}
    for each in runs:
        if each.is_done and each.name not in needed:
            shutil.rmtree(each.folder, ignore_errors=True)


def _rows(study: Study, options: Options, plans: Mapping[str, Plan], errors: Mapping[str, str]) -> list[Row]:
    def record(name: str, seed: int) -> RunRecord:
        if name not in plans or name in errors or not plans[name].is_done:
            return RunRecord(name, seed, error=errors.get(name, ""))
        return RunRecord(name, seed, read_json(plans[name].result, "the result of a run"))

    seeds = options.seeds or study.seeds
    return [Row(case, tuple(record(run_name(case, seed), seed) for seed in seeds)) for case in study.cases]


def _conditions(options: Options) -> list[str]:
    """Return how the runs were measured and how they differ from the declared study, a sentence each."""
    scaled = [] if options.budget == 1 else [f"The steps of every run are scaled by {options.budget:g}."]
    changed = ", ".join(f"{name}={json.dumps(value)}" for name, value in options.changes.items())
    changes = [f"Settings changed in all runs: {changed}."] if changed else []
    return [f"Networks are measured in {options.engine}.", *scaled, *changes]


def _result(
    name: str, study: Study, options: Options, plans: Mapping[str, Plan], rows: Sequence[Row], started: float
) -> dict[str, Any]:
    """Return everything: settings, every run with its scores, and the numbers of the table and of the drawing."""
    used = {title: data for each in plans.values() for title, data in each.sets.items()}
    sets = {title: {"path": ",".join(data.paths), "sha256": data.sha256} for title, data in used.items()}
    result = provenance.record(
        f"study {name}",
        settings={
            "budget": options.budget,
            "engine": options.engine,
            "seeds": list(options.seeds or study.seeds),
            "set": dict(options.changes),
            "weights": study.weights,
        },
        model={"name": "trained here", "sha256": ""},
        data={"path": ",".join(f"{title}={data['path']}" for title, data in sets.items()), "sets": sets},
        scores={"rows": [_row_json(study, row) for row in rows]},
        started=started,
    )
    return result.to_json()


def _row_json(study: Study, row: Row) -> dict[str, Any]:
    columns = {}
    (single,) = grouped([row])
    for column in study.columns:
        mean, spread = single.summary(column)
        numbers = {"mean": mean, "spread": spread, "values": list(single.values(column).values())}
        columns[column.title] = {**numbers, "published": row.case.published.get(column.title)}
    return {"labels": row.case.labels, "columns": columns, "runs": [_run_json(study, run) for run in row.runs]}


def _run_json(study: Study, run: RunRecord) -> dict[str, Any]:
    """Return the result of a run with those of its series that the study shows."""
    if run.result is None:
        return {"name": run.name, "seed": run.seed, "error": run.error or "not run"}
    series = {name: found._asdict() for pattern in study.series for name, found in run.series(pattern).items()}
    return {**run.result, "series": series, "complete_series": list(study.series)}


def _page(
    name: str, study: Study, parts: Sequence[str | Table], drawing: StudyDrawing | None, run: dict[str, Any]
) -> page.Page:
    """Return the same report with tables that can be sorted, the drawing, and the cost."""
    results: list[page.Part] = [page.Text(part) if isinstance(part, str) else part for part in parts]
    sections = [page.Section("Results", results)]
    if drawing is not None:
        sections.append(page.Section("Figures", [drawing]))
    cost: list[page.Part] = [page.Text(f"{run['seconds']:,.0f} seconds."), page.Code(run["command"])]
    title = f"{study.summary[:1].upper()}{study.summary[1:]}"
    sections.append(page.Section("Cost and commands", cost))
    return page.Page(title, lead=f"patchprint study {name}", sections=sections, origin=provenance.origin([run]))
