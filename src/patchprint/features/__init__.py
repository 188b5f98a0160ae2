"""Use a descriptor: load a model, extract features, draw matches."""

from patchprint.detectors import DetectSettings
from patchprint.features.extract import DescribeSettings, describe_keypoints, extract, extract_many
from patchprint.features.model import Model, list_models, load

__all__ = [
    "DescribeSettings",
    "DetectSettings",
    "Model",
    "describe_keypoints",
    "extract",
    "extract_many",
    "list_models",
    "load",
]
