"""A run of a benchmark: what its predictions depend on, and that they are computed once and survive damage."""

import dataclasses
from pathlib import Path

import cv2
import numpy as np
import pytest

from patchprint.benchmarks import BENCHMARKS, PredictionCache, Run, evaluate, measure
from patchprint.benchmarks._benchmark import checksum_of, code_checksum
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
    settings = {"step": 90.0, "keypoints": 60}
    result = evaluate("rotation", "pixels", data=tmp_path / "a.png", device="cpu", cache=tmp_path / "cache", **settings)
    run = run_of("rotation", "pixels", tmp_path / "a.png", **settings)
    assert result.scores == measure(run).scores and result.scores["mean_oriented"] > 0
    assert result.model["name"] == "pixels" and result.settings["keypoints"] == 60
    again = evaluate("rotation", "pixels", data=tmp_path / "a.png", device="cpu", cache=tmp_path / "cache", **settings)
    assert again.scores == result.scores and again.run["cache"]["misses"] == 0


def test_a_prediction_is_computed_once_and_again_where_its_file_is_damaged(tmp_path: Path) -> None:
    calls = []

    def compute() -> dict[str, np.ndarray]:
        calls.append(1)
        return {"x": np.arange(3.0)}

    for _ in range(2):
        cache = PredictionCache(tmp_path)
        np.testing.assert_array_equal(cache.get({"model": "a", "n": 1}, compute)["x"], np.arange(3.0))
    assert len(calls) == 1 and (cache.hits, cache.misses) == (1, 0)
    file = next(tmp_path.glob("*.npz"))
    file.write_bytes(file.read_bytes()[:40])
    for _ in range(2):
        PredictionCache(tmp_path).get({"model": "a", "n": 1}, compute)
    assert len(calls) == 2
    nowhere = PredictionCache(None)
    for _ in range(2):
        nowhere.get({"model": "a", "n": 1}, compute)
    assert (nowhere.hits, nowhere.misses) == (0, 2)


def test_the_code_checksum_sees_the_sampler_and_not_the_reports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "patchprint"
    for name in ("__init__.py", "sampler/__init__.py", "report/page.py"):
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text("1")
    monkeypatch.setattr("patchprint.__file__", str(package / "__init__.py"))
    sums = [code_checksum.__wrapped__()]
    for name in ("report/page.py", "sampler/__init__.py"):
        (package / name).write_text("2")
        sums.append(code_checksum.__wrapped__())
    assert sums[0] == sums[1] != sums[2]
