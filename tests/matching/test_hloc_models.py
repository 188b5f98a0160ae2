"""hloc finds patchprint by name: a stub with the entry points of hloc 1.5, and hloc itself where ``HLOC`` names a copy."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import torch

import patchprint
from patchprint.interop.hloc import read_matches
from patchprint.ops.distances import unpack_bits
from support.known_images import texture, turned

SNAPSHOT = os.environ.get("HLOC", "")

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
    for folder in (root, root / "extractors", root / "matchers", root / "utils"):
        folder.mkdir()
        (folder / "__init__.py").touch()
    (root / "utils" / "base_model.py").write_text(BASE_MODEL)
    for name in ("extract_features", "match_features"):
        (root / f"{name}.py").write_text("confs = {'sift': {}}\n")
    yield from _imported(tmp_path, monkeypatch)


@pytest.fixture
def snapshot(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    if not SNAPSHOT:
        pytest.skip("HLOC names no copy of github.com/cvg/Hierarchical-Localization")
    yield from _imported(Path(SNAPSHOT), monkeypatch)


def _imported(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(folder)
    yield importlib.import_module("hloc")
    for name in [name for name in sys.modules if name.split(".")[0] == "hloc"]:
        del sys.modules[name]


def load_model(kind: str, conf: dict[str, Any]) -> Any:
    loader = importlib.import_module("hloc.utils.base_model").dynamic_load
    return loader(importlib.import_module(f"hloc.{kind}"), conf["name"])(conf).eval().to("cpu")


def run(hloc: Any, conf: dict[str, Any], pixels: np.ndarray) -> dict[str, torch.Tensor]:
    return load_model("extractors", conf)({"image": torch.from_numpy(pixels).float()[None, None] / 255})


def matched(
    conf: dict[str, Any], found: list[dict[str, torch.Tensor]], size: tuple[int, int]
) -> dict[str, torch.Tensor]:
    """What hloc gives a matcher: both images' features by numbered names, and an image of which only the size counts."""
    data = {f"{name}{side}": values for side in (0, 1) for name, values in found[side].items()}
    return load_model("matchers", conf)(
        {**data, "image0": torch.empty(1, 1, *size), "image1": torch.empty(1, 1, *size)}
    )


@pytest.mark.parametrize("model", ["patchprint.tiny", "rootsift", "patchprint.bits"])
def test_an_extractor_gives_what_extract_gives(hloc: Any, model: str) -> None:
    names = patchprint.register_with_hloc()
    confs = importlib.import_module("hloc.extract_features").confs
    name = model if model.startswith("patchprint") else f"patchprint-{model}"
    assert name in names and set(confs) == {"sift", *names}
    pixels = texture(120, 140, seed=3)
    found = run(hloc, {**confs[name]["model"], "max_keypoints": 40}, pixels)
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
    graphs = {name for name in confs if name.endswith("+graph")}
    assert set(confs) == {"sift", *names, *graphs} and "patchprint+graph" in graphs
    ratios = {name: confs[name]["model"]["ratio_threshold"] for name in names}
    assert ratios["patchprint"] == patchprint.load("patchprint").ratio
    assert ratios["patchprint-pixels"] == 0.8


def test_a_photo_without_keypoints_has_empty_features(hloc: Any) -> None:
    patchprint.register_with_hloc()
    found = run(hloc, {"name": "patchprint", "model": "patchprint.tiny"}, np.full((60, 60), 90, np.uint8))
    assert found["keypoints"].shape == (1, 0, 2) and found["descriptors"].shape == (1, 128, 0)


@pytest.mark.parametrize(("model", "matcher"), [("patchprint", "graph"), ("patchprint.bits", "fginn")])
def test_a_matcher_gives_what_match_gives(hloc: Any, model: str, matcher: str) -> None:
    patchprint.register_with_hloc()
    confs = importlib.import_module("hloc.match_features").confs
    conf = {**confs["patchprint+graph"]["model"], "model": model, "matcher": matcher}
    extractor = {"name": "patchprint", "model": model, "max_keypoints": 150}
    images = [texture(120, 140, seed=3), turned(texture(120, 140, seed=3), 20)[0]]
    found = matched(conf, [run(hloc, extractor, pixels) for pixels in images], (120, 140))
    a, b = (patchprint.extract(pixels, model, max_keypoints=150) for pixels in images)
    expected = patchprint.match(a, b, matcher)
    partner = found["matches0"][0]
    assert partner.shape == (len(a),) and found["matching_scores0"].shape == (1, len(a))
    assert torch.equal(torch.nonzero(partner >= 0)[:, 0], expected.indices[:, 0]) and len(expected) > 20
    assert torch.equal(partner[partner >= 0], expected.indices[:, 1])
    none = matched(conf, [run(hloc, extractor, np.full((60, 60), 90, np.uint8)) for _ in images], (60, 60))
    assert none["matches0"].shape == (1, 0)


@pytest.mark.slow
@pytest.mark.parametrize("matching", ["patchprint", "patchprint+graph"])
def test_hloc_extracts_and_matches_files(snapshot: Any, matching: str, tmp_path: Path) -> None:
    names = patchprint.register_with_hloc()
    extract_features, match_features = (
        importlib.import_module(f"hloc.{name}") for name in ("extract_features", "match_features")
    )
    photos = tmp_path / "photos"
    photos.mkdir()
    images = {"a.png": texture(200, 240, seed=3), "b.png": turned(texture(200, 240, seed=3), 20)[0]}
    for name, pixels in images.items():
        cv2.imwrite(str(photos / name), pixels)
    (tmp_path / "pairs.txt").write_text("a.png b.png\n")
    assert "patchprint" in names
    features = extract_features.main(extract_features.confs["patchprint"], photos, tmp_path / "out")
    file = match_features.main(match_features.confs[matching], tmp_path / "pairs.txt", features.stem, tmp_path / "out")
    pairs = read_matches(file, "a.png", "b.png")
    a, b = (patchprint.extract(pixels, "patchprint") for pixels in images.values())
    expected = {
        tuple(row) for row in patchprint.match(a, b, *(["graph"] if "graph" in matching else [])).indices.tolist()
    }
    found = {tuple(row) for row in pairs.tolist()}
    assert len(expected) > 50 and len(found & expected) >= 0.97 * len(found | expected), "stored in half precision"


def test_without_hloc_there_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hloc", None)
    with pytest.raises(patchprint.UserError, match="hloc needs "):
        patchprint.register_with_hloc()
