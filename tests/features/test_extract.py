"""From pictures to features: detection, tiles, masks, models, and the stand-ins for OpenCV and kornia."""

from __future__ import annotations

import math
from pathlib import Path

import cv2
import kornia.feature as KF
import numpy as np
import pytest
import torch

import patchprint
from patchprint import networks
from patchprint.detectors import DETECTORS, _tiles, detect
from patchprint.devices import choose_device
from patchprint.features import load
from patchprint.features.feature2d import Feature2D
from patchprint.features.laf_descriptor import LAFDescriptor
from patchprint.interop import colmap, opencv
from patchprint.networks import PatchNetwork, weights
from patchprint.types import Keypoints
from support.known_images import correspondences, texture, turned


@pytest.fixture(scope="module")
def network() -> PatchNetwork:
    torch.manual_seed(0)
    return networks.create("tfeat").eval()


@pytest.fixture(scope="module")
def binary() -> PatchNetwork:
    torch.manual_seed(0)
    return networks.create("doap", kind="binary", dim=256).eval()


def test_four_lines(tmp_path: Path, network: PatchNetwork) -> None:
    image = texture()
    cv2.imwrite(str(tmp_path / "a.png"), image)
    weights.save(network, tmp_path / "net.safetensors")
    model = patchprint.load(tmp_path / "net.safetensors")
    a = patchprint.extract(tmp_path / "a.png", model, max_keypoints=200)
    b = patchprint.extract(image, model, max_keypoints=200)  # arrays where paths are
    m = patchprint.match(a, b)
    patchprint.draw(a, b, patchprint.verify(a, b, m), tmp_path / "m.png", images=(image, image))
    assert len(a) == 200
    assert torch.equal(a.descriptors, b.descriptors)
    assert cv2.imread(str(tmp_path / "m.png")).shape == (240, 520, 3)
    with pytest.raises(ValueError, match="images="):
        patchprint.draw(a, b, m, tmp_path / "n.png")
    with pytest.raises(ValueError, match=r"\.png"):
        patchprint.draw(a, b, m, tmp_path / "n.gif", images=(image, image))
    assert not (tmp_path / "n.gif").exists()


@pytest.mark.parametrize("model", ["sift", "rootsift", "pixels", "network", "binary"])
def test_no_keypoints_gives_the_right_width(model: str, network: PatchNetwork, binary: PatchNetwork) -> None:
    loaded = load({"network": network, "binary": binary}.get(model, model))
    flat = patchprint.extract(np.full((50, 60), 90, np.uint8), loaded)
    assert flat.descriptors.shape == (0, loaded.width)
    assert flat.image_size == (60, 50)
    tiny = patchprint.extract(np.full((2, 3), 90, np.uint8), loaded)
    assert len(tiny) == 0


@pytest.mark.parametrize("model", ["sift", "pixels", "network", "binary"])
def test_given_keypoints_are_kept_even_outside(model: str, network: PatchNetwork, binary: PatchNetwork) -> None:
    given = Keypoints(
        torch.tensor([[10.0, 10.0], [-500.0, 30.0], [100.0, 9999.0]]), torch.tensor([2.0, 50.0, 3.0]), torch.zeros(3)
    )
    loaded = load({"network": network, "binary": binary}.get(model, model))
    made = patchprint.extract(texture(), loaded, keypoints=given)
    assert torch.equal(made.keypoints.xy, given.xy)
    assert len(made.descriptors) == 3
    if not made.is_binary:
        assert torch.isfinite(made.descriptors).all()
    broken = Keypoints(torch.tensor([[float("nan"), 0.0]]), torch.ones(1), torch.zeros(1))
    with pytest.raises(ValueError, match="finite"):
        patchprint.extract(texture(), loaded, keypoints=broken)


@pytest.mark.parametrize("model", ["sift", "rootsift", "pixels", "network"])
def test_prints_survive_a_turn_unless_upright(model: str, network: PatchNetwork) -> None:
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


def test_sift_of_a_patch_resembles_sift_of_the_picture() -> None:
    from patchprint.patches.sampler import ImagePyramids, cut_patches

    image = cv2.GaussianBlur(texture(), (0, 0), 1)
    loaded = load("sift")
    found = detect(image, "dog", 200)
    found = found[(found.scale > 2.5) & ((found.xy > 50) & (found.xy < 190)).all(1)]
    patches = cut_patches(ImagePyramids.build([image]), 0, found, loaded.patch_scale, 32)
    cosine = (loaded.describe_patches(patches) * loaded.describe_keypoints(image, found)).sum(1)
    assert float(cosine.median()) > 0.9


def test_mask_and_count() -> None:
    image = texture()
    mask = np.zeros_like(image)
    mask[:, 130:] = 1
    for name in DETECTORS:
        found = detect(image, name, 50, mask)
        assert 0 < len(found) <= 50
        assert found.xy[:, 0].min() > 128
    with pytest.raises(ValueError, match="mask"):
        detect(image, "dog", 50, mask[:10])
    with pytest.raises(ValueError, match="there is no detector 'superpoint'"):
        detect(image, "superpoint")


