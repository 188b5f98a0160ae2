"""Keypoints found again: sequences with known homographies, and images turned, warped and shown in other light.

Of the keypoints that both images of a pair show, so many are found again: those that geometry alone can join one to one, at
most ``px`` pixels apart. The localization error is their mean distance. An angle is right within 20 degrees of that
of the counterpart. The matching score is the share of these keypoints whose descriptors are mutual nearest neighbors and
lie where they must.

A folder of sequences gives their pairs, by kind, and copies of each first image; a folder of images gives copies alone.
Copies are turned about the center of the largest disc, or warped, or shown in other light, or both.
"""

import functools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from tqdm import tqdm

from patchprint.benchmarks import rotation
from patchprint.benchmarks._benchmark import Benchmark, Run, Scores
from patchprint.benchmarks._features import described, select
from patchprint.benchmarks._peers import PEERS, Peer
from patchprint.common import rng
from patchprint.common.errors import UserError, require
from patchprint.common.types import Features, Keypoints
from patchprint.data.augment import change_light
from patchprint.data.builders.homographies import random_homography
from patchprint.detectors import check_detector, detect
from patchprint.interop.images import list_images, read_gray
from patchprint.interop.sequences import find_sequences
from patchprint.matching.matchers import match
from patchprint.metrics.correspondence import within_pixels
from patchprint.ops.geometry import inside, project, transport, wrap_angle

SHI_TOMASI = "shi-tomasi"  # a reference without angle: OpenCV's corners, of one size
MARGIN = 8  # pixels of the border of an image in which nothing is expected
TURNED = 20.0  # degrees
TURNS = (45, 90, 180)
KINDS = {"bikes": "blur", "trees": "blur", "graf": "viewpoint", "wall": "viewpoint", "boat": "scale and rotation",
         "bark": "scale and rotation", "leuven": "light", "ubc": "jpeg"}  # fmt: skip


@dataclass(frozen=True)
class Settings:
    # Detectors that are compared: ours, or third-party pipelines with descriptors of their own (aliked-n16).
    detectors: tuple[str, ...] = ("learned", "dog", "dog-published", SHI_TOMASI)
    # Strongest keypoints kept in each image.
    keypoints: int = 2000
    # Give every part of an image its share of the keypoints, instead of keeping the strongest.
    spread: bool = False
    # Largest distance in pixels at which a keypoint is found again.
    px: float = 3.0


@dataclass(frozen=True, eq=False)
class Pair:
    """Two images by name, the homography from the first to the second, and what changes between them."""

    kind: str
    names: tuple[str, str]
    images: tuple[np.ndarray, np.ndarray]
    homography: np.ndarray


class KeypointsBenchmark(Benchmark):
    """Repeatability, localization error and matching score of detectors, by kind of change."""

    settings = Settings
    scoring = frozenset({"px", "detectors"})
    lower_is_better = frozenset({"localization error px"})

    def evaluate(self, run: Run, settings: Settings) -> Scores:
        """Scores of every detector, by kind, and their means over kinds of sequences and of copies."""
        check_names(settings.detectors)
        found: dict[str, dict[str, list[dict[str, float]]]] = {name: {} for name in settings.detectors}
        for pair in tqdm(_pairs(run), desc="pairs", disable=None):
            for name, kinds in found.items():
                a, b = (
                    find_features(run, image, f"{where} {name}", name, settings.keypoints, settings.spread)
                    for image, where in zip(pair.images, pair.names, strict=True)
                )
                kinds.setdefault(pair.kind, []).append(score_pair(a, b, pair.homography, settings.px))
        return {
            "detectors": {
                name: {kind: means(entries) for kind, entries in kinds.items()} for name, kinds in found.items()
            },
            "pairs": {kind: len(entries) for kind, entries in next(iter(found.values())).items()},
        }

    def headline(self, scores: Scores) -> dict[str, float]:
        kinds = next(iter(scores["detectors"].values()))
        names = ("repeatability", "localization error px", "matching score")
        return {name: float(np.mean([each[name] for each in kinds.values()])) for name in names}


def score_pair(a: Features, b: Features, homography: np.ndarray, px: float) -> dict[str, float]:
    """Scores of one pair of images; the homography leads from a to b."""
    shapes = [(size[1] - 2 * MARGIN, size[0] - 2 * MARGIN) for size in (b.image_size, a.image_size)]
    ways = (homography, np.linalg.inv(homography))
    seen = [
        inside(project(way, each.keypoints.xy.double().numpy()) - MARGIN, shape)
        for each, way, shape in zip((a, b), ways, shapes, strict=True)
    ]
    a, b = (select(each, here) for each, here in zip((a, b), seen, strict=True))
    fewest = min(len(a), len(b))
    if fewest == 0:
        return {"repeatability": 0.0, "localization error px": px, "angles": 0.0, "matching score": 0.0, "right": 0.0}
    again = within_pixels(a.keypoints, b.keypoints, homography, px)
    nearest = _nearest_first(again.rows, again.columns, again.errors)
    rows, columns = again.rows[nearest], again.columns[nearest]
    expected = transport(a.keypoints, homography).angle[rows]
    turned = wrap_angle(b.keypoints.angle[columns] - expected).abs().rad2deg()
    i, j = match(a, b, "mutual").indices.numpy().T
    right = int(again.contain(i, j).sum())
    return {
        "repeatability": len(nearest) / fewest,
        "localization error px": float(again.errors[nearest].mean()) if len(nearest) else px,
        "angles": float((turned < TURNED).float().mean()) if len(nearest) else 0.0,
        "matching score": right / fewest,
        "right": float(right),
    }


