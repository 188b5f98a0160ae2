"""A run of a benchmark: what its predictions depend on."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import cv2
import numpy as np
import pytest

from patchprint.benchmarks import BENCHMARKS, PredictionCache, Run, evaluate, measure
from patchprint.benchmarks._cache import checksum_of
from patchprint.features.model import PixelModel
from support.benchmark_data import run_of
from support.fake_models import ColorImages
from support.known_images import texture


def test_changed_data_never_meets_old_predictions(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    file = tmp_path / "data" / "a.txt"
    answers = []
    for text in ("one", "two", "one"):
        file.write_text(text)
        run = run_of("rome", PixelModel(), tmp_path / "data", cache=PredictionCache(tmp_path / "cache"))
        found = run.predictions("text", lambda text=text: {"x": np.frombuffer(text.encode(), np.uint8)})
        answers.append(bytes(found["x"]))
        assert run.cache.hits == len(answers) // 3
    assert answers == [b"one", b"two", b"one"]


def keys(run: Run) -> str:
    return checksum_of(run.key("x"))


def test_every_setting_but_those_of_scoring_is_in_the_key(tmp_path: Path) -> None:
    for name in BENCHMARKS:
        model = ColorImages() if BENCHMARKS[name]().of_images else PixelModel()
        run = run_of(name, model, *([] if BENCHMARKS[name]().data_package else [tmp_path]))
        for field in dataclasses.fields(run.settings):
            value = getattr(run.settings, field.name)
            other = {bool: not value, int: 7, float: 0.123}.get(type(value), "another")
            changed = dataclasses.replace(run, settings=dataclasses.replace(run.settings, **{field.name: other}))
            assert (keys(changed) == keys(run)) == (field.name in run.benchmark.scoring), (name, field.name)


def test_changed_code_never_meets_old_predictions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = run_of("rome", PixelModel(), tmp_path)
    before = keys(run)
    monkeypatch.setattr("patchprint.benchmarks._benchmark.code_checksum", lambda: "edited")
    assert keys(run) != before


def test_python_measures_what_the_command_does(tmp_path: Path) -> None:
    cv2.imwrite(str(tmp_path / "a.png"), texture(200, 220))
    settings = {"steps": 2, "keypoints": 60}
    result = evaluate("scale", "pixels", data=tmp_path / "a.png", device="cpu", cache=tmp_path / "cache", **settings)
    run = run_of("scale", "pixels", tmp_path / "a.png", **settings)
    assert result.scores == measure(run).scores and result.scores["mean_oriented"] > 0
    assert result.model["name"] == "pixels" and result.settings["keypoints"] == 60
    again = evaluate("scale", "pixels", data=tmp_path / "a.png", device="cpu", cache=tmp_path / "cache", **settings)
    assert again.scores == result.scores and again.run["cache"]["misses"] == 0
