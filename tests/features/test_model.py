"""Models: networks and baselines behind one door."""

from __future__ import annotations

import copy
import dataclasses

import cv2
import pytest
import torch

from patchprint.detectors import detect
from patchprint.features import load
from patchprint.networks import PatchNetwork
from patchprint.types import Keypoints, ModelId
from support.known_images import texture


def test_sift_of_a_patch_resembles_sift_of_the_picture() -> None:
    from patchprint.patches.sampler import ImagePyramids, cut_patches

    image = cv2.GaussianBlur(texture(), (0, 0), 1)
    loaded = load("sift")
    found = detect(image, "dog", 200)
    found = found[(found.scale > 2.5) & ((found.xy > 50) & (found.xy < 190)).all(1)]
    patches = cut_patches(ImagePyramids.build([image]), 0, found, loaded.patch_scale, 32)
    cosine = (loaded.describe_patches(patches) * loaded.describe_keypoints(image, found)).sum(1)
    assert float(cosine.median()) > 0.9


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
