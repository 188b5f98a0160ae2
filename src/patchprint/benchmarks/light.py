"""Images of fixed cameras over days and seasons: nothing moves, the light changes (TILDE's webcams, and sets of its form).

The folder holds one folder of images for each camera. Every camera gives the same number of pairs: an image and the one half of
the sorted list further. A keypoint is found again, and a match is right, within ``px`` of the same pixel.

``rank 1`` looks at descriptors alone: both images are described at the same keypoints, those of the detector ``same`` in the
first image, and so many of its descriptors have their counterpart as nearest neighbor among all of the second.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from tqdm import tqdm

from patchprint.benchmarks._benchmark import Benchmark, Run, Scores
from patchprint.benchmarks._features import described
from patchprint.benchmarks._peers import PEERS
from patchprint.benchmarks.keypoints import SHI_TOMASI, check_names, find_features, find_peer, means, score_pair
from patchprint.common.errors import UserError
from patchprint.interop.images import list_images
from patchprint.matching.matchers import DEFAULT_MATCHER, create_matcher, match
from patchprint.ops.distances import nearest


@dataclass(frozen=True)
class Settings:
    # Detectors that are compared: ours, or third-party pipelines with descriptors and matching of their own (aliked-n16).
    detectors: tuple[str, ...] = ("learned", "dog", SHI_TOMASI)
    # Strongest keypoints kept in each image.
    keypoints: int = 1000
    # Detector of the keypoints at which both images are described.
    same: str = "dog"
    # How descriptors are matched; a matcher of patchprint match.
    matcher: str = DEFAULT_MATCHER
    # Pairs of each camera.
    pairs: int = 4
    # Largest distance in pixels between a keypoint and its counterpart.
    px: float = 3.0


class Light(Benchmark):
    """Fixed cameras over days and seasons: keypoints found again, rank of the true descriptor, right matches."""

    settings = Settings
    scoring = frozenset({"px", "detectors", "matcher"})

    def evaluate(self, run: Run, settings: Settings) -> Scores:
        """Means over all pairs, and the share of descriptors ranked first for each camera."""
        check_names((*settings.detectors, settings.same))
        matcher = create_matcher(settings.matcher)
        ranked: dict[str, list[float]] = {}
        found: dict[str, list[dict[str, float]]] = {name: [] for name in settings.detectors}
        for camera, names, images in tqdm(_pairs(run, settings.pairs), desc="pairs", disable=None):
            what = [f"{camera}/{name}" for name in names]
            first = find_features(run, images[0], f"{what[0]} {settings.same}", settings.same, settings.keypoints)
            again = described(run, images[1], first.keypoints, f"{what[1]} at the keypoints of {what[0]}")
            place = nearest(first.descriptors, again.descriptors, exact=True)[1][:, 0].numpy()
            ranked.setdefault(camera, []).append(float((place == np.arange(len(first))).mean()))
            for name, entries in found.items():
                a, b = (
                    find_features(run, image, f"{which} {name}", name, settings.keypoints)
                    for image, which in zip(images, what, strict=True)
                )
                found_matches = find_peer(name).match(a, b) if name in PEERS else match(a, b, matcher)
                points_a, points_b = found_matches.points(a, b)
                right = ((points_a - points_b).norm(dim=1) < settings.px).numpy()
                scores = score_pair(a, b, np.eye(3), settings.px)
                again_found = {score: scores[score] for score in ("repeatability", "localization error px")}
                precision = float(right.mean()) if len(right) else 0.0
                entries.append({**again_found, "right matches": float(right.sum()), "precision": precision})
        return {
            "rank 1": float(np.mean([value for values in ranked.values() for value in values])),
            "cameras": {camera: float(np.mean(values)) for camera, values in ranked.items()},
            "detectors": {name: means(entries) for name, entries in found.items()},
            "num_pairs": sum(map(len, ranked.values())),
        }

    def headline(self, scores: Scores) -> dict[str, float]:
        first = next(iter(scores["detectors"].values()))
        names = ("repeatability", "right matches", "precision")
        return {"rank 1": scores["rank 1"], **{name: first[name] for name in names}}


def _pairs(run: Run, count: int) -> Iterator[tuple[str, tuple[str, str], tuple[np.ndarray, np.ndarray]]]:
    """Yield camera, names and images of each pair."""
    cameras = sorted(path for path in run.folder.iterdir() if path.is_dir()) if run.folder.is_dir() else []
    if not cameras:
        raise UserError(f"{run.folder} holds no folders; give the folder with one folder of images for each camera")
    for camera in cameras:
        names = list_images(camera)
        half = len(names) // 2
        for number in range(min(count, half)):
            start = number * half // min(count, half)
            chosen = (names[start], names[start + half])
            images = [image for _, image in run.readable({name: camera / name for name in chosen})]
            if len(images) == 2 and images[0].shape == images[1].shape:
                yield camera.name, chosen, (images[0], images[1])