def test_without_a_limit_colmap_keypoints_are_those_of_colmap(tmp_path: Path) -> None:
    image = texture()
    cv2.imwrite(str(tmp_path / "a.png"), image)
    pycolmap = colmap.pycolmap
    options = pycolmap.FeatureExtractionOptions(use_gpu=False)
    pycolmap.extract_features(tmp_path / "d.db", tmp_path, extraction_options=options, device=pycolmap.Device.cpu)
    (entry,) = colmap.read_database(tmp_path / "d.db")
    found = detect(image, "colmap", None)
    assert len(found) == len(entry.keypoints) > 60
    assert torch.allclose(found.xy.sort(0).values, entry.keypoints.xy.sort(0).values, atol=1e-3)
    assert len(detect(image, "dog", 60)) == 60


def test_spread_gives_every_part_its_share() -> None:
    image = np.full((300, 300), 100, np.uint8)
    image[:, :150] = texture(300, 150)
    image[:, 150:] = (texture(300, 150, seed=1).astype(int) - 128) // 5 + 128  # faint
    by_response = detect(image, "dog", 160, spread=False)
    spread = detect(image, "dog", 160, spread=True)
    assert len(by_response) == len(spread) == 160
    assert (spread.xy[:, 0] > 150).sum() > (by_response.xy[:, 0] > 150).sum() + 15
    assert (spread.score.diff() <= 0).all()


def test_tiles_find_what_the_whole_picture_has(monkeypatch: pytest.MonkeyPatch) -> None:
    image = texture(400, 520)
    whole = detect(image, "dog", 10_000, spread=False)
    monkeypatch.setattr(_tiles, "WHOLE", 100_000)
    monkeypatch.setattr(_tiles, "TILE", 128)
    monkeypatch.setattr(_tiles, "MARGIN", 64)
    monkeypatch.setattr(_tiles, "LARGEST_IN_TILE", 6.0)
    tiled = detect(image, "dog", 10_000, spread=False)
    distance, nearest = torch.cdist(whole.xy, tiled.xy, compute_mode="donot_use_mm_for_euclid_dist").min(1)
    small = whole.scale < 5.5
    assert (distance[small] < 0.05).float().mean() > 0.97
    assert (distance < 1.0).float().mean() > 0.93
    assert abs(len(tiled) - len(whole)) < 0.08 * len(whole)
    assert torch.allclose(
        tiled.scale[nearest][small & (distance < 0.01)], whole.scale[small & (distance < 0.01)], rtol=0.05
    )


@pytest.mark.parametrize("kind", ["network", "binary"])
def test_feature2d_looks_like_opencv(kind: str, network: PatchNetwork, binary: PatchNetwork) -> None:
    feature = Feature2D(network if kind == "network" else binary, max_keypoints=150)
    image = cv2.cvtColor(texture(), cv2.COLOR_GRAY2BGR)
    given = cv2.SIFT_create(30, enable_precise_upscale=True).detect(image)
    before = [(k.pt, k.size, k.angle, k.octave, k.class_id) for k in given]
    returned, descriptors = feature.compute(image, given)
    assert [(k.pt, k.size, k.angle, k.octave, k.class_id) for k in returned] == before
    assert descriptors.shape == (len(given), feature.descriptorSize())
    assert descriptors.dtype == (np.float32 if feature.descriptorType() == cv2.CV_32F else np.uint8)

    rotated, matrix = turned(texture(), 20)
    (points_a, descriptors_a), (points_b, descriptors_b) = (
        feature.detectAndCompute(p, None) for p in (texture(), rotated)
    )
    matches = cv2.BFMatcher(feature.defaultNorm(), crossCheck=True).match(descriptors_a, descriptors_b)
    a, b = opencv.to_keypoints(points_a), opencv.to_keypoints(points_b)
    true = set(zip(*(part.tolist() for part in correspondences(a, b, matrix)), strict=True))
    assert sum((m.queryIdx, m.trainIdx) in true for m in matches) > 0.6 * len(true)
    assert feature.detectAndCompute(np.zeros((40, 40), np.uint8))[1].shape == (0, feature.descriptorSize())


def test_kornia_local_feature_takes_our_network(network: PatchNetwork) -> None:
    image = texture()
    pixels = torch.from_numpy(image)[None, None].float() / 255
    detector = KF.ScaleSpaceDetector(80, ori_module=KF.LAFOrienter(19))
    lafs, _, descriptors = KF.LocalFeature(detector, LAFDescriptor(network))(pixels)
    assert descriptors.shape == (1, 80, network.dim)
    from patchprint.interop.kornia import from_lafs

    filled = lafs[0].abs().sum((1, 2)) > 0
    ours = load(network).describe_keypoints(image, from_lafs(lafs[0, filled]))
    assert torch.allclose(descriptors[0, filled], ours, atol=1e-3)
    assert LAFDescriptor(network)(pixels.expand(2, 3, -1, -1), lafs[:, :0].expand(2, -1, -1, -1)).shape == (
        2,
        0,
        network.dim,
    )


def test_devices_that_are_not_there_are_named() -> None:
    assert choose_device("cpu") == torch.device("cpu")
    with pytest.raises(ValueError, match="unknown device"):
        choose_device("tpu")
    if not torch.cuda.is_available():
        with pytest.raises(ValueError, match="no cuda"):
            choose_device("cuda")


def test_upright_drops_the_angle() -> None:
    made = patchprint.extract(texture(), "sift", max_keypoints=20, upright=True)
    assert made.keypoints.angle.abs().max() == 0
    assert len(made.keypoints.xy.unique(dim=0)) == 20  # second orientations of a point would be mere copies
    assert math.isclose(float(made.descriptors.norm(dim=1).mean()), 1.0, rel_tol=1e-4)
