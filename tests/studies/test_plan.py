"""From a study and flags to runs: steps, settings, names, folders, sets."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from patchprint.errors import UserError
from patchprint.studies._arguments import read_changes, read_sets
from patchprint.studies._plan import FEWEST_STEPS, plan
from support.toy_studies import options, toy_study


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
    facts["files"]["part.npy"]["sha256"] = "0" * 64
    changed.write_text(json.dumps(facts))
    assert folder(str(tmp_path / "copy")) != folder()


def test_several_stores_are_one_set(training_store: str, tmp_path: Path) -> None:
    shutil.copytree(training_store, tmp_path / "more")
    data = read_sets([f"train={training_store},{tmp_path / 'more'}", f"test={training_store}"])
    runs = plan(toy_study(), options(tmp_path, training_store, data=data))
    assert runs["hardnet-sec-seed0"].config.data == (training_store, str(tmp_path / "more"))


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


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"budget": 0.0}, "--budget is 0"),
        ({"jobs": 0}, "--jobs is 0"),
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
    ("words", "message"),
    [(["cub.zip"], "NAME=PATH"), (["cub="], "NAME=PATH"), (["cub=a", "cub=b"], "cub twice")],
)
def test_wrong_sets_are_one_sentence(words: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        read_sets(words)
