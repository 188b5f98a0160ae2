"""Complete pipelines, from pixels to geometry: keypoints, descriptors and matcher together.

A model of patchprint is measured at the keypoints of ``detector`` with our matching; third-party pipelines
(`_peers.PEERS`) have their own. All get the same number of keypoints and the same robust estimator with the same settings
(`matching.two_view_geometry`).

A match is right within ``px`` of the true homography, or of the epipolar lines of the true cameras. Matches between the
same two places count once, since SIFT's keypoints answer twice where a point has two angles. From all matches of a pair its
homography or its relative pose is estimated; the area under the curve of the share of pairs that are solved, up to so many
pixels at the corners or so many degrees, is the score of the whole.

CPU time of the process depends little on other work on the machine; it is reported beside wall-clock time, and both are
for orientation only.
"""

from __future__ import annotations

import dataclasses
import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np
import torch
from tqdm import tqdm

from patchprint.benchmarks._benchmark import Benchmark, Run, Scores
from patchprint.benchmarks._features import SequenceSettings
from patchprint.benchmarks._peers import PEERS, Peer
from patchprint.common.devices import choose_device
from patchprint.common.errors import UserError
from patchprint.common.types import Features, Keypoints, Matches
from patchprint.detectors import DetectSettings
from patchprint.features.extract import extract
from patchprint.features.model import LOWE_RATIO, Model, ModelBase
from patchprint.interop import strecha
from patchprint.interop.images import list_images, read_gray
from patchprint.interop.sequences import find_sequences
from patchprint.matching.matchers import (
    DEFAULT_MATCHER,
    MatchSettings,
    match_and_verify,
    matchers_with_ratio,
    summary,
)
from patchprint.matching.two_view_geometry import estimate_geometry, estimate_pose
from patchprint.metrics.geometry import corner_error, error_auc, pose_error
from patchprint.networks.engines import AUTO
from patchprint.ops.geometry import epipolar_errors, fundamental_matrix, project, relative_pose

T = TypeVar("T")
CAMERAS = "gt_dense_cameras"


@dataclass(frozen=True)
class Settings(SequenceSettings):
    """How the keypoints of a model of patchprint are found and matched, and what counts as right."""

    # What finds the keypoints of a model of patchprint; one of the detectors of patchprint describe.
    detector: str = "dog"
    # Keep the strongest keypoints of a model of patchprint; by default every part of an image gets its share.
    spread: bool = True
    # How descriptors of a model of patchprint are matched; a matcher of patchprint match.
    matcher: str = DEFAULT_MATCHER
    # Threshold of the ratio test of a model of patchprint; its own if not given.
    ratio: float | None = None
    # Align the pixels around matched keypoints of a model of patchprint, as patchprint match --refine.
    refine: bool = False
    # Largest error in pixels of a right match.
    px: float = 3.0


class Pipelines(Benchmark):
    """From pixels to homography or pose, beside ALIKED, DISK, XFeat, SIFT, ORB: right matches, AUC."""

    settings = Settings
    # Keypoints are found and described once for all rules of matching; matches are kept under the name of theirs.
    scoring = frozenset({"px", "sequences", "matcher", "ratio", "refine"})
    lower_is_better = frozenset({"CPU ms an image", "CPU ms a pair"})

    def load(self, model: Any, device: str = "cpu", engine: str = AUTO) -> ModelBase:
        if isinstance(model, Peer):
            return model
        if isinstance(model, str) and model in PEERS:
            return PEERS[model](str(choose_device(device)))
        try:
            return super().load(model, device, engine)
        except UserError as error:
            raise UserError(f"{error}; pipelines of others are {', '.join(PEERS)}") from None

    def evaluate(self, run: Run, settings: Settings) -> Scores:
        """Return scores of every pair, of every scene, and of all."""
        pipeline = run.model if isinstance(run.model, Peer) else _Ours(run.patch_model, settings)
        pairs: dict[str, dict[str, Any]] = {}
        scenes: dict[str, Scores] = {}
        images: list[dict[str, float]] = []
        truth: Truth | None = None
        for scene in tqdm(find_scenes(run.folder, settings.sequences), desc="scenes", disable=None):
            found = _features_of(run, pipeline, scene, settings.keypoints)
            here: dict[str, dict[str, Any]] = {}
            for (first, second), truth in scene.pairs.items():
                if first in found and second in found:
                    name = f"{scene.name}/{first}-{second}"
                    of_pair = (found[first][0], found[second][0])
                    matches, spent = _matches_of(
                        run, pipeline, name, *of_pair, [scene.paths[first], scene.paths[second]]
                    )
                    scores = score_pair(found[first][0], found[second][0], matches, truth, settings.px)
                    here[name] = {**scores, **spent}
            if here and truth is not None:
                scenes[scene.name] = _together(here, truth)
            pairs |= here
            images += [{"keypoints": len(features), **spent} for features, spent in found.values()]
        if not pairs or truth is None:
            raise UserError(f"{run.folder} has no pair of images that could be read")
        return {
            "pipeline": {"keypoints": pipeline.finds, "matches": pipeline.matches},
            **_together(pairs, truth),
            "keypoints": float(np.mean([image["keypoints"] for image in images])),
            **_median_ms(images, "per_image"),
            **_median_ms(list(pairs.values()), "per_pair"),
            "num_pairs": len(pairs),
            "scenes": scenes,
            "pairs": pairs,
        }

    def headline(self, scores: Scores) -> dict[str, float]:
        return {
            "right matches": scores["right"],
            "precision": scores["precision"],
            **{f"AUC {limit}": value for limit, value in scores["auc"].items()},
            "keypoints": scores["keypoints"],
            "CPU ms an image": scores["cpu_ms_per_image"],
            "CPU ms a pair": scores["cpu_ms_per_pair"],
        }


