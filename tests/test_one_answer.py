"""The same question gets the same answer from Python, from the command line and from files, for every kind of model."""

import json
from collections.abc import Callable
from pathlib import Path

import cv2
import pytest
import torch

import patchprint
from patchprint import cli, networks
from patchprint.matching.calibration import write_ratio
from patchprint.networks import weights
from patchprint.storage import feature_files
from patchprint.storage.match_folder import read_matches
from support.known_images import texture, turned

KEYPOINTS = 300


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a picture and a turned copy of it."""
    folder = tmp_path_factory.mktemp("photos")
    image = texture(240, 280)
    cv2.imwrite(str(folder / "a.png"), image)
    cv2.imwrite(str(folder / "b.png"), turned(image, 15)[0])
    return folder


def _network(folder: Path, kind: str, ratio: float | None) -> str:
    torch.manual_seed(0)
    network = networks.create("doap", width=8, dim=64, kind=kind)
    path = folder / f"{kind}.safetensors"
    info = weights.save(network, path)
    if ratio is not None:
        write_ratio(path, ratio)
    assert patchprint.load(path).info.sha256 == info.sha256
    return str(path)


MODELS: dict[str, Callable[[Path], str]] = {
    "floats, calibrated": lambda folder: _network(folder, "float", 0.95),
    "floats, not calibrated": lambda folder: _network(folder, "float", None),
    "bits, calibrated": lambda folder: _network(folder, "binary", 0.93),
    "rootsift": lambda folder: "rootsift",
    "sift": lambda folder: "sift",
    "pixels": lambda folder: "pixels",
}


def answer(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict:
    capsys.readouterr()
    assert cli.main([*map(str, arguments), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("name", MODELS)
def test_matches_of_two_images(name: str, images: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = MODELS[name](tmp_path)
    a, b = (patchprint.extract(images / f"{letter}.png", model, max_keypoints=KEYPOINTS) for letter in "ab")
    found = patchprint.match(a, b)
    assert len(found) > 20
    limit = ["--max-keypoints", KEYPOINTS, "--model", model]

    said = answer(capsys, "match", images / "a.png", images / "b.png", *limit)
    assert said["indices"] == found.indices.tolist()
    verified = patchprint.verify(a, b, found)
    assert said["is_inlier"] == verified.inliers.tolist()
    assert (said["verdict"], said["probability"]) == (verified.verdict.answer, verified.verdict.probability)

    for points, side in zip(found.points(a, b), "ab", strict=True):
        assert torch.allclose(torch.tensor(said[f"points_{side}"]), points, atol=1e-4)

    answer(capsys, "match", images / "a.png", images / "b.png", *limit, "--out", tmp_path / "two.npz")
    (from_two,) = read_matches(tmp_path / "two.npz").values()
    assert torch.equal(from_two.indices, found.indices)

    answer(capsys, "describe", images, "--out", tmp_path / "features", *limit)
    from_disk = [feature_files.load_features(tmp_path / "features" / f"{letter}.png.npz") for letter in "ab"]
    assert torch.equal(patchprint.match(*from_disk).indices, found.indices)
    assert [each.ratio for each in from_disk] == [a.ratio, b.ratio] == 2 * [patchprint.load(model).ratio]

    answer(capsys, "match", tmp_path / "features", "--out", tmp_path / "matches.npz", "--geometry", "none")
    (from_folder,) = read_matches(tmp_path / "matches.npz").values()
    assert torch.equal(from_folder.indices, found.indices)


@pytest.mark.parametrize("form", ["hloc", "opencv-yml"])
@pytest.mark.parametrize("name", ["floats, calibrated", "bits, calibrated", "rootsift"])
def test_matches_of_features_in_the_files_of_other_tools(
    name: str, form: str, images: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = MODELS[name](tmp_path)
    limit = ["--max-keypoints", KEYPOINTS, "--model", model]
    said = answer(capsys, "match", images / "a.png", images / "b.png", *limit)
    answer(capsys, "describe", images, "--out", tmp_path / "features", "--format", form, *limit)
    answer(capsys, "match", tmp_path / "features", "--out", tmp_path / "m.json")
    (pair,) = json.loads((tmp_path / "m.json").read_text())["pairs"]
    for what in ("indices", "is_inlier", "transform"):
        assert pair[what] == said[what]


@pytest.mark.parametrize("options", [{}, {"spread": False}, {"detector": "dog-published"}, {"upright": True}])
def test_keypoints_of_a_benchmark_are_those_of_the_user(options: dict, images: Path) -> None:
    """A detector's name means one thing: ``eval`` finds what ``extract`` finds."""
    from patchprint.benchmarks import BENCHMARKS, Run
    from patchprint.benchmarks._features import SequenceSettings, features_of
    from patchprint.interop.images import read_gray

    chosen = {"detector": "dog", "spread": True, "upright": False, **options}
    settings = SequenceSettings(keypoints=KEYPOINTS, **chosen)
    oxford = BENCHMARKS["oxford"]()
    run = Run(oxford, oxford.settings(), patchprint.load("sift"), (images,))
    theirs = features_of(run, read_gray(images / "a.png"), "a", settings, upright=settings.upright)
    ours = patchprint.extract(images / "a.png", "sift", max_keypoints=KEYPOINTS, **chosen)
    assert torch.equal(theirs.keypoints.xy, ours.keypoints.xy)
    assert torch.equal(theirs.keypoints.angle, ours.keypoints.angle)
    assert torch.equal(theirs.descriptors, ours.descriptors)
