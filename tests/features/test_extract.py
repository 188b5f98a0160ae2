"""From images to features, with every kind of model."""

import math
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch

import patchprint
from patchprint.common.types import Keypoints
from patchprint.features import DetectSettings, describe_keypoints, load, model as model_module
from patchprint.features.model import NetworkModel
from patchprint.networks import PatchNetwork
from support.known_images import correspondences, texture, turned


@pytest.mark.parametrize("model", ["sift", "rootsift", "pixels", "network", "binary"])
def test_no_keypoints_gives_the_right_width(model: str, network: PatchNetwork, binary: PatchNetwork) -> None:
    loaded = load({"network": network, "binary": binary}.get(model, model))
    flat = patchprint.extract(np.full((50, 60), 90, np.uint8), loaded)
    assert flat.descriptors.shape == (0, loaded.width)
    assert flat.image_size == (60, 50)
    tiny = patchprint.extract(np.full((2, 3), 90, np.uint8), loaded)
    assert len(tiny) == 0


@pytest.mark.parametrize("model", ["sift", "pixels", "network", "binary"])
def test_given_keypoints_are_kept(model: str, network: PatchNetwork, binary: PatchNetwork) -> None:
    given = Keypoints(
        torch.tensor([[10.0, 10.0], [-500.0, 30.0], [100.0, 9999.0]]), torch.tensor([2.0, 50.0, 3.0]), torch.zeros(3)
    )
    loaded = load({"network": network, "binary": binary}.get(model, model))
    descriptors = loaded.describe_keypoints(texture(), given)
    assert len(descriptors) == 3 and torch.isfinite(descriptors.float()).all()
    made = patchprint.extract(texture(), loaded, keypoints=given[:1])
    assert torch.equal(made.keypoints.xy, given.xy[:1]) and len(made.descriptors) == 1


@pytest.mark.parametrize("model", ["sift", "network"])
def test_keypoints_of_opencv_are_taken_where_ours_are(model: str, network: PatchNetwork) -> None:
    image, loaded = texture(), load(network if model == "network" else model)
    given = cv2.SIFT_create(20).detect(image)
    expected = patchprint.extract(image, loaded, keypoints=Keypoints.from_opencv(given))
    made = patchprint.extract(image, loaded, keypoints=given)
    assert torch.equal(made.keypoints.xy, expected.keypoints.xy) and len(made) == len(given) > 10
    assert torch.equal(made.descriptors, expected.descriptors)
    assert torch.equal(loaded.describe_keypoints(image, given), expected.descriptors)
    assert torch.equal(describe_keypoints(image, given, model=loaded).descriptors, expected.descriptors)
    assert len(patchprint.extract(image, loaded, keypoints=[])) == 0
    with pytest.raises(ValueError, match="keypoints are given as ndarray"):
        patchprint.extract(image, loaded, keypoints=np.zeros((3, 2)))


@pytest.mark.parametrize("model", ["sift", "rootsift", "pixels", "network"])
def test_descriptors_survive_a_turn_unless_upright(model: str, network: PatchNetwork) -> None:
    loaded = load(network if model == "network" else model)
    image = texture()
    rotated, matrix = turned(image, 40)
    correct = {}
    for upright in (False, True):
        a = patchprint.extract(image, loaded, max_keypoints=200, upright=upright)
        b = patchprint.extract(rotated, loaded, max_keypoints=200, upright=upright)
        true = set(zip(*(part.tolist() for part in correspondences(a.keypoints, b.keypoints, matrix)), strict=True))
        correct[upright] = len(true & {tuple(row) for row in patchprint.match(a, b, "mutual").indices.tolist()})
    assert correct[False] > 40
    assert correct[False] > 3 * correct[True]


def test_upright_drops_the_angle() -> None:
    made = patchprint.extract(texture(), "sift", max_keypoints=20, upright=True)
    assert made.keypoints.angle.abs().max() == 0
    assert len(made.keypoints.xy.unique(dim=0)) == 20  # second orientations of a point would be mere copies
    assert math.isclose(float(made.descriptors.norm(dim=1).mean()), 1.0, rel_tol=1e-4)


