"""Use a descriptor: load a model, extract features, draw matches."""

from patchprint.features.extract import describe_keypoints, extract, extract_many
from patchprint.features.model import Model, list_models, load
from patchprint.features.settings import DescribeSettings, DetectSettings

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
