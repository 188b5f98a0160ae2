"""One run: which weights are measured, and a measure that cannot be taken."""

from __future__ import annotations

import json
from pathlib import Path

from patchprint.networks import weights
from patchprint.studies import Measure
from patchprint.studies._one_run import attempt
from patchprint.studies._plan import plan
from support.toy_studies import options, toy_study


def test_the_measured_weights_are_those_that_the_study_names(training_store: str, tmp_path: Path) -> None:
    for chosen in ("best", "last"):
        given = options(tmp_path / chosen, training_store, keep=True, changes={"validate_every": 1})
        run = plan(toy_study(weights=chosen), given)["hynet-plain-seed0"]
        assert attempt(run) == ""
        measured = json.loads(run.result.read_text(encoding="utf-8"))
        assert measured["labels"] == {"recipe": "hynet", "norms": "plain"}
        assert measured["model"]["sha256"] == weights.load_network(run.folder / f"{chosen}.safetensors").info.sha256


def test_weights_are_measured_in_float32_unless_asked_otherwise(training_store: str, tmp_path: Path) -> None:
    engines = {}
    for name, asked in (("float32", {}), ("bfloat16", {"engine": "bfloat16"})):
        run = plan(toy_study(), options(tmp_path / name, training_store, **asked))["hynet-plain-seed0"]
        assert attempt(run) == ""
        engines[run.checksum] = json.loads(run.result.read_text(encoding="utf-8"))["scores"]["test"]["engine"]
    assert list(engines.values()) == ["float32", "bfloat16"]


def test_a_wrong_measure_is_one_sentence(training_store: str, tmp_path: Path) -> None:
    study = toy_study(measures={"test": Measure("ubc", on="test", settings={"pears": 3})})
    run = plan(study, options(tmp_path, training_store))["hynet-plain-seed0"]
    assert attempt(run) == "benchmark 'ubc' has no option 'pears'; did you mean pairs?"
    assert not run.result.exists()
