"""COLMAP's detector gives what COLMAP itself gives."""

from pathlib import Path

import cv2
import torch

from patchprint.detectors import detect
from patchprint.interop import colmap_models
from support.known_images import texture


def test_without_a_limit_colmap_keypoints_are_those_of_colmap(tmp_path: Path) -> None:
    image = texture()
    cv2.imwrite(str(tmp_path / "a.png"), image)
    pycolmap = colmap_models.pycolmap
    options = pycolmap.FeatureExtractionOptions(use_gpu=False)
    pycolmap.extract_features(tmp_path / "d.db", tmp_path, extraction_options=options, device=pycolmap.Device.cpu)
    (entry,) = colmap_models.read_database(tmp_path / "d.db")
    found = detect(image, "colmap", max_keypoints=None)
    assert len(found) == len(entry.keypoints) > 60
    assert torch.allclose(found.xy.sort(0).values, entry.keypoints.xy.sort(0).values, atol=1e-3)
    assert len(detect(image, "dog", max_keypoints=60)) == 60
