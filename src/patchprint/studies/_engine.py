"""Runs of a study side by side, each done once; then one JSON, one table, one drawing, and one page of all."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tqdm import tqdm

from patchprint.common import files, provenance
from patchprint.common.devices import choose_device
from patchprint.common.safe_io import read_json
from patchprint.report.page import write
from patchprint.studies import _figures, _one_run, _page, _tables
from patchprint.studies._plan import DataSet, Options, Plan, asked_for, plan, run_name
from patchprint.studies._results import Row, RunRecord
from patchprint.studies._study import Study
from patchprint.studies._workers import run_tasks
from patchprint.training.run_folder import read_metrics

MADE_BY = "patchprint study"


@dataclass(frozen=True)
class Report:
    """What a study leaves: the whole result, its table, and how many runs failed."""

    result: dict[str, Any]
    table: str
    failed: int


def run_study(name: str, study: Study, options: Options) -> Report:
    """Do the runs that are not done yet, and write NAME.json, NAME.md, NAME.svg and NAME.html into ``options.out``.

    A run that was stopped goes on from its checkpoint. One that fails is reported, and the others go on.
    """
    started = time.monotonic()
    choose_device(options.device)
    if study.figures:
        _figures.check()
    plans = plan(study, options)
    with files.only_writer(options.out):
        written = [f"{name}{suffix}" for suffix in (".json", ".md", ".svg", ".html")]
        files.claim_folder(options.out, MADE_BY, [*written, "runs/*"])
        _adopt(asked_for(plans, options), options.reuse)
        errors = _do(asked_for(plans, options), options)
        if not options.keep:
            _remove_weights(asked_for(plans, options), plans)
        rows = _rows(study, options, plans, errors)
        table = _tables.document(name, study, rows, _conditions(options))
        result = _result(name, study, options, plans, rows, started)
        files.write_json(options.out / f"{name}.json", result)
        files.write_text(options.out / f"{name}.md", table)
        drawing = options.out / f"{name}.svg" if study.figures else None
        if drawing is not None:
            _figures.write(drawing, study, rows)
        write(_page.page(table, drawing, result), options.out / f"{name}.html")
    return Report(result, table, len(errors))


def _adopt(plans: Sequence[Plan], studies: Sequence[Path]) -> None:
    """Copy what other studies did with the same settings, data and measures: all that is left of a run without its weights."""
    for each in plans:
        known = [path for study in studies for path in (study / "runs").glob(f"*-{each.checksum}.json")]
        found = [path for path in known if (path.with_suffix("") / "metrics.jsonl").is_file()]
        if found and not _is_done(each) and not each.folder.exists():
            each.runs.mkdir(parents=True, exist_ok=True)
            result = {**read_json(found[0], "the result of a run"), "labels": each.case.labels}
            with files.atomic_folder(each.folder, MADE_BY) as folder:
                for name in ("config.json", "metrics.jsonl"):
                    shutil.copy(found[0].with_suffix("") / name, folder)
            files.write_json(each.result, result)


def _do(plans: Sequence[Plan], options: Options) -> dict[str, str]:
    """Do what is not done; returns the sentences of those that failed, by name."""
    waiting = _waiting(plans)
    errors: dict[str, str] = {}
    number = len(plans) - len(waiting)
    with tqdm(total=len(plans), initial=number, unit="run", disable=None) as bar:
        for ready in _waves(waiting):
            able = [each for each in ready if each.start is None or each.start.name not in errors]
            errors |= {
                each.name: f"{each.start.name}, which it starts from, failed"
                for each in ready
                if each not in able and each.start
            }
            for each, error in run_tasks(_one_run.attempt, able, options.workers):
                number += 1
                bar.update()
                if error:
                    errors[each.name] = error
                if error or bar.disable:
                    words = f"failed: {error}" if error else "done"
                    bar.write(f"{number} of {len(plans)}: {each.name} {words}", file=sys.stderr)
    return errors


def _waiting(plans: Sequence[Plan]) -> list[Plan]:
    """What is to be done: runs without a result, and those without weights that one of these starts from."""
    waiting: list[Plan] = []
    for each in reversed(plans):  # a run stands behind the one it starts from
        needed = any(other.start == each for other in waiting)
        if not _is_done(each) or (needed and not each.measured_weights.is_file()):
            waiting.insert(0, each)
    return waiting


def _waves(waiting: Sequence[Plan]) -> Iterator[list[Plan]]:
    """The same runs in groups, each behind the runs that it starts from."""
    while waiting:
        names = {each.name for each in waiting}
        ready = [each for each in waiting if each.start is None or each.start.name not in names]
        yield ready
        waiting = [each for each in waiting if each not in ready]


def _remove_weights(done: Sequence[Plan], plans: Mapping[str, Plan]) -> None:
    """Of all runs that are done, but for those that another run is yet to start from."""
    needed = {each.start.name for each in plans.values() if each.start is not None and not _is_done(each)}
    for each in done:
        if _is_done(each) and each.name not in needed:
            _one_run.remove_weights(each)


def _is_done(plan: Plan) -> bool:
    return plan.result.is_file() and (plan.folder / "metrics.jsonl").is_file()


def _rows(study: Study, options: Options, plans: dict[str, Plan], errors: dict[str, str]) -> list[Row]:
    def record(name: str, seed: int) -> RunRecord:
        found, error = plans.get(name), errors.get(name, "")
        if found is None or error or not _is_done(found):
            return RunRecord(name, seed, error=error)
        result = read_json(found.result, "the result of a run")
        return RunRecord(name, seed, result, read_metrics(found.folder / "metrics.jsonl"))

    seeds = options.seeds or study.seeds
    return [Row(case, tuple(record(run_name(case, seed), seed) for seed in seeds)) for case in study.cases]


def _conditions(options: Options) -> list[str]:
    """How the runs were measured, and in what they differ from the study as it is declared."""
    measured = [f"Networks are measured in {options.engine}."]
    scaled = [] if options.budget == 1 else [f"The steps of every run are scaled by {options.budget:g}."]
    changed = ", ".join(f"{name}={json.dumps(value)}" for name, value in options.changes.items())
    return [*measured, *scaled, *([f"Settings changed in all runs: {changed}."] if changed else [])]


def _result(
    name: str, study: Study, options: Options, plans: dict[str, Plan], rows: list[Row], started: float
) -> dict[str, Any]:
    """Everything: settings, every run with its scores, and the numbers of the table and of the drawing."""
    used = {title: data for each in plans.values() for title, data in _sets(study, each).items()}
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


def _sets(study: Study, plan: Plan) -> dict[str, DataSet]:
    """The sets of a run by their names."""
    measured = {study.measures[title].on or plan.case.learns: each.data for title, each in plan.measures.items()}
    selecting = dict(zip(plan.case.selects_on, plan.selects_on, strict=True))
    return {plan.case.learns: plan.learns, **selecting, **measured}


def _row_json(study: Study, row: Row) -> dict[str, Any]:
    columns = {}
    for column in study.columns:
        mean, spread = row.summary(column)
        numbers = {"mean": mean, "spread": spread, "values": list(row.values(column).values())}
        columns[column.title] = {**numbers, "published": row.case.published.get(column.title)}
    return {"labels": row.case.labels, "columns": columns, "runs": [_run_json(study, run) for run in row.runs]}


def _run_json(study: Study, run: RunRecord) -> dict[str, Any]:
    known = {"name": run.name, "seed": run.seed}
    if run.result is None:
        return {**known, "error": run.error or "not run"}
    series = {name: found._asdict() for pattern in study.series for name, found in run.series(pattern).items()}
    return {
        **known,
        "config": run.result["settings"],
        "outcome": run.result.get("outcome"),  # older runs have none
        "measured": run.result["scores"],
        "series": series,
        "run": run.result["run"],
    }
