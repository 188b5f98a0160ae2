"""Numbers of runs and rows: where they are found, and mean and spread over seeds."""

import pytest

from patchprint.studies import Column
from patchprint.studies._results import Row, RunRecord, Summary, baseline_of, grouped, series_of, summarize
from support.toy_studies import record, rows_of, toy_study

RUN = record(0, fpr95=4.0, recall={"1": 0.25}, note="text", norm_variance=3.0)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("test.fpr95", 4.0),
        ("test.FPR95 %", 4.0),
        ("test.recall.1", 0.25),
        ("test.recall.2", None),
        ("test.recall", None),
        ("test.note", None),
        ("test.note.deeper", None),
        ("log.norm/variance", 3.0),
        ("log.norm/median", None),
    ],
)
def test_a_column_finds_its_number(value: str, expected: float | None) -> None:
    assert RUN.value(Column("x", value)) == expected


def test_a_column_is_scaled() -> None:
    assert RUN.value(Column("x", "test.recall.1", scale=100)) == 25.0


def test_several_values_are_their_mean() -> None:
    assert RUN.value(Column("x", ("test.fpr95", "test.recall.1", "elsewhere.fpr95"))) == (4.0 + 0.25) / 2


def test_a_quotient() -> None:
    assert RUN.value(Column("x", "test.fpr95", over="log.norm/variance", scale=3)) == 4.0
    assert RUN.value(Column("x", "test.fpr95", over="log.nothing")) is None


def test_the_last_logged_value_up_to_a_fraction_of_the_run() -> None:
    logged = series_of(
        [{"step": step, "loss/total": step / 100} for step in range(10, 101, 10)] + [{"step": 100, "lr": 1.0}]
    )
    series = {name: each._asdict() for name, each in logged.items()}
    run = RunRecord("run", 0, {"measured": {}, "config": {"steps": 100}, "series": series})
    assert [run.value(Column("x", "log.loss/total", at=at)) for at in (0.05, 0.15, 0.3, 1.0)] == [None, 0.1, 0.3, 1.0]


def test_the_outcome_of_training() -> None:
    run = RunRecord("run", 0, {"measured": {}, "outcome": {"best_step": 7, "mean": {"fpr95": 0.5}}})
    assert run.value(Column("x", "outcome.mean.fpr95", scale=100)) == 50.0
    assert run.value(Column("x", "outcome.best_step")) == 7
    assert RUN.value(Column("x", "outcome.best_step")) is None


def test_spread_is_the_sample_standard_deviation() -> None:
    assert summarize([1.0, 3.0]) == Summary(2.0, pytest.approx(2**0.5))
    assert summarize([1.0]) == Summary(1.0, None)
    assert summarize([]) == Summary(None, None)


def test_gains_are_paired_by_seed() -> None:
    study = toy_study()
    column = study.columns[0]
    plain, sec, one_failed = grouped(
        [
            Row(study.cases[0], (record(0, fpr95=5.0), record(1, fpr95=9.0))),
            Row(study.cases[1], (record(0, fpr95=4.0), record(1, fpr95=8.0))),
            Row(study.cases[2], (record(0, error="no"), record(1, fpr95=8.5))),
        ]
    )
    assert sec.gain(plain, column) == Summary(-1.0, 0.0)
    assert one_failed.gain(plain, column) == Summary(-0.5, None)


def test_the_baseline_differs_in_one_label() -> None:
    rows = grouped(rows_of(toy_study(), *[(record(0, fpr95=1.0),)] * 4))
    assert baseline_of(rows[3], rows, "norms", "plain") is rows[2]
    assert baseline_of(rows[2], rows, "norms", "plain") is None
    assert baseline_of(rows[3], rows[3:], "norms", "plain") is None
