"""Models: networks and baselines by one interface."""

import copy
import dataclasses
from pathlib import Path

import cv2
import pytest
import torch

from patchprint import networks
from patchprint.common.types import Keypoints, ModelId
from patchprint.detectors import detect
from patchprint.features import extract, load
from patchprint.features.compress import compress
from patchprint.features.image_model import ImageModel, load_any, load_image_model
from patchprint.features.model import Model
from patchprint.networks import PatchNetwork, weights
from patchprint.ops.distances import pack_bits
from support.image_sets import images_of_class
from support.known_images import texture


def test_sift_of_a_patch_resembles_sift_of_the_image() -> None:
    from patchprint.ops.sampling import ImagePyramids, cut_patches

    image = cv2.GaussianBlur(texture(), (0, 0), 1)
    loaded = load("sift-smoothed")
    found = detect(image, "dog", max_keypoints=200)
    found = found[(found.scale > 2.5) & ((found.xy > 50) & (found.xy < 190)).all(1)]
    patches = cut_patches(ImagePyramids.build([image]), 0, found, loaded.patch_scale, 32)
    cosine = (loaded.describe_patches(patches) * loaded.describe_keypoints(image, found)).sum(1)
    assert float(cosine.median()) > 0.9


def test_sift_at_ellipses_blurs_as_sift_does() -> None:
    """A round ellipse is a keypoint like any other, whichever way patches are described."""
    image = cv2.GaussianBlur(texture(), (0, 0), 1)
    found = detect(image, "dog", max_keypoints=200)
    found = found[(found.scale > 2.5) & ((found.xy > 50) & (found.xy < 190)).all(1)]
    ellipses = Keypoints.from_affine(found.xy, found.frames())
    for name in ("sift", "rootsift", "sift-smoothed", "rootsift-smoothed"):
        cosine = (load(name).describe_keypoints(image, ellipses) * load(name).describe_keypoints(image, found)).sum(1)
        assert float(cosine.median()) > 0.9


def test_keypoints_have_the_descriptors_of_their_patches(network: PatchNetwork) -> None:
    from patchprint.ops.sampling import ImagePyramids, cut_patches

    loaded, image = load(network), texture()
    found = detect(image, "dog", max_keypoints=150)
    assert len(found) > 64  # more than a core takes at once
    patches = cut_patches(ImagePyramids.build([image]), 0, found, loaded.patch_scale, loaded.input_size)
    assert torch.equal(loaded.describe_keypoints(image, found), loaded.describe_patches(patches))


def test_sift_takes_patches_as_they_are_stored() -> None:
    assert [load("rootsift").patch_side(stored) for stored in (64, None)] == [64, 65]
    assert [load("rootsift-smoothed").patch_side(stored) for stored in (64, None)] == [32, 32]


def test_signs_are_those_of_the_features(network: PatchNetwork) -> None:
    model = load(network)
    signs = model.signs()
    assert (signs.kind, signs.dim, signs.width, signs.ratio) == ("binary", 128, 16, None)
    features = extract(texture(), model, max_keypoints=40)
    bits = compress(features, "bits")
    assert signs.id == bits.model
    assert torch.equal(signs.describe_keypoints(texture(), features.keypoints), bits.descriptors)
    patches = torch.rand(5, 1, 32, 32, generator=torch.Generator().manual_seed(0))
    assert torch.equal(signs.describe_patches(patches), pack_bits(model.describe_patches(patches)))
    assert (signs.with_patch_scale(24).patch_scale, signs.with_patch_scale(24).kind) == (24.0, "binary")


def test_what_has_no_signs_is_refused(network: PatchNetwork, image_model: Path) -> None:
    with pytest.raises(ValueError, match="bits already"):
        load(network).signs().signs()
    with pytest.raises(ValueError, match="descriptors of sift are never negative, so their signs say nothing"):
        load("sift").signs().describe_keypoints(texture(), Keypoints([[50.0, 50.0]], [2.0], [0.0]))
    with pytest.raises(ValueError, match="birds describes whole images"):
        load(image_model)


