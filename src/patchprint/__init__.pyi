# The public names: type checkers and editors read this file, `__init__.py` imports from it what is used.
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
from patchprint.benchmarks import Benchmark as Benchmark, evaluate as evaluate
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
from patchprint.storage.feature_files import (
    FeatureFolder as FeatureFolder,
    load_features as load_features,
    save_features as save_features,
)
from patchprint.storage.feature_folder import describe_folder as describe_folder
from patchprint.training import Outcome as Outcome
from patchprint.training.config import TrainConfig as TrainConfig

__all__: list[str]
__version__: str
