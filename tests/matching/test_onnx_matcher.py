"""The graph matcher as ONNX: the names and shapes that OpenCV and COLMAP expect, and the matches of Python."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch

from patchprint import cli
from patchprint.common.errors import UserError
from patchprint.common.types import Features, ModelId
from patchprint.features import load
from patchprint.matching import match
from patchprint.matching.matchers.graph import read_weights
from patchprint.matching.onnx_matcher import CONTRACTS, OUTPUTS, Contract, export_matcher, input_names
from support.graph_weights import framed, moved, write_weights

pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Without neighbors, whose edges take most of the time of an export."""
    path = tmp_path_factory.mktemp("weights") / "w.safetensors"
    return write_weights(path, threshold=0.3, options={"edges": False})


@dataclass(frozen=True)
class Exported:
    """A file, and the matcher in it: that of ``weights``, or the shipped one of a model."""

    contract: Contract
    path: Path
    model: ModelId
    dim: int
    weights: str | None

    def pairs(self) -> list[tuple[Features, Features]]:
        """Of some keypoints, of other numbers of them, and of fewer than there are candidates and neighbors."""
        found = []
        for count, fewer in ((120, 0), (90, 25), (7, 4)):
            a = framed(count, seed=count, dim=self.dim)
            order = torch.randperm(count, generator=torch.Generator().manual_seed(1))[fewer:]
            pair = a, moved(a, 0.7, 1.4, order, noise=0.2)
            found.append(tuple(dataclasses.replace(each, model=self.model) for each in pair))
        return found  # type: ignore[return-value]


@pytest.fixture(scope="module", params=CONTRACTS)
def exported(request: pytest.FixtureRequest, weights: str, tmp_path_factory: pytest.TempPathFactory) -> Exported:
    """One of them is the shipped network, written by the command; docs/use.md exports and runs it for OpenCV."""
    path = tmp_path_factory.mktemp("onnx") / f"{request.param}.onnx"
    if request.param != "colmap":
        export_matcher(read_weights(Path(weights), CPU), 32, request.param, path)
        return Exported(request.param, path, ModelId("m"), 32, weights)
    model, said = load("patchprint.fast"), io.StringIO()
    with contextlib.redirect_stdout(said):
        assert cli.main(["export", "patchprint.fast", "--tool", "colmap", "--out", str(path), "--json"]) == 0
    answer = json.loads(said.getvalue())
    assert answer["model"] == "patchprint.fast" and answer["inputs"] == input_names("colmap")
    return Exported("colmap", path, model.id, model.dim, None)


def columns(features: Features) -> np.ndarray:
    points = features.keypoints
    return torch.cat([features.descriptors, points.scale[:, None], points.angle[:, None]], 1).numpy()


def given(features: Features, side: int, contract: str) -> dict[str, np.ndarray]:
    """What a tool puts in for an image."""
    points = features.keypoints
    named = {
        "kpts": points.xy.numpy()[None],
        "desc": (features.descriptors.numpy() if contract == "colmap-sift" else columns(features))[None],
        "image_size": np.array([features.image_size], np.float32),
        "scales": points.scale.numpy()[None],
        "oris": points.angle.numpy()[None],
    }
    return {f"{name}{side}": array for name, array in named.items() if f"{name}{side}" in input_names(contract)}  # type: ignore[arg-type]


def expected(a: Features, b: Features, weights: str | None) -> dict[tuple[int, int], float]:
    found = match(a, b, "graph", weights=weights, tolerance=math.inf)  # what the network alone says
    assert found.score is not None
    return {(i, j): float(score) for (i, j), score in zip(found.indices.tolist(), found.score, strict=True)}


def assert_same(found: dict[tuple[int, int], float], wanted: dict[tuple[int, int], float]) -> None:
    assert found.keys() == wanted.keys() and len(wanted)
    assert all(found[pair] == pytest.approx(wanted[pair], abs=2e-3) for pair in wanted)


def test_names_shapes_and_matches_are_those_the_tool_expects(exported: Exported) -> None:
    contract = exported.contract
    session = onnxruntime.InferenceSession(str(exported.path), providers=["CPUExecutionProvider"])
    sides = ["kpts0", "kpts1", "desc0", "desc1"]
    sizes = ["image_size0", "image_size1"]
    frames = ["scales0", "scales1", "oris0", "oris1"]
    names = {"opencv": sides, "colmap": [*sides, *sizes], "colmap-sift": [*sides, *sizes, *frames]}[contract]
    assert [each.name for each in session.get_inputs()] == names
    assert [len(each.shape) for each in session.get_inputs()] == [3] * 4 + [2] * (len(names) - 4)
    assert [each.name for each in session.get_outputs()] == ["matches0", "mscores0"]
    assert [len(each.shape) for each in session.get_outputs()] == [2 if contract == "opencv" else 1, 1]
    about = session.get_modelmeta().custom_metadata_map
    assert about["model"] == exported.model.name
    assert exported.weights is None or float(about["threshold"]) == pytest.approx(0.3)
    for a, b in exported.pairs():
        matched, score = session.run(list(OUTPUTS), given(a, 0, contract) | given(b, 1, contract))
        assert matched.dtype == np.int64 and score.dtype == np.float32 and len(matched) == len(score) == len(a)
        if contract == "opencv":
            assert (matched[:, 0] == np.arange(len(a))).all()
            matched = matched[:, 1]
        found = {(i, int(j)): float(value) for i, (j, value) in enumerate(zip(matched, score, strict=True)) if j >= 0}
        assert_same(found, expected(a, b, exported.weights))


@pytest.mark.parametrize("exported", ["opencv"], indirect=True)
def test_opencv_matches_with_it(exported: Exported) -> None:
    cv2 = pytest.importorskip("cv2", minversion="5")
    for a, b in exported.pairs():
        matcher = cv2.LightGlueMatcher.create(str(exported.path), 0.0)
        matcher.setPairInfo(a.keypoints.xy.numpy(), b.keypoints.xy.numpy())
        found = matcher.match(columns(a), columns(b))
        same = {(each.queryIdx, each.trainIdx): 1 - each.distance for each in found}
        assert_same(same, expected(a, b, exported.weights))


def test_what_cannot_be_exported_is_said(
    weights: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    learned = read_weights(Path(weights), CPU)
    with pytest.raises(UserError, match="unknown tool 'hloc'; known are opencv, colmap, colmap-sift"):
        export_matcher(learned, 32, "hloc", tmp_path / "no.onnx")  # type: ignore[arg-type]
    with pytest.raises(UserError, match="packed bits cannot be exported"):
        export_matcher(dataclasses.replace(learned), 0, "opencv", tmp_path / "no.onnx")
    assert cli.main(["export", "pixels", "--tool", "opencv", "--out", str(tmp_path / "no.onnx")]) == 2
    assert "no weights for descriptors of pixels" in capsys.readouterr().err
    assert not (tmp_path / "no.onnx").exists()
