"""The conformance corpus (docs/conformance) is what Python finds; tests of C++ and of the page check both with it."""

import json

import numpy as np
import pytest
import torch

from patchprint.detectors import detect
from patchprint.features import load
from patchprint.ops.sampling import ImagePyramids, cut_patches

cv2 = pytest.importorskip("cv2")
conformance = pytest.importorskip("tools.conformance")
pytestmark = pytest.mark.skipif(not conformance.FOLDER.is_dir(), reason="docs/ is not in this copy of the repository")


@pytest.mark.parametrize("name", ["blobs", "texture", "turned"])
def test_python_finds_what_the_corpus_expects(name: str) -> None:
    about = json.loads((conformance.FOLDER / "corpus.json").read_text())
    allowed, model = about["tolerances"], load(about["model"]["name"], engine="float32")
    assert model.info.sha256 == about["model"]["sha256"] and model.patch_scale == about["patch_scale"]
    image, expected, patches, descriptors = conformance.read_corpus(name)
    assert name in about["images"] and len(expected) >= 5
    found = detect(image, "dog", max_keypoints=about["detector"]["max_keypoints"])
    assert len(found) == len(expected)
    assert (found.xy - expected.xy).abs().max() < allowed["position"]
    assert (found.scale / expected.scale - 1).abs().max() < allowed["scale"]
    assert torch.sin(found.angle - expected.angle).abs().max() < allowed["angle"]
    cut = cut_patches(ImagePyramids.build([image]), 0, expected, model.patch_scale, model.input_size)
    assert (cut - patches).abs().mean((1, 2, 3)).max() < allowed["patch"] / 10
    assert (model.describe_keypoints(image, expected) - descriptors).abs().max() < allowed["descriptor"]


def test_images_are_those_of_the_command() -> None:
    for name, image in conformance.images().items():
        stored = cv2.imread(str(conformance.FOLDER / f"{name}.pgm"), cv2.IMREAD_UNCHANGED)
        assert np.abs(stored.astype(int) - image).max() <= 1  # of interpolation in another version of OpenCV