def means(entries: list[dict[str, float]]) -> dict[str, float]:
    """Return the mean of each score over pairs of images."""
    return {name: float(np.mean([each[name] for each in entries])) for name in entries[0]}


def _nearest_first(rows: np.ndarray, columns: np.ndarray, errors: np.ndarray) -> np.ndarray:
    """Join pairs one to one, smallest error first: which of them, (M,)."""
    used: tuple[set[int], set[int]] = set(), set()
    joined = []
    for place in np.argsort(errors, kind="stable").tolist():
        if rows[place] not in used[0] and columns[place] not in used[1]:
            used[0].add(rows[place])
            used[1].add(columns[place])
            joined.append(place)
    return np.array(joined, dtype=np.int64)


def _pairs(run: Run) -> Iterator[Pair]:
    """Yield the pairs of sequences, and copies of first images or of all images of a folder."""
    try:
        sequences = find_sequences(run.folder)
    except UserError:
        paths = {name: run.folder / name for name in list_images(run.folder)}
        for number, (name, image) in enumerate(run.readable(paths)):
            yield from _copies(name, image, run.seed + number)
        return
    for number, sequence in enumerate(sequences):
        images = dict(run.readable(sequence.paths))
        for other, homography in sequence.homographies.items():
            if 1 in images and other in images:
                names = (f"{sequence.name}/1", f"{sequence.name}/{other}")
                yield Pair(_kind(sequence.name), names, (images[1], images[other]), homography)
        if 1 in images:
            yield from _copies(f"{sequence.name}/1", images[1], run.seed + number)


def _kind(name: str) -> str:
    """What changes along a sequence: Oxford's are known, HPatches' begin with i (light) or v (viewpoint)."""
    return KINDS.get(name, {"i_": "light", "v_": "viewpoint"}.get(name[:2], "other"))


def _copies(name: str, image: np.ndarray, seed: int) -> Iterator[Pair]:
    """Yield an image with its copies: turned, warped, in other light, and both."""
    cv2 = require("cv2", extra="images")
    disc = rotation.central_disc(image)
    for degrees in (0, *TURNS):
        copy, homography = rotation.turned(disc, degrees)
        copy = _relit(copy, seed, 0.2)
        yield Pair(f"turned by {degrees}", (f"{name} disc", f"{name} turned by {degrees}"), (disc, copy), homography)
    generator = np.random.default_rng(seed)
    height, width = image.shape
    homography = random_homography(generator, width, height)
    warped = cv2.warpPerspective(image, homography, (width, height), borderMode=cv2.BORDER_REFLECT_101)
    made = {
        "warped": (warped, homography),
        "other light": (_relit(image, seed, 0.8), np.eye(3)),
        "warped, other light": (_relit(warped, seed + 1, 0.8), homography),
    }
    for kind, (copy, truth) in made.items():
        yield Pair(kind, (name, f"{name} {kind}"), (image, copy), truth)


def _relit(image: np.ndarray, seed: int, strength: float) -> np.ndarray:
    values = torch.from_numpy(image)[None, None].float() / 255
    return (255 * change_light(values, rng.key(seed), strength)[0, 0]).round().to(torch.uint8).numpy()


def check_names(detectors: tuple[str, ...]) -> None:
    """Raise UserError for a detector that is not known."""
    for name in detectors:
        if name != SHI_TOMASI and name not in PEERS:
            check_detector(name, None)


def find_features(run: Run, image: np.ndarray, what: str, detector: str, count: int, spread: bool = False) -> Features:
    """Keypoints of a detector, Shi and Tomasi's or a peer's, with descriptors, from the cache or made; ``what`` names them."""
    if detector in PEERS:
        peer = find_peer(detector)

        def extract() -> dict[str, np.ndarray]:
            pixels = image if peer.read is read_gray else np.repeat(image[..., None], 3, 2)
            features = peer.extract(pixels, count)
            return {**features.keypoints.to_arrays(), "descriptors": features.descriptors.numpy()}

        arrays = run.inputs(f"{what} {peer.extractor.sha256}", extract)
        descriptors, size = torch.from_numpy(arrays["descriptors"]), (image.shape[1], image.shape[0])
        return Features(Keypoints.from_arrays(arrays), descriptors, size, None, peer.id)

    def find() -> dict[str, np.ndarray]:
        if detector == SHI_TOMASI:
            return _shi_tomasi(image, count).to_arrays()
        return detect(image, detector, max_keypoints=count, spread=spread).to_arrays()

    return described(run, image, Keypoints.from_arrays(run.inputs(what, find)), what)


@functools.cache
def find_peer(name: str) -> Peer:
    """Return a third-party pipeline, on the CPU."""
    return PEERS[name]("cpu")


def _shi_tomasi(image: np.ndarray, count: int) -> Keypoints:
    cv2 = require("cv2", extra="images")
    found = cv2.goodFeaturesToTrack(image, count, 1e-6, 4, blockSize=3)
    xy = np.zeros((0, 2), np.float32) if found is None else found[:, 0]
    return Keypoints(xy, 3.0, 0.0, np.arange(len(xy), 0, -1))