@dataclass(frozen=True, eq=False)
class KnownHomography:
    """Ground truth of a pair: pixels of the first image to those of the second, (3, 3). Estimates are judged at the corners."""

    homography: np.ndarray
    unit: ClassVar[str] = "px"  # of errors of an estimate
    limits: ClassVar[tuple[float, ...]] = (3, 5, 10)  # up to which areas under the curve of these errors are taken

    def match_errors(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Return the errors of matches in pixels: (M, 2), (M, 2) -> (M,)."""
        return np.linalg.norm(project(self.homography, a) - b, axis=1)

    def estimate_error(self, a: Features, b: Features, matches: Matches) -> float | None:
        """Return the error of the geometry estimated robustly from the matches; None if the estimator fails."""
        found = estimate_geometry(a, b, matches, "homography").model
        return corner_error(None if found is None else found.numpy(), self.homography, a.image_size)


@dataclass(frozen=True, eq=False)
class KnownCameras:
    """Ground truth of a pair: rotation (3, 3) and translation (3,) from the first camera to the second, intrinsics (3, 3).

    Matches are judged by their distance from the epipolar line: errors along the line are not seen.
    """

    rotation: np.ndarray
    translation: np.ndarray
    intrinsics: np.ndarray
    unit: ClassVar[str] = "deg"
    limits: ClassVar[tuple[float, ...]] = (1, 5, 10, 20)

    def match_errors(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        fundamental = fundamental_matrix(self.rotation, self.translation, self.intrinsics, self.intrinsics)
        return epipolar_errors(fundamental, a, b)

    def estimate_error(self, a: Features, b: Features, matches: Matches) -> float | None:
        found = estimate_pose(a, b, matches, self.intrinsics, self.intrinsics)
        return pose_error(found, self.rotation, self.translation)


Truth = KnownHomography | KnownCameras


class _Ours:
    """A model of patchprint at the keypoints of one of our detectors."""

    read = staticmethod(read_gray)

    def __init__(self, model: Model, settings: Settings) -> None:
        self.model = model
        self._detect = DetectSettings(
            detector=settings.detector,
            max_keypoints=settings.keypoints,
            spread=settings.spread,
            upright=settings.upright,
        )
        self._match = MatchSettings(
            matcher=settings.matcher, ratio=settings.ratio, geometry="none", refine=settings.refine
        )
        spread = "spread" if settings.spread else "strongest"
        self.finds = f"{settings.detector}, {spread}{', upright' * settings.upright}; {model.info.name}"
        ratio = settings.ratio or model.ratio or LOWE_RATIO
        tests_ratio = settings.matcher in matchers_with_ratio()
        self.matches = summary(settings.matcher) + (f", ratio {ratio:g}" if tests_ratio else "")
        self.matches += ", refined" * settings.refine

    def extract(self, image: np.ndarray, max_keypoints: int) -> Features:
        return extract(image, self.model, settings=self._detect, max_keypoints=max_keypoints)

    def match(self, a: Features, b: Features, images: Sequence[np.ndarray]) -> Matches:
        return match_and_verify(a, b, self._match, images=images)


def score_pair(a: Features, b: Features, matches: Matches, truth: Truth, px: float) -> dict[str, Any]:
    """Score the matches of a pair: distinct places, right ones, and the error of the estimated geometry."""
    points_a, points_b = (points.cpu().double().numpy() for points in matches.points(a, b))
    places = np.unique(np.concatenate([points_a, points_b], 1), axis=0)
    right = int((truth.match_errors(places[:, :2], places[:, 2:]) < px).sum())
    return {
        "matches": len(places),
        "right": right,
        "precision": right / len(places) if len(places) else 0.0,
        "error": truth.estimate_error(a, b, matches),
    }


def _features_of(
    run: Run, pipeline: Peer | _Ours, scene: Scene, keypoints: int
) -> dict[str, tuple[Features, dict[str, float]]]:
    """Return the features of the images of a scene by name, with the time they took."""
    found = {}
    extractor = run.model.extractor if isinstance(run.model, Peer) else None
    for name, image in run.readable(scene.paths, pipeline.read):
        key = run.key(f"{scene.name}/{name}", of_model=extractor is None)
        if extractor is not None:
            key |= {"extractor": dataclasses.asdict(extractor)}

        def compute(image: np.ndarray = image) -> dict[str, np.ndarray]:
            features, spent = _timed(lambda: pipeline.extract(image, keypoints))
            return {**features.keypoints.to_arrays(), "descriptors": features.descriptors.numpy(), **spent}

        arrays = run.cache.get(key, compute)
        size, descriptors = (image.shape[1], image.shape[0]), torch.from_numpy(arrays["descriptors"])
        features = Features(Keypoints.from_arrays(arrays), descriptors, size, None, run.model.id, run.model.ratio)
        found[name] = features, _milliseconds(arrays)
    return found


def _matches_of(
    run: Run, pipeline: Peer | _Ours, name: str, a: Features, b: Features, paths: Sequence[Path]
) -> tuple[Matches, dict[str, float]]:
    """Return the matches of a pair, with the time they took."""

    def compute() -> dict[str, np.ndarray]:
        if isinstance(pipeline, Peer):
            matches, spent = _timed(lambda: pipeline.match(a, b))
        else:
            images = [pipeline.read(path) for path in paths]
            matches, spent = _timed(lambda: pipeline.match(a, b, images))
        kept = {name: getattr(matches, name) for name in ("indices", "distance", "refined")}
        return {**{name: value.numpy() for name, value in kept.items() if value is not None}, **spent}

    arrays = run.predictions(f"matches {name}, {pipeline.matches}", compute)
    indices, distance = (torch.from_numpy(arrays[part]) for part in ("indices", "distance"))
    refined = torch.from_numpy(arrays["refined"]) if "refined" in arrays else None
    return Matches(indices, distance, refined=refined), _milliseconds(arrays)


def _timed(work: Callable[[], T]) -> tuple[T, dict[str, np.ndarray]]:
    """Run ``work``; returns its result, with wall-clock and CPU time in milliseconds."""
    clock, process = time.perf_counter(), time.process_time()
    done = work()
    spent = {"ms": time.perf_counter() - clock, "cpu_ms": time.process_time() - process}
    return done, {name: np.array(1000 * seconds) for name, seconds in spent.items()}


def _milliseconds(arrays: dict[str, np.ndarray]) -> dict[str, float]:
    return {name: round(float(arrays[name]), 2) for name in ("ms", "cpu_ms")}


def _median_ms(entries: list[dict[str, Any]], suffix: str) -> Scores:
    """Return medians, since the first of many is slow."""
    return {
        f"{name}_{suffix}": round(float(np.median([entry[name] for entry in entries])), 1) for name in ("ms", "cpu_ms")
    }


def _together(pairs: dict[str, dict[str, Any]], truth: Truth) -> Scores:
    """Return means over pairs, and areas under the curve of their errors."""
    errors = [pair["error"] for pair in pairs.values()]
    return {
        **{name: float(np.mean([pair[name] for pair in pairs.values()])) for name in ("matches", "right", "precision")},
        "auc": {f"{limit:g} {truth.unit}": error_auc(errors, limit) for limit in truth.limits},
    }


@dataclass(frozen=True)
class Scene:
    """Images by name, and what is known of pairs of them."""

    name: str
    paths: dict[str, Path]
    pairs: dict[tuple[str, str], Truth]


def find_scenes(root: Path, chosen: tuple[str, ...] = ()) -> list[Scene]:
    """Find scenes: folders with ``gt_dense_cameras``, or else sequences with homographies, in ``root`` or ``root`` itself."""
    folders = [root, *sorted(root.iterdir())] if root.is_dir() else []
    with_cameras = [folder for folder in folders if (folder / CAMERAS).is_dir()]
    if not with_cameras:
        return [
            Scene(
                sequence.name,
                {str(number): path for number, path in sequence.paths.items()},
                {
                    ("1", str(number)): KnownHomography(homography)
                    for number, homography in sequence.homographies.items()
                },
            )
            for sequence in find_sequences(root, chosen)
        ]
    missing = set(chosen) - {folder.name for folder in with_cameras}
    if missing:
        names = ", ".join(folder.name for folder in with_cameras)
        raise UserError(f"{root} has no scene {', '.join(sorted(missing))}; it has {names}")
    return [_with_cameras(folder) for folder in with_cameras if not chosen or folder.name in chosen]


def _with_cameras(folder: Path) -> Scene:
    """Return all pairs of the images in ``images/`` that have a camera."""
    known = strecha.read_intrinsics(folder / "K.txt")
    if known is None:
        raise UserError(f"{folder} has no K.txt; expected the camera matrix of its images, 3 lines of 3 numbers")
    fx, fy, cx, cy = known
    intrinsics = np.array([[fx, 0.0, cx], [0.0, fy, cy], [0.0, 0.0, 1.0]])
    poses = strecha.read_cameras(folder / CAMERAS)
    images = folder / "images" if (folder / "images").is_dir() else folder
    names = [name for name in list_images(images) if name in poses]
    if len(names) < 2:
        raise UserError(f"{images} has {len(names)} images with a camera in {CAMERAS}; a pair needs 2")
    pairs: dict[tuple[str, str], Truth] = {
        (a, b): KnownCameras(*relative_pose(poses[a], poses[b]), intrinsics)
        for a, b in itertools.combinations(names, 2)
    }
    return Scene(folder.name or folder.resolve().name, {name: images / name for name in names}, pairs)
