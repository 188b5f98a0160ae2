"""Training of the detector on images alone: it learns, resumes exactly, and its weights are a detector."""

import dataclasses
import json
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from skimage import data

from patchprint.common.errors import UserError
from patchprint.data.builders.crop_pairs import CropPairs, ImagePair, apply, draw_crop_pairs
from patchprint.detectors import detect
from patchprint.detectors._learned_networks import KeypointNetworks, build_pyramid, load_networks
from patchprint.detectors.learned import find_peaks
from patchprint.pipelines.detector_losses import join, pair_losses
from patchprint.pipelines.detector_training import (
    DetectorSettings,
    HeldOutCrops,
    ImageFolder,
    Images,
    describer,
    train_detector,
)

SHORT = DetectorSettings(steps=4, batch=2, side=128, validate_every=2, hold_out=False, model="none", device="cpu")


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


def test_wider_networks_are_read_as_they_were_written(images: Path, tmp_path: Path) -> None:
    settings = dataclasses.replace(SHORT, steps=1, widths=(8, 6, 10, 4), radii=(2.0, 4.0))
    first = train_detector([images], out=tmp_path / "first", settings=settings)
    assert len(detect(data.camera(), str(first.best), max_keypoints=50)) == 50
    again = train_detector(
        [images], out=tmp_path / "again", settings=dataclasses.replace(SHORT, steps=1, init=first.best)
    )
    assert load_networks(again.best).angle.radii.tolist() == [2.0, 4.0]


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
    judge = HeldOutCrops(Images([ImageFolder.read(images)], 0.0), 160, torch.device("cpu"))
    judge.batches = judge.batches[:1]
    torch.manual_seed(0)
    untrained, shipped = judge.measure(KeypointNetworks().eval()), judge.measure(load_networks())
    assert shipped["unrepeated"] < untrained["unrepeated"]
    assert shipped["turned"] < untrained["turned"] - 0.1


def test_losses_of_a_pair_that_shows_the_same() -> None:
    """Of an image and itself all is found again, in place, with the same angle; of two images nothing is."""
    image, other = (
        torch.from_numpy(each.copy()).float() for each in (data.camera()[100:292, 100:292], data.coins()[:192, :192])
    )
    networks, describe = load_networks(), describer("patchprint.tiny", torch.device("cpu"))

    def losses(second: torch.Tensor) -> dict[str, float]:
        eye = torch.eye(3)[None]
        views = torch.stack([image, second])
        pairs = CropPairs(views, eye, eye.repeat(2, 1, 1), torch.full((2, 2), 192.0), torch.tensor([[0.0, 0.0, 1e9]]))
        pyramid = build_pyramid(views, 5)
        scores = networks.score.of_pyramid(pyramid)
        found = pair_losses(pairs, pyramid, scores, torch.tensor([0.004]), networks.angle, describe)
        return {name: float(value) for name, value in found.items()}

    same, different = losses(image), losses(other)
    assert all(same[name] < different[name] for name in same)


def test_crop_pairs_show_the_same_place() -> None:
    image = data.camera()
    pairs = draw_crop_pairs(lambda _: ImagePair((image, image), np.eye(3)), [0], 6, 128)
    assert pairs.views.shape == (12, 128, 128) and pairs.views.min() >= 0 and pairs.views.max() <= 255
    center = torch.full((12, 1, 2), 63.5)
    assert (apply(pairs.to_other(), center) - 63.5).abs().max() < 40
    # Both crops of a pair lead to one place of the image.
    ahead = apply(pairs.bounds[6:], apply(pairs.homography, center[:6]))
    assert torch.allclose(ahead, apply(pairs.bounds[:6], center[:6]), atol=0.01)
    with pytest.raises(UserError, match="smaller --side"):
        draw_crop_pairs(lambda _: ImagePair((image[:20, :20],) * 2, np.eye(3)), [0], 1, 128)


def test_planes_of_two_images_are_learned_from(tmp_path: Path) -> None:
    """Two images that a known homography joins in a disc: points are looked at inside of it alone."""
    image = data.camera()
    homography = np.array([[0.9, 0.1, 20.0], [-0.1, 0.9, 60.0], [0, 0, 1]])
    other = cv2.warpPerspective(image, homography, (512, 512), borderMode=cv2.BORDER_REFLECT_101)
    for name, each in (("0.png", image), ("1.png", other)):
        cv2.imwrite(str(tmp_path / name), each)
    planes = {"images": np.array([[0, 1]]), "homography": homography[None], "disc": np.array([[256.0, 256.0, 60.0]])}
    np.savez(tmp_path / "planes.npz", names=np.array(["0.png", "1.png"]), **planes)
    images = Images([ImageFolder.read(tmp_path)], 1.0)
    pairs = draw_crop_pairs(images.draw, [0], 3, 160)
    pyramid = build_pyramid(pairs.views, 5)
    joined = join(pairs, load_networks().score.of_pyramid(pyramid), torch.full((3,), 0.01))
    first = joined.first.peaks.xy[joined.first.exists]
    there = apply(pairs.bounds[joined.first.peaks.image[joined.first.exists]], first[:, None])[:, 0]
    assert len(there) > 20
    assert (there - 256).norm(dim=1).max() < 61
    assert (joined.distance.flatten(1).min(1).values < 1.5).all()


def test_peaks_name_their_pixel() -> None:
    networks = load_networks()
    scores = networks.score.of_pyramid(build_pyramid(torch.from_numpy(data.camera()[None, :150, :200].copy())))
    peaks = find_peaks(scores)
    assert torch.equal(torch.cat([score.flatten() for score in scores])[peaks.index], peaks.score)


def test_no_images(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--data"):
        train_detector(out=tmp_path / "run", settings=SHORT)
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="empty"):
        train_detector([tmp_path / "empty"], out=tmp_path / "run", settings=SHORT)
