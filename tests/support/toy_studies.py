"""Small studies: one that trains narrow networks in a second, and rows with made-up scores."""

import dataclasses
from pathlib import Path
from typing import Any

from patchprint.studies import Bars, Case, Column, Curves, Measure, Options, Study
from patchprint.studies._results import Row, RunRecord

NARROW = {
    "network_options": {"width": 4, "dim": 32},
    "steps": 12,
    "batch": 8,
    "validation_pairs": 64,
    "checkpoint_every": 4,
    "precision": "float32",
    "acceleration": "eager",
}
COLUMNS = (
    Column("FPR95 %", "test.fpr95"),
    Column("area", "test.roc_auc", scale=100, digits=1),
    Column("norm variance", "log.norm/variance", digits=3, compared=False),
)


def toy_study(seeds: tuple[int, ...] = (0, 1), **changes: Any) -> Study:
    """HardNet and HyNet, plain and with SEC, on one store and measured on another."""
    values: dict[str, Any] = {
        "summary": "a toy",
        "data": {"train": "a store to learn from", "test": "a store to test on"},
        "cases": tuple(
            Case(
                {"recipe": recipe, "norms": norms},
                recipe,
                learns="train",
                settings={**NARROW, "sec": weight},
                published={"FPR95 %": 10.0 - weight} if recipe == "hardnet" else {},
            )
            for recipe in ("hardnet", "hynet")
            for norms, weight in (("plain", 0.0), ("SEC", 1.0))
        ),
        "measures": {"test": Measure("ubc", on="test", settings={"pairs": 200})},
        "columns": COLUMNS,
        "seeds": seeds,
        "baseline": ("norms", "plain"),
        "figures": (
            Bars("FPR95 %", bars="norms", groups=("recipe",)),
            Curves("norm/*", "norms", panels=("recipe", "norms")),
        ),
    }
    return Study(**{**values, **changes})


def chained(**changes: Any) -> Study:
    """HardNet, and with SEC from its weights."""
    plain, sec = toy_study().cases[:2]
    return toy_study(cases=(plain, dataclasses.replace(sec, starts_from=plain.name)), **changes)


def options(out: Path, store: str, **changes: Any) -> Options:
    values: dict[str, Any] = {"data": {"train": (Path(store),), "test": (Path(store),)}, "device": "cpu"}
    return Options(out=out, **{**values, **changes})


def record(seed: int, error: str = "", **scores: Any) -> RunRecord:
    """A run with made-up scores; ``norm_variance`` is what it logged last."""
    if error or not scores:
        return RunRecord(f"run-seed{seed}", seed, error=error)
    variance = scores.pop("norm_variance", 0.5)
    measured = {"headline": {"FPR95 %": scores.get("fpr95")}, "scores": scores}
    logged = {"norm/mean": [1.0, 2.0], "norm/variance": [0.0, variance]}
    series = {name: {"steps": [0, 1], "values": values} for name, values in logged.items()}
    result = {"measured": {"test": measured}, "config": {}, "outcome": {}, "series": series, "run": {}}
    return RunRecord(f"run-seed{seed}", seed, result)


def rows_of(study: Study, *runs: tuple[RunRecord, ...]) -> list[Row]:
    return [Row(case, each) for case, each in zip(study.cases, runs, strict=True)]


def reduced(study: Study) -> Study:
    """Its first and last case and all that these start from, with one seed: enough to see that it starts."""
    ends = {case.name for case in (*study.cases[:1], *study.cases[-1:])}
    wanted = ends | {study.case(name).starts_from for name in ends}
    cases = tuple(_with_few_bins(case) for case in study.cases if case.name in wanted)
    needed = {name for case in cases for name in (case.learns, *case.selects_on)}
    needed |= {measure.on for measure in study.measures.values() if measure.on}
    data = {name: what for name, what in study.data.items() if name in needed}
    few = {"ubc": {"pairs": 200}, "hpatches": {"list_length": 20}, "rome": {"split": "all"}}
    measures = {
        title: dataclasses.replace(measure, settings={**measure.settings, **few.get(measure.benchmark, {})})
        for title, measure in study.measures.items()
    }
    return dataclasses.replace(study, data=data, cases=cases, measures=measures, seeds=(0,))


def _with_few_bins(case: Case) -> Case:
    """Keep the bins of DOAP below the number of pairs of a toy batch."""
    loss = case.settings.get("loss_settings", {})
    if "bins" not in loss:
        return case
    return dataclasses.replace(
        case, settings={**case.settings, "loss_settings": {**loss, "bins": min(loss["bins"], 200)}}
    )
