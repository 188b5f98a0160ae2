"""patchprint: train, evaluate and use local image descriptors.

>>> model = patchprint.load("sdgmnet")          # doctest: +SKIP
>>> a = patchprint.extract("a.jpg", model)      # doctest: +SKIP
>>> b = patchprint.extract("b.jpg", model)      # doctest: +SKIP
>>> m = patchprint.match(a, b)                  # doctest: +SKIP
>>> patchprint.draw(a, b, m, "matches.png")     # doctest: +SKIP
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from patchprint import (
        benchmarks as benchmarks,
        common as common,
        data as data,
        detectors as detectors,
        features as features,
        interop as interop,
        losses as losses,
        matching as matching,
        metrics as metrics,
        networks as networks,
        ops as ops,
        pipelines as pipelines,
        storage as storage,
        training as training,
    )
    from patchprint.benchmarks import evaluate as evaluate
    from patchprint.common.errors import UserError as UserError
    from patchprint.common.provenance import Result as Result
    from patchprint.common.types import (
        Features as Features,
        Keypoints as Keypoints,
        KeypointsLike as KeypointsLike,
        Matches as Matches,
        ModelId as ModelId,
        Verdict as Verdict,
    )
    from patchprint.data import PatchSource as PatchSource, open_source as open_source
    from patchprint.detectors import DetectSettings as DetectSettings, detect as detect
    from patchprint.features.compress import Pca as Pca, compress as compress
    from patchprint.features.draw_matches import draw as draw
    from patchprint.features.extract import (
        DescribeSettings as DescribeSettings,
        describe_keypoints as describe_keypoints,
        extract as extract,
        extract_many as extract_many,
    )
    from patchprint.features.feature2d import Feature2D as Feature2D
    from patchprint.features.image_model import ImageModel as ImageModel, load_image_model as load_image_model
    from patchprint.features.laf_descriptor import LAFDescriptor as LAFDescriptor, LAFDetector as LAFDetector
    from patchprint.features.model import (
        Model as Model,
        ModelLike as ModelLike,
        list_models as list_models,
        load as load,
    )
    from patchprint.interop.images import ImageLike as ImageLike
    from patchprint.interop.ray_cluster import Cluster as Cluster
    from patchprint.losses import DescriptorBatch as DescriptorBatch
    from patchprint.matching.calibration import RatioChoice as RatioChoice, calibrate as calibrate
    from patchprint.matching.hloc_models import register_with_hloc as register_with_hloc
    from patchprint.matching.matchers import (
        Matcher as Matcher,
        MatchSettings as MatchSettings,
        match as match,
        match_and_verify as match_and_verify,
    )
    from patchprint.matching.two_view_geometry import verify as verify
    from patchprint.networks import ModelInfo as ModelInfo, PatchNetwork as PatchNetwork
    from patchprint.pipelines.adaptation import AdaptSettings as AdaptSettings, adapt as adapt
    from patchprint.pipelines.detector_training import (
        DetectorSettings as DetectorSettings,
        train_detector as train_detector,
    )
    from patchprint.pipelines.localization import Localized as Localized, localize as localize
    from patchprint.pipelines.matcher_training import (
        MatcherSettings as MatcherSettings,
        train_matcher as train_matcher,
    )
    from patchprint.pipelines.sfm_folder import SfmFolder as SfmFolder
    from patchprint.pipelines.structure_from_motion import SfmSettings as SfmSettings, sfm as sfm
    from patchprint.pipelines.training_run import train as train
    from patchprint.storage import feature_files as _feature_files
    from patchprint.storage.feature_files import FeatureFolder as FeatureFolder
    from patchprint.storage.feature_folder import describe_folder as describe_folder
    from patchprint.training import Outcome as Outcome
    from patchprint.training.config import TrainConfig as TrainConfig

    load_features, save_features = _feature_files.load, _feature_files.save

__version__ = "0.1.0"

# Public names by module, imported on first use, so that importing patchprint stays cheap. A test compares them with the
# imports above, which editors and type checkers read.
_NAMES = {
    "benchmarks": "evaluate",
    "common.errors": "UserError",
    "common.provenance": "Result",
    "data": "PatchSource open_source",
    "detectors": "DetectSettings detect",
    "features.compress": "Pca compress",
    "features.draw_matches": "draw",
    "features.extract": "DescribeSettings describe_keypoints extract extract_many",
    "features.feature2d": "Feature2D",
    "features.image_model": "ImageModel load_image_model",
    "features.laf_descriptor": "LAFDescriptor LAFDetector",
    "features.model": "Model ModelLike list_models load",
    "interop.images": "ImageLike",
    "interop.ray_cluster": "Cluster",
    "losses": "DescriptorBatch",
    "matching.calibration": "RatioChoice calibrate",
    "matching.hloc_models": "register_with_hloc",
    "matching.matchers": "MatchSettings Matcher match match_and_verify",
    "matching.two_view_geometry": "verify",
    "networks": "ModelInfo PatchNetwork",
    "pipelines.adaptation": "AdaptSettings adapt",
    "storage.feature_files": "FeatureFolder load_features=load save_features=save",
    "storage.feature_folder": "describe_folder",
    "pipelines.detector_training": "DetectorSettings train_detector",
    "pipelines.localization": "Localized localize",
    "pipelines.matcher_training": "MatcherSettings train_matcher",
    "pipelines.sfm_folder": "SfmFolder",
    "pipelines.structure_from_motion": "SfmSettings sfm",
    "pipelines.training_run": "train",
    "training": "Outcome",
    "training.config": "TrainConfig",
    "common.types": "Features Keypoints KeypointsLike Matches ModelId Verdict",
}
_PACKAGES = (
    "benchmarks", "common", "data", "detectors", "features", "interop", "losses", "matching", "metrics", "networks", "ops",
    "pipelines", "storage", "training",
)  # fmt: skip
# By name: the module, and how it calls it.
_HOMES: dict[str, tuple[str, str]] = {
    name: (f"patchprint.{module}", own or name)
    for module, names in _NAMES.items()
    for name, _, own in (each.partition("=") for each in names.split())
}

__all__ = ["__version__", *_HOMES, *_PACKAGES]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        module, own = _HOMES[name]
        return getattr(importlib.import_module(module), own)
    if name in _PACKAGES:
        return importlib.import_module(f"patchprint.{name}")
    raise AttributeError(f"module 'patchprint' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