def test_max_size_finds_the_same_places_in_the_coordinates_of_the_image() -> None:
    image = texture(450, 611)
    whole = patchprint.extract(image, "rootsift", max_keypoints=None)
    small = patchprint.extract(image, "rootsift", max_keypoints=None, max_size=333)  # no side shrinks to whole pixels
    assert small.image_size == whole.image_size == (611, 450)
    offset = whole.keypoints.xy[:, None] - small.keypoints.xy[None]
    distance, nearest = offset.norm(dim=2).min(1)
    known = (distance < 2) & ((whole.keypoints.scale / small.keypoints.scale[nearest]).log().abs() < 0.2)
    assert known[whole.keypoints.scale > 5].float().mean() > 0.7
    mean = offset[torch.arange(len(offset)), nearest][known & (whole.keypoints.scale > 5)].mean(0)
    assert mean.abs().max() < 0.05  # no shift
    assert len(small) < len(whole)  # the finest detail is gone
    assert torch.equal(
        patchprint.extract(image, "rootsift", max_size=611).descriptors,
        patchprint.extract(image, "rootsift").descriptors,
    )


def test_max_size_with_a_mask_and_with_given_keypoints(tmp_path: Path) -> None:
    image = texture(300, 400)
    cv2.imwrite(str(tmp_path / "a.png"), image)
    mask = np.zeros(image.shape, np.uint8)
    mask[:, 250:] = 1
    found = patchprint.extract(tmp_path / "a.png", "pixels", mask=mask, max_size=200)
    assert found.image_path == tmp_path / "a.png"
    assert len(found) > 10 and found.keypoints.xy[:, 0].min() > 248
    given = Keypoints(torch.tensor([[100.0, 120.0], [10.5, 250.0]]), torch.tensor([8.0, 6.0]), torch.tensor([0.0, 1.0]))
    small, whole = (patchprint.extract(image, "pixels", keypoints=given, max_size=size) for size in (200, None))
    assert torch.allclose(small.keypoints.xy, given.xy, atol=1e-4)
    assert torch.allclose(small.keypoints.scale, given.scale)
    assert (small.descriptors * whole.descriptors).sum(1).min() > 0.95
    with pytest.raises(ValueError, match="max_size must be at least 32"):
        patchprint.extract(image, "pixels", max_size=8)
    with pytest.raises(ValueError, match=r"the mask has shape \(2, 2\)"):
        patchprint.extract(image, "pixels", mask=mask[:2, :2], max_size=200)


def test_single_settings_are_given_by_keyword() -> None:
    image = texture()
    few = DetectSettings(max_keypoints=50)
    assert len(patchprint.extract(image, "pixels", settings=few)) == 50
    assert len(patchprint.extract(image, "pixels", settings=few, max_keypoints=20)) == 20
    upright = patchprint.extract(image, "pixels", settings=few, upright=True)
    assert not upright.keypoints.angle.any() and few.upright is False


def test_many_images_are_described_as_each_alone(network: PatchNetwork) -> None:
    images = [texture(), np.full((60, 80), 90, np.uint8), texture(seed=3)[:150, :200]]
    model = patchprint.load(network)
    many = patchprint.extract_many(images, model, max_keypoints=100)
    alone = [patchprint.extract(image, model, max_keypoints=100) for image in images]
    assert [len(features) for features in many] == [100, 0, 100]
    for found, expected in zip(many, alone, strict=True):
        assert torch.equal(found.descriptors, expected.descriptors)
        assert torch.equal(found.keypoints.xy, expected.keypoints.xy) and found.image_size == expected.image_size


@pytest.mark.parametrize("most", [1 << 26, 40_000, 1])
def test_images_of_a_batch_keep_their_own_keypoints(
    network: PatchNetwork, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a GPU does, done here: its patches are read in another way, which differs by roundings."""
    monkeypatch.setattr(model_module, "_PIXELS_OF_BATCH", most)
    images = [texture(), np.full((60, 80), 90, np.uint8), texture(seed=3)[:150, :200]]
    found = [patchprint.detectors.detect(image, max_keypoints=100) for image in images]
    model = NetworkModel(network)
    for each, expected in zip(model._describe_batches(images, found), model.describe_many(images, found), strict=True):
        assert each.shape == expected.shape
        assert torch.allclose(each, expected, atol=2e-2)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_many_images_on_a_gpu(network: PatchNetwork) -> None:
    images = [texture(), np.full((60, 80), 90, np.uint8), texture(seed=3)[:150, :200]]
    model = patchprint.load("patchprint", "cuda")
    for found, image in zip(patchprint.extract_many(images, model, max_keypoints=100), images, strict=True):
        alone = patchprint.extract(image, model, max_keypoints=100)
        assert torch.allclose(found.descriptors, alone.descriptors, atol=1e-2)
