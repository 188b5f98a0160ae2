"""Tables of a study: spread over seeds, published values, gains, and plain words for what is missing."""

import dataclasses

import pytest

from patchprint.common.table import Table
from patchprint.studies import Study
from patchprint.studies._results import Row, blocks, gains_table, grouped, results_table
from support.toy_studies import COLUMNS, record, rows_of, toy_study


def text(study: Study, rows: list[Row], *conditions: str) -> str:
    return "\n\n".join(
        part.to_markdown() if isinstance(part, Table) else part for part in blocks(study, rows, conditions)
    )


def lines(table: Table) -> list[str]:
    return table.to_markdown().splitlines()


def made_up() -> list[tuple]:
    return [
        (record(0, fpr95=4.0, roc_auc=0.9), record(1, fpr95=6.0, roc_auc=0.9)),
        (record(0, fpr95=3.0, roc_auc=0.95), record(1, fpr95=4.0, roc_auc=0.95)),
        (record(0, fpr95=7.0), record(1, error="the loss became NaN")),
        (record(0), record(1, error="no memory")),
    ]


def test_results_have_spread_and_published_values() -> None:
    study = toy_study()
    assert lines(results_table(study, rows_of(study, *made_up()))) == [
        "| recipe | norms | FPR95 % (published) | area | norm variance |",
        "| --- | --- | ---: | ---: | ---: |",
        "| hardnet | plain | 5.00 ± 1.41 (10.00) | 90.0 ± 0.0 | 0.500 ± 0.000 |",
        "| hardnet | SEC | 3.50 ± 0.71 (9.00) | 95.0 ± 0.0 | 0.500 ± 0.000 |",
        "| hynet | plain (1 of 2 runs) | 7.00 | – | 0.500 |",
        "| hynet | SEC | failed | failed | failed |",
    ]


def test_gains_stand_beside_the_published_ones() -> None:
    study = toy_study()
    assert lines(gains_table(study, grouped(rows_of(study, *made_up()))))[2:] == [
        "| hardnet | SEC | -1.50 ± 0.71 (-1.00) | +5.0 ± 0.0 |",
        "| hynet | SEC | failed | failed |",
    ]


def test_missing_runs_and_changed_settings_are_named() -> None:
    study = toy_study(notes="Known: nothing.")
    page = text(study, rows_of(study, *made_up()), "The steps of every run are scaled by 0.01.")
    assert "over the seeds 0, 1" in page
    assert "\nThe steps of every run are scaled by 0.01.\n" in page
    assert "Known: nothing." in page
    assert "* failed: run-seed1: the loss became NaN\n* failed: run-seed1: no memory\n* not run: run-seed0" in page


def test_means_over_a_label_have_the_columns_that_all_rows_have() -> None:
    study = toy_study(mean_over="recipe")
    done = [(record(0, fpr95=each, roc_auc=0.9), record(1, fpr95=each)) for each in (1.0, 2.0)]
    rows = rows_of(study, *done, *[(record(0, fpr95=each), record(1, fpr95=each)) for each in (3.0, 4.0)])
    assert lines(results_table(study, rows, "recipe")) == [
        "| norms | FPR95 % | norm variance |",
        "| --- | ---: | ---: |",
        "| plain | 2.00 ± 0.00 | 0.500 ± 0.000 |",
        "| SEC | 3.00 ± 0.00 | 0.500 ± 0.000 |",
    ]
    assert "Mean over recipe:" in text(study, rows)


def test_a_published_gain_needs_no_published_numbers() -> None:
    plain, sec = toy_study().cases[2:]
    study = toy_study(cases=(plain, dataclasses.replace(sec, published_gain={"FPR95 %": -0.39})))
    rows = rows_of(study, (record(0, fpr95=4.0), record(1, fpr95=6.0)), (record(0, fpr95=3.0), record(1, fpr95=4.0)))
    assert "| hynet | SEC | -1.50 ± 0.71 (-0.39) | – |" in lines(gains_table(study, grouped(rows)))
    assert "published values in parentheses" in text(study, rows)


def test_the_best_of_a_label_is_shown_and_compared() -> None:
    cases = tuple(
        dataclasses.replace(case, labels={**case.labels, "rate": rate})
        for case in toy_study().cases[:2]
        for rate in ("1", "2")
    )
    fpr95 = dataclasses.replace(COLUMNS[0], lower_is_better=True)
    study = toy_study(cases=cases, columns=(fpr95,), figures=(), best_over=("rate", "FPR95 %"))
    values = [(4.0, 6.0), (3.0, 5.0), (3.0, 5.4), (9.0, 9.0)]
    rows = rows_of(study, *[(record(0, fpr95=first), record(1, fpr95=second)) for first, second in values])
    page = text(study, rows)
    best, gains = page.split("Best rate of each by FPR95 %:")[1].split("Gain over norms = plain")
    assert best.splitlines()[4:6] == [
        "| hardnet | plain | 2 | 4.00 ± 1.41 (10.00) |",
        "| hardnet | SEC | 1 | 4.20 ± 1.70 (9.00) |",
    ]
    assert "| hardnet | SEC | +0.20 ± 0.28, cannot tell (-1.00) |" in gains
    higher = dataclasses.replace(study, columns=(COLUMNS[0],))
    assert "| hardnet | SEC | 2 | 9.00 ± 0.00 (9.00) |" in text(higher, rows).split("Best rate")[1]
    with pytest.raises(ValueError, match="best_over"):
        dataclasses.replace(study, best_over=("pears", "FPR95 %"))
