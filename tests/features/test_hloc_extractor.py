"""hloc finds patchprint by name. A stub package has the entry points of hloc 1.5."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import patchprint
from patchprint.ops.distances import unpack_bits
from support.known_images import texture

BASE_MODEL = """
import importlib
import inspect
from torch import nn

class BaseModel(nn.Module):
    default_conf = {}
    required_inputs = []

    def __init__(self, conf):
        super().__init__()
        self.conf = {**self.default_conf, **conf}
        self._init(self.conf)

    def forward(self, data):
        assert all(key in data for key in self.required_inputs)
        return self._forward(data)

def dynamic_load(root, name):
    module = importlib.import_module(f"{root.__name__}.{name}")
    found = [value for _, value in inspect.getmembers(module, inspect.isclass) if value.__module__ == module.__name__]
    (only,) = [value for value in found if issubclass(value, BaseModel)]
    return only
"""


@pytest.fixture
def hloc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    root = tmp_path / "hloc"
    for folder in (root, root / "extractors", root / "utils"):
        folder.mkdir()
        (folder / "__init__.py").touch()
    (root / "utils" / "base_model.py").write_text(BASE_MODEL)
    for name in ("extract_features", "match_features"):
        (root / f"{name}.py").write_text("confs = {'sift': {}}\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("hloc")
    for name in [name for name in sys.modules if name.split(".")[0] == "hloc"]:
        del sys.modules[name]


def run(hloc: Any, conf: dict[str, Any], pixels: np.ndarray) -> dict[str, torch.Tensor]:
    loader = importlib.import_module("hloc.utils.base_model").dynamic_load
    extractor = loader(importlib.import_module("hloc.extractors"), conf["name"])(conf).eval().to("cpu")
    return extractor({"image": torch.from_numpy(pixels).float()[None, None] / 255})


@pytest.mark.parametrize("model", ["hardnet.small", "rootsift", "sdgmnet.bits"])
def test_an_extractor_gives_what_extract_gives(hloc: Any, model: str) -> None:
    names = patchprint.register_with_hloc()
    confs = importlib.import_module("hloc.extract_features").confs
    assert f"patchprint-{model}" in names and set(confs) == {"sift", *names}
    pixels = texture(120, 140, seed=3)
    found = run(hloc, {**confs[f"patchprint-{model}"]["model"], "max_keypoints": 40}, pixels)
    expected = patchprint.extract(pixels, model, max_keypoints=40)
    assert found["keypoints"].shape == (1, len(expected), 2) and found["scores"].shape == (1, len(expected))
    assert torch.equal(found["keypoints"][0].float(), expected.keypoints.xy)
    vectors = expected.descriptors
    if expected.is_binary:
        vectors = (unpack_bits(vectors).float() * 2 - 1) / 16
    assert torch.allclose(found["descriptors"][0].T.float(), vectors, atol=1e-3)


def test_matching_has_the_ratio_of_the_model(hloc: Any) -> None:
    names = patchprint.register_with_hloc()
    confs = importlib.import_module("hloc.match_features").confs
    assert set(confs) == {"sift", *names}
    ratios = {name: confs[name]["model"]["ratio_threshold"] for name in names}
    assert ratios["patchprint-sdgmnet"] == patchprint.load("sdgmnet").ratio
    assert ratios["patchprint-pixels"] == 0.8


def test_a_photo_without_keypoints_has_empty_features(hloc: Any) -> None:
    patchprint.register_with_hloc()
    found = run(hloc, {"name": "patchprint", "model": "hardnet.small"}, np.full((60, 60), 90, np.uint8))
    assert found["keypoints"].shape == (1, 0, 2) and found["descriptors"].shape == (1, 128, 0)


def test_without_hloc_there_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hloc", None)
    with pytest.raises(patchprint.UserError, match="hloc needs "):
        patchprint.register_with_hloc()
