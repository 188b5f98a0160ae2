"""Training of the detector on images alone: it learns, resumes exactly, and its weights are a detector."""

import json
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from skimage import data

from patchprint.common.errors import UserError
from patchprint.data.builders.crop_pairs import CropPair, change_light, draw_crop_pair
from patchprint.detectors import detect
from patchprint.detectors._learned_networks import KeypointNetworks, build_pyramid, load_networks
from patchprint.detectors.learned import find_peaks
from patchprint.ops.geometry import project
from patchprint.pipelines.detector_losses import view_losses
from patchprint.pipelines.detector_training import DetectorSettings, HeldOutCrops, train_detector

SHORT = DetectorSettings(steps=4, batch=2, side=128, validate_every=2, hold_out=False, device="cpu")


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("images")
    for name in ("camera", "coins", "text", "page"):
        cv2.imwrite(str(folder / f"{name}.png"), getattr(data, name)())
    return folder


def test_a_run_resumes_exactly_and_its_weights_detect(images: Path, tmp_path: Path) -> None:
    whole = train_detector([images], out=tmp_path / "whole", settings=SHORT)
    with pytest.raises(ValueError, match="stopped"):
        _stop_after_two(images, tmp_path / "parts")
    parts = train_detector(out=tmp_path / "parts", resume=True)
    one, other = load_file(whole.last), load_file(parts.last)
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert not torch.equal(one["score.last.weight"], torch.zeros_like(one["score.last.weight"]))
    assert len(detect(data.camera(), str(whole.best), max_keypoints=100)) == 100
    logged = [json.loads(line) for line in (tmp_path / "whole" / "metrics.jsonl").read_text().splitlines()]
    assert {"loss/selection", "loss/place", "loss/angle"} < set(logged[0])


def _stop_after_two(images: Path, out: Path) -> None:
    from patchprint.training.step import Step

    run = Step.run

    def stopping(self: Step) -> None:
        if self.state.step == 2:
            raise ValueError("stopped")
        run(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Step, "run", stopping)
        train_detector([images], out=out, settings=SHORT)


def test_the_judge_prefers_the_shipped_weights(images: Path) -> None:
    judge = HeldOutCrops(sorted(images.iterdir()), 160)
    judge.pairs = judge.pairs[:6]
    torch.manual_seed(0)
    untrained, shipped = judge.measure(KeypointNetworks().eval()), judge.measure(load_networks())
    assert shipped["unrepeated"] < untrained["unrepeated"]
    assert shipped["turned"] < untrained["turned"] - 0.1


def test_losses_of_a_pair_that_shows_the_same() -> None:
    """Of an image and itself all is found again, in place, with the same angle; of two images nothing is."""
    image = data.camera()[100:292, 100:292]
    other = data.coins()[:192, :192]
    networks, shown = load_networks(), np.ones(image.shape, dtype=bool)

    def losses(second: np.ndarray) -> dict[str, float]:
        pair = CropPair(image, second, np.eye(3), shown)
        pyramids = [build_pyramid(each)[:5] for each in (image, second)]
        scores = [[torch.from_numpy(networks.score.of_level(level)) for level in pyramid] for pyramid in pyramids]
        found = view_losses(pair, pyramids, scores, 0.004, networks.angle)
        assert found is not None
        return {name: float(value) for name, value in found.items()}

    same, different = losses(image), losses(other)
    assert all(same[name] < different[name] for name in same)


def test_crop_pairs_show_the_same_place() -> None:
    image = data.camera()
    generator = np.random.default_rng(0)
    for _ in range(5):
        pair = draw_crop_pair(generator, lambda: image, 128)
        assert pair.first.shape == pair.second.shape == pair.shown.shape == (128, 128)
        center = project(pair.homography, np.array([[63.5, 63.5]]))
        assert np.abs(center - 63.5).max() < 20
    with pytest.raises(UserError, match="smaller --side"):
        draw_crop_pair(generator, lambda: np.full((200, 200), 9, np.uint8), 128)
    plain = change_light(np.random.default_rng(3), image, 0.0)
    assert np.corrcoef(plain.ravel(), image.ravel())[0, 1] > 0.97


def test_peaks_name_their_pixel() -> None:
    networks = load_networks()
    scores = [networks.score.of_level(level) for level in build_pyramid(data.camera()[:150, :200])]
    peaks, index = find_peaks((150, 200), scores)
    assert peaks.score is not None
    assert np.array_equal(np.concatenate([score.ravel() for score in scores])[index], peaks.score.numpy())


def test_no_images(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--data"):
        train_detector(out=tmp_path / "run", settings=SHORT)
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="empty"):
        train_detector([tmp_path / "empty"], out=tmp_path / "run", settings=SHORT)
