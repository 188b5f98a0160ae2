"""The declared studies: each expands into runs that a recipe knows, shows scores in a table, and has the papers' numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from patchprint.benchmarks import BENCHMARKS
from patchprint.registry import check_options, option_names
from patchprint.studies import STUDIES, Study
from patchprint.studies._figures import write
from patchprint.studies._results import Row, RunRecord
from patchprint.studies._tables import document
from patchprint.training import RECIPES, resolve

EVERY_STUDY = pytest.mark.parametrize("name", STUDIES)


def made_up_rows(study: Study) -> list[Row]:
    """Every column has a number in every run, which differs from run to run."""

    def nested(value: float) -> dict[str, Any]:
        scores: dict[str, Any] = {measure: {"headline": {}, "scores": {}} for measure in study.measures}
        for column in study.columns:
            measure, _, path = column.value.partition(".")
            if measure != "end":
                *parents, last = path.split(".")
                place = scores[measure]["scores"]
                for parent in parents:
                    place = place.setdefault(parent, {})
                place[last] = value
        return scores

    def run(number: int, seed: int) -> RunRecord:
        value = 0.1 + 0.01 * number + 0.001 * seed
        logged = {column.value.partition(".")[2]: value for column in study.columns if column.value.startswith("end.")}
        samples = {f"norm/sample-{sample}": value + sample for sample in range(8)}
        lines = [{"step": step, "norm/mean": 1.0, "norm/variance": 0.5, **samples, **logged} for step in (10, 20)]
        return RunRecord(f"run-{number}", seed, {"scores": nested(value)}, lines)

    return [Row(case, tuple(run(n, seed) for seed in study.seeds)) for n, case in enumerate(study.cases)]


@EVERY_STUDY
def test_its_runs_are_those_of_a_recipe(name: str) -> None:
    for case in STUDIES[name]().cases:
        config = resolve(case.recipe, data=("x",), **case.settings)
        assert config.recipe in RECIPES


@EVERY_STUDY
def test_its_measures_are_benchmarks(name: str) -> None:
    for measure in STUDIES[name]().measures.values():
        check_options(measure.benchmark, measure.settings, option_names(BENCHMARKS[measure.benchmark]().settings))


@EVERY_STUDY
def test_its_table_and_drawing_show_all_cases(name: str, tmp_path: Path) -> None:
    study = STUDIES[name]()
    rows = made_up_rows(study)
    page = document(name, study, rows, [])
    lines = page.split("\n\n")[2].splitlines()
    assert len(lines) == len(study.cases) + 2
    assert "–" not in page.split("\n\n")[2]
    for case, line in zip(study.cases, lines[2:], strict=True):
        assert all(f"({value:.2f})" in line for value in case.published.values())
    write(tmp_path / "drawing.svg", study, rows)
    drawing = (tmp_path / "drawing.svg").read_text(encoding="utf-8")
    assert all(value in drawing for case in study.cases for value in case.labels.values())


def published(name: str, *labels: str) -> list[float]:
    (case,) = (case for case in STUDIES[name]().cases if tuple(case.labels.values()) == labels)
    return list(case.published.values())


def test_published_numbers_stand_in_their_rows() -> None:
    assert len(STUDIES["metric-losses"]().cases) == 2 * 5 * 3
    assert published("metric-losses", "cub", "triplet", "plain") == [59.85, 23.39, 53.34]
    assert published("metric-losses", "cub", "n-pair", "SEC") == [72.24, 43.21, 66.00]
    assert published("metric-losses", "cars", "multi-similarity", "L2 penalty") == [71.00, 42.55, 84.82]
    assert published("metric-losses", "cars", "tuplet-margin", "L2 penalty") == []
    assert published("metric-losses", "cars", "tuplet-margin", "SEC") == [72.77, 43.03, 84.20]
    assert published("metric-norms", "0.5", "mean") == [72.67, 44.67, 85.19, 3.20]
    assert published("metric-head", "batch", "SEC") == [67.71, 35.71, 62.46, 7.01]
    assert published("simclr", "SEC") == [87.00]


def test_metric_losses_have_the_papers_batches_and_weights() -> None:
    settings = {tuple(case.labels.values()): case.settings for case in STUDIES["metric-losses"]().cases}
    assert settings["cub", "semihard", "SEC"] == {"loss": "semihard", "views": 3, "batch": 40, "sec": 0.5}
    assert settings["cars", "n-pair", "L2 penalty"] == {
        "loss": "n-pair", "views": 2, "batch": 60, "norm_penalty": 0.005,
    }  # fmt: skip
    assert all(values["views"] * values["batch"] == 120 for values in settings.values())
    assert {values["sec"] for labels, values in settings.items() if labels[1] != "semihard" and "sec" in values} == {1}