def test_what_is_loaded_is_one_kind_of_thing(network: PatchNetwork) -> None:
    model = load(network)
    assert load(model) is model
    assert (model.kind, model.dim, model.width, model.id.name) == ("float", 128, 128, network.info.name)
    for name in ("sift", "rootsift", "pixels"):
        assert load(name).id == ModelId(name)
    with pytest.raises(ValueError, match="did you mean rootsift"):
        load("rotsift")


def test_another_patch_scale_is_another_model_without_a_ratio(network: PatchNetwork) -> None:
    calibrated = copy.copy(load(network))
    calibrated.info = dataclasses.replace(calibrated.info, ratio=0.85)
    wider = calibrated.with_patch_scale(24)
    assert (wider.patch_scale, wider.ratio) == (24.0, None)
    assert (calibrated.patch_scale, calibrated.ratio) == (network.info.patch_scale, 0.85)
    image, point = texture(), Keypoints([[120.0, 100.0]], [3.0], [0.4])
    assert not torch.allclose(wider.describe_keypoints(image, point), calibrated.describe_keypoints(image, point))
    grown = Keypoints(point.xy, point.scale * 24 / network.info.patch_scale, point.angle)
    assert torch.allclose(
        wider.describe_keypoints(image, point), calibrated.describe_keypoints(image, grown), atol=1e-5
    )
    for wrong in (0.0, 500.0):
        with pytest.raises(ValueError, match="between 1 and 200"):
            calibrated.with_patch_scale(wrong)


@pytest.fixture(scope="module")
def image_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of a small network for whole images."""
    torch.manual_seed(0)
    file = tmp_path_factory.mktemp("embedding") / "birds.safetensors"
    network = networks.create("embedding", backbone="resnet18-narrow", dim=12, input_size=32)
    weights.save(network, file, dataclasses.replace(network.info, name="birds"))
    return file


def test_whole_images_of_any_size_and_kind(image_model: Path, tmp_path: Path) -> None:
    model = load_image_model(image_model)
    images = [images_of_class(number, 1, size)[0] for number, size in enumerate([(32, 32), (48, 90), (200, 70)])]
    cv2.imwrite(str(tmp_path / "a.png"), images[1][..., ::-1])
    descriptors = model.describe_images([*images, tmp_path / "a.png", images[2].mean(2) / 255])
    assert descriptors.shape == (5, 12)
    torch.testing.assert_close(descriptors.norm(dim=1), torch.ones(5))
    torch.testing.assert_close(descriptors[3], descriptors[1])
    plain = torch.from_numpy(images[0]).permute(2, 0, 1)[None]
    torch.testing.assert_close(descriptors[:1], model.network.describe(plain))
    assert model.describe_images([]).shape == (0, 12)
    many = model.describe_images([images[0]] * 70)
    torch.testing.assert_close(many, descriptors[:1].expand(70, -1))


def test_raw_vectors_and_features_come_from_evaluation_mode(image_model: Path) -> None:
    model = load_image_model(image_model)
    squares = torch.rand(5, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    wanted = model.network.features(squares).detach()
    model.network.train()
    found = model.features(squares)
    assert model.network.training
    torch.testing.assert_close(found, wanted)
    unit = torch.nn.functional.normalize(model.raw(squares), dim=1)
    torch.testing.assert_close(unit, model.network.describe(squares), atol=1e-6, rtol=1e-5)


def test_what_takes_both_kinds_says_which_it_loaded(image_model: Path, network: PatchNetwork) -> None:
    loaded = load_any(image_model)
    assert isinstance(loaded, ImageModel) and load_image_model(loaded) is loaded
    assert isinstance(load_any(loaded.network), ImageModel)
    assert isinstance(load_any(network), Model) and isinstance(load_any("sift"), Model)
    assert not hasattr(loaded, "describe_patches") and not hasattr(load("sift"), "describe_images")


def test_what_is_no_model_is_said() -> None:
    with pytest.raises(ValueError, match="given as NoneType; expected a name"):
        load(None)  # type: ignore[arg-type]
