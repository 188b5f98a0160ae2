"""A study from end to end on narrow networks: done once, resumed, failed in part, chosen in part, side by side."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from patchprint.common.errors import UserError
from patchprint.networks import weights
from patchprint.studies import run_study
from patchprint.studies._engine import do_run
from patchprint.studies._plan import plan
from patchprint.training import loop
from support.toy_studies import chained, options, toy_study

STEP = loop._Run._run_step


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The run folder of every training step that is done."""
    done: list[str] = []

    def step(run: Any) -> None:
        done.append(run.out.name.rpartition("-")[0])
        STEP(run)

    monkeypatch.setattr(loop._Run, "_run_step", step)
    return done


def small(**changes: Any) -> Any:
    """Two cases of the toy study."""
    return toy_study(cases=toy_study().cases[:2], **changes)


def test_from_runs_to_table_and_drawing(
    training_store: str, tmp_path: Path, steps: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "toy"
    report = run_study("toy", small(), options(out, training_store))
    assert len(steps) == 4 * 12
    assert sorted(path.name for path in out.iterdir() if not path.name.startswith(".")) == [
        "runs", "toy.html", "toy.json", "toy.md", "toy.svg",
    ]  # fmt: skip
    assert (out / "toy.md").read_text(encoding="utf-8") == report.table
    assert report.failed == 0
    assert json.loads((out / "toy.json").read_text(encoding="utf-8")) == report.result
    assert set(report.result["run"]) >= {"command", "version", "machine", "date"}
    assert report.result["settings"]["seeds"] == [0, 1]
    assert len(report.result["data"]["sets"]["train"]["sha256"]) == 64
    plain, sec = report.result["scores"]["rows"]
    assert plain["labels"] == {"recipe": "hardnet", "norms": "plain"}
    numbers = plain["columns"]["FPR95 %"]
    assert len(set(numbers["values"])) == 2
    assert numbers["spread"] > 0
    assert numbers["published"] == 10.0
    assert f"{numbers['mean']:.2f} ± {numbers['spread']:.2f} (10.00)" in report.table
    run = sec["runs"][1]
    assert (run["name"], run["config"]["sec"], run["config"]["seed"]) == ("hardnet-sec-seed1", 1.0, 1)
    assert run["measured"]["test"]["scores"]["pairs"] == 200
    assert run["series"]["norm/variance"]["steps"] == list(range(1, 13))
    assert "4 of 4: hardnet-sec-seed1 done" in capsys.readouterr().err
    assert [path.suffix for path in (out / "runs").iterdir()] == [".json"] * 4, "no weights, logs or examples"
    page = (out / "toy.html").read_text(encoding="utf-8")
    assert "<title>A toy</title>" in page and page.count("<table") == 2 and "hardnet-plain" not in page
    assert "FPR95 % (published)" in page and "over the seeds 0, 1" in page and "<svg" in page


def test_finished_runs_are_not_repeated(training_store: str, tmp_path: Path, steps: list[str]) -> None:
    first = run_study("toy", small(), options(tmp_path / "toy", training_store, seeds=(0,)))
    steps.clear()
    again = run_study("toy", small(), options(tmp_path / "toy", training_store, seeds=(0,)))
    assert steps == []
    assert again.result["scores"] == first.result["scores"]
    run_study("toy", small(), options(tmp_path / "toy", training_store, seeds=(0, 1)))
    assert set(steps) == {"hardnet-plain-seed1", "hardnet-sec-seed1"}


def test_runs_of_another_study_are_taken_over(training_store: str, tmp_path: Path, steps: list[str]) -> None:
    first = run_study("toy", small(), options(tmp_path / "first", training_store))
    renamed = [replace(case, labels={**case.labels, "recipe": "ours"}) for case in small().cases]
    harder = replace(renamed[1], settings={**renamed[1].settings, "lr": 0.05})
    study = toy_study(cases=(renamed[0], harder))
    for source in ("first", "first/toy.json"):
        steps.clear()
        out = tmp_path / source.replace("/", "-of-")
        second = run_study(
            "toy", study, options(out / "second", training_store, reuse=(tmp_path / source,), seeds=(0,))
        )
        assert len(steps) == 12  # the second case alone, which has another rate
        before, after = (report.result["scores"]["rows"][0] for report in (first, second))
        assert after["labels"]["recipe"] == "ours" and after["runs"][0]["name"] == "ours-plain-seed0"
        assert after["columns"]["FPR95 %"]["values"] == before["columns"]["FPR95 %"]["values"][:1]
        assert after["runs"][0]["series"] == before["runs"][0]["series"]
    again = run_study("toy", study, options(out / "second", training_store, seeds=(0,)))
    assert again.table == second.table


def test_only_studies_can_be_reused(training_store: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="neither the output folder nor the JSON file of a study"):
        options(tmp_path / "toy", training_store, reuse=(tmp_path,))
    (tmp_path / "other.json").write_text("{}")
    given = options(tmp_path / "toy", training_store, reuse=(tmp_path / "other.json",))
    with pytest.raises(UserError, match="not the JSON file of a study"):
        run_study("toy", small(), given)


def test_an_interrupted_run_goes_on_from_its_checkpoint(
    training_store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: list[str]
) -> None:
    chosen = {"seeds": (0,), "only": "*-plain-*"}
    whole = run_study("toy", small(), options(tmp_path / "whole", training_store, **chosen))
    counting = loop._Run._run_step
    steps.clear()

    def stopped(run: Any) -> None:
        if len(steps) == 10:
            raise KeyboardInterrupt
        counting(run)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(loop._Run, "_run_step", stopped)
        run_study("toy", small(), options(tmp_path / "toy", training_store, **chosen))
    steps.clear()
    resumed = run_study("toy", small(), options(tmp_path / "toy", training_store, **chosen))
    assert len(steps) == 12 - 8
    plain, expected = (report.result["scores"]["rows"][0] for report in (resumed, whole))
    assert plain["columns"] == expected["columns"]
    assert plain["runs"][0]["series"] == expected["runs"][0]["series"]


@pytest.mark.parametrize(
    ("problem", "sentence"),
    [(UserError("try a lower --lr"), "try a lower --lr"), (TypeError("no such thing"), "TypeError: no such thing")],
)
def test_a_failed_run_is_reported_and_the_others_go_on(
    problem: Exception,
    sentence: str,
    training_store: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def step(run: Any) -> None:
        if run.config.sec and run.config.seed == 1:
            raise problem
        STEP(run)

    study, given = small(), options(tmp_path / "toy", training_store)
    with monkeypatch.context() as patch:
        patch.setattr(loop._Run, "_run_step", step)
        report = run_study("toy", study, given)
    assert report.failed == 1
    assert f"* failed: hardnet-sec-seed1: {sentence}" in report.table
    assert "SEC (1 of 2 runs)" in report.table
    assert sentence in report.result["scores"]["rows"][1]["runs"][1]["error"]
    assert f"hardnet-sec-seed1 failed: {sentence}" in capsys.readouterr().err
    if isinstance(problem, TypeError):
        assert "Traceback" in plan(study, given)["hardnet-sec-seed1"].log.read_text(encoding="utf-8")
    healed = run_study("toy", study, given)
    assert healed.failed == 0
    assert "failed" not in healed.table
    assert list((tmp_path / "toy").rglob("*.log")) == []


def test_runs_that_were_not_asked_for_are_listed(training_store: str, tmp_path: Path, steps: list[str]) -> None:
    out = tmp_path / "toy"
    part = run_study("toy", small(), options(out, training_store, only="*-plain-seed0"))
    assert set(steps) == {"hardnet-plain-seed0"}
    assert "* not run: hardnet-plain-seed1, hardnet-sec-seed0, hardnet-sec-seed1" in part.table
    assert part.failed == 0
    more = run_study("toy", small(), options(out, training_store, only="*-sec-seed0"))
    assert "* not run: hardnet-plain-seed1, hardnet-sec-seed1" in more.table


def test_weights_can_be_kept(training_store: str, tmp_path: Path, steps: list[str]) -> None:
    given = options(tmp_path / "toy", training_store, only="*-plain-seed0", keep=True)
    run_study("toy", small(), given)
    folder = plan(small(), given)["hardnet-plain-seed0"].folder
    assert (folder / "last.safetensors").is_file()
    steps.clear()
    run_study("toy", small(), options(tmp_path / "toy", training_store, only="*-plain-seed0"))
    assert steps == []
    assert list(folder.rglob("*.safetensors")) == []


def test_a_chain_of_runs(training_store: str, tmp_path: Path, steps: list[str]) -> None:
    """The second run starts from weights of the first, which are there as long as they are needed."""
    out, one = tmp_path / "toy", {"seeds": (0,)}
    part = run_study("toy", chained(), options(out, training_store, only="*-plain-*", **one))
    assert len(list(out.rglob("last.safetensors"))) == 1
    assert "not run: hardnet-sec-seed0" in part.table
    steps.clear()
    whole = run_study("toy", chained(), options(out, training_store, only="*-sec-*", **one))
    assert set(steps) == {"hardnet-sec-seed0"}
    assert list(out.rglob("*.safetensors")) == []
    plain, sec = (row["runs"][0] for row in whole.result["scores"]["rows"])
    assert sec["config"]["init"].endswith("last.safetensors")
    assert sec["series"]["norm/mean"]["values"][0] != plain["series"]["norm/mean"]["values"][0]
    plan(chained(), options(out, training_store, **one))["hardnet-sec-seed0"].result.unlink()
    steps.clear()
    again = run_study("toy", chained(), options(out, training_store, **one))
    assert set(steps) == {"hardnet-plain-seed0", "hardnet-sec-seed0"}
    assert again.result["scores"]["rows"][1]["columns"] == whole.result["scores"]["rows"][1]["columns"]


def test_a_run_whose_start_failed_is_not_begun(
    training_store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def step(run: Any) -> None:
        raise UserError("try a lower --lr")

    monkeypatch.setattr(loop._Run, "_run_step", step)
    report = run_study("toy", chained(seeds=(0,)), options(tmp_path / "toy", training_store))
    assert report.failed == 2
    assert "* failed: hardnet-sec-seed0: hardnet-plain-seed0, which it starts from, failed" in report.table


def test_the_measured_weights_are_those_that_the_study_names(training_store: str, tmp_path: Path) -> None:
    for chosen in ("best", "last"):
        given = options(tmp_path / chosen, training_store, changes={"validate_every": 1})
        run = plan(toy_study(weights=chosen), given)["hynet-plain-seed0"]
        assert do_run(run) == ""
        measured = json.loads(run.result.read_text(encoding="utf-8"))
        assert measured["sha256"] == weights.load_network(run.folder / f"{chosen}.safetensors").info.sha256


def test_a_foreign_folder_is_left_alone(training_store: str, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(UserError, match="did not write"):
        run_study("toy", small(), options(tmp_path, training_store))


@pytest.mark.slow
def test_side_by_side_gives_the_same_numbers(training_store: str, tmp_path: Path) -> None:
    # The runs use fewer threads each, which changes roundings.
    study, exact = small(seeds=(0,)), {"precision": "float64"}
    one = run_study("toy", study, options(tmp_path / "one", training_store, changes=exact))
    two = run_study("toy", study, options(tmp_path / "two", training_store, changes=exact, workers=2))
    assert two.failed == 0
    for here, there in zip(one.result["scores"]["rows"], two.result["scores"]["rows"], strict=True):
        variance = here["columns"]["norm variance"]["mean"]
        assert there["columns"]["norm variance"]["mean"] == pytest.approx(variance, rel=1e-6)
        assert [run["name"] for run in there["runs"]] == [run["name"] for run in here["runs"]]


def test_weights_are_measured_in_float32_unless_asked_otherwise(training_store: str, tmp_path: Path) -> None:
    engines = {}
    for name, asked in (("float32", {}), ("bfloat16", {"engine": "bfloat16"})):
        run = plan(toy_study(), options(tmp_path / name, training_store, **asked))["hynet-plain-seed0"]
        assert do_run(run) == ""
        engines[run.checksum] = json.loads(run.result.read_text(encoding="utf-8"))["measured"]["test"]["engine"]
    assert list(engines.values()) == ["float32", "bfloat16"]
