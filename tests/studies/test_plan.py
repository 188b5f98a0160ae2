"""From a study and flags to runs: steps, settings, names, folders, sets."""

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from patchprint.common.errors import UserError
from patchprint.studies._plan import FEWEST_STEPS, asked_for, plan, read_changes, read_sets
from support.toy_studies import chained, options, toy_study


def test_every_case_is_run_with_every_seed(training_store: str, tmp_path: Path) -> None:
    plans = plan(toy_study(), options(tmp_path, training_store))
    assert list(plans)[:3] == ["hardnet-plain-seed0", "hardnet-plain-seed1", "hardnet-sec-seed0"]
    assert len({each.folder for each in plans.values()}) == 8
    config = plans["hynet-sec-seed1"].config
    assert (config.recipe, config.sec, config.seed, config.data) == ("hynet", 1.0, 1, (training_store,))
    assert next(iter(plan(toy_study(), options(tmp_path, training_store, seeds=(7,))))) == "hardnet-plain-seed7"


def test_the_budget_scales_steps(training_store: str, tmp_path: Path) -> None:
    def first(**changes: Any) -> Any:
        return next(iter(plan(toy_study(), options(tmp_path, training_store, **changes)).values())).config

    assert first(changes={"steps": 3000}, budget=0.1).steps == 300
    assert first(changes={"steps": 3000}, budget=0.1).log_every == 3
    assert first(changes={"steps": 30_000}).log_every == 100
    assert first(changes={"steps": 3000}, budget=1e-6).steps == FEWEST_STEPS
    assert first(changes={"steps": 4}, budget=0.5).steps == 4
    assert first(budget=2.0).steps == 24


def test_changes_win_and_options_are_merged(training_store: str, tmp_path: Path) -> None:
    changes = read_changes(["batch=32", "network_options.width=8", "loss_settings.margin=0.5"])
    given = options(tmp_path, training_store, changes=changes)
    config = plan(toy_study(), given)["hardnet-plain-seed0"].config
    assert config.batch == 32
    assert config.network_options == {"width": 8, "dim": 32, "dropout": 0.3}
    assert config.loss_settings == {"margin": 0.5}


def test_a_folder_belongs_to_settings_and_data_and_not_to_the_machine(training_store: str, tmp_path: Path) -> None:
    def folder(store: str = training_store, **changes: Any) -> str:
        return plan(toy_study(), options(tmp_path, store, **changes))["hynet-sec-seed1"].folder.name

    assert folder().startswith("hynet-sec-seed1-")
    assert folder() == folder(device="auto", only="hynet*", keep=True, seeds=(1, 2))
    assert len({folder(), folder(budget=2.0), folder(changes={"batch": 16})}) == 3
    shutil.copytree(training_store, tmp_path / "copy")
    assert folder(str(tmp_path / "copy")) == folder()
    changed = tmp_path / "copy" / "manifest.json"
    facts = json.loads(changed.read_text())
    changed.write_text(json.dumps({**facts, "photos": 7}))
    assert folder(str(tmp_path / "copy")) == folder(), "it holds the same files"
    next(iter(facts["files"].values()))["sha256"] = "0" * 64
    changed.write_text(json.dumps(facts))
    assert folder(str(tmp_path / "copy")) != folder()


def test_a_set_is_needed_by_the_runs_that_were_asked_for(training_store: str, tmp_path: Path) -> None:
    cases = toy_study().cases
    study = toy_study(
        data={"train": "one store", "other": "another store", "test": "a store to test on"},
        cases=(cases[0], *(type(case)(case.labels, case.recipe, "other", case.settings) for case in cases[1:])),
    )
    with pytest.raises(UserError, match=r"needs --data other=PATH \(another store\)"):
        plan(study, options(tmp_path, training_store))
    assert list(plan(study, options(tmp_path, training_store, only="hardnet-plain-*", seeds=(0,)))) == [
        "hardnet-plain-seed0"
    ]


def test_a_run_starts_from_that_of_another_case_with_its_seed(training_store: str, tmp_path: Path) -> None:
    given = options(tmp_path, training_store, only="hardnet-sec-seed1")
    plans = plan(chained(), given)
    first, second = plans["hardnet-plain-seed1"], plans["hardnet-sec-seed1"]
    assert second.start == first
    assert second.config.init == str(first.folder / "last.safetensors")
    assert first.config.init is None
    assert [each.name for each in asked_for(plans, given)] == ["hardnet-plain-seed1", "hardnet-sec-seed1"]
    alone = plan(toy_study(), given)
    assert second.folder != alone["hardnet-sec-seed1"].folder
    assert first.folder == alone["hardnet-plain-seed1"].folder
    elsewhere = plan(chained(), options(tmp_path / "elsewhere", training_store))["hardnet-sec-seed1"]
    assert elsewhere.folder.name == second.folder.name


def test_test_sets_choose_as_often_as_in_a_whole_run(training_store: str, tmp_path: Path) -> None:
    cases = tuple(dataclasses.replace(case, selects_on=("test",)) for case in toy_study().cases)
    changes = {"validate_every": 100, "steps": 1000}
    given = options(tmp_path, training_store, budget=0.1, changes=changes)
    chosen = plan(toy_study(cases=cases), given)["hynet-sec-seed0"]
    assert chosen.config.select_on_test == (training_store,)
    assert (chosen.config.steps, chosen.config.validate_every) == (100, 10)
    usual = plan(toy_study(), given)["hynet-sec-seed0"]
    assert (usual.config.select_on_test, usual.config.validate_every) == ((), 100)
    assert usual.folder != chosen.folder


def test_nothing_is_measured_on_what_was_learned(training_store: str, tmp_path: Path) -> None:
    learned = dataclasses.replace(toy_study().cases[1], learns="test")
    plans = plan(toy_study(cases=(toy_study().cases[0], learned)), options(tmp_path, training_store))
    assert set(plans["hardnet-plain-seed0"].measures) == {"test"}
    assert plans["hardnet-sec-seed0"].measures == {}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"budget": 0.0}, "--budget is 0"),
        ({"workers": 0}, "--workers is 0"),
        ({"seeds": (1, 1)}, "names a seed twice"),
        ({"changes": {"seed": 3}}, "give --seeds"),
        ({"changes": {"bach": 3}}, "did you mean batch"),
        ({"only": "sosnet*"}, "called like hardnet-plain-seed0"),
        ({"data": {"trian": (Path("x"),)}}, "did you mean train"),
        ({"data": {"train": (Path("nowhere"),), "test": (Path("nowhere"),)}}, "there is no nowhere"),
    ],
)
def test_wrong_options_are_one_sentence(
    changes: dict[str, Any], message: str, training_store: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=message):
        plan(toy_study(), options(tmp_path, training_store, **changes))


@pytest.mark.parametrize(
    ("words", "message"), [(["cub.zip"], "NAME=PATH"), (["cub="], "NAME=PATH"), (["cub=a", "cub=b"], "cub twice")]
)
def test_wrong_sets_are_one_sentence(words: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        read_sets(words)
