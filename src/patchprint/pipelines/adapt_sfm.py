"""What tuning gained in 3D models: the points that COLMAP makes of the matches of held-out photos with those around them.

Everybody has the same keypoints, and the cameras that the reconstruction of all photos found: COLMAP verifies the matches and
triangulates. To let it seek the cameras as well was tried. Of so few pairs it finds them or not by chance, so that models
differed more with COLMAP's seed than with the weights, and it can take minutes. Two photos that training saw are not matched
with each other, so that every point was found in a photo that was held out.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from patchprint.common.image_codec import encode_png
from patchprint.data.tracks import TrackStore
from patchprint.interop.colmap_models import cameras_of_model, read_model
from patchprint.interop.colmap_sfm import triangulate
from patchprint.matching import match
from patchprint.pipelines.structure_from_motion import FEWEST_MATCHES
from patchprint.types import Features, Keypoints

MOST_PHOTOS = 20  # so that it takes seconds
FEWEST_OBSERVATIONS = 30  # of a photo that counts as registered: what COLMAP asks for by default
COUNTS = ("registered", "points", "observations")


class PhotosToMap:
    """Photos of a store that are mapped, and the pairs of them that are matched; ``numbers`` and ``pairs`` name them.

    Args:
        unseen: numbers of the photos that training never sees.
        reconstruction: folder of the sparse model of all photos.
    """

    def __init__(self, store: TrackStore, unseen: Sequence[int], reconstruction: Path, seed: int) -> None:
        self.numbers = _that_hang_together(store, unseen)
        self.pairs = [pair for pair in itertools.combinations(self.numbers, 2) if not set(pair).isdisjoint(unseen)]
        self._store, self._seed = store, seed
        self._cameras = cameras_of_model(read_model(reconstruction))

    def map(self, described: Mapping[int, Features]) -> tuple[dict[str, float], np.ndarray]:
        """COUNTS of the 3D model, and the observations in each photo.

        Args:
            described: by number of the photo.

        Shape:
            observations (len(self.numbers),).
        """
        found = {(a, b): match(described[a], described[b]).indices.numpy() for a, b in self.pairs}
        model = self._triangulate(
            {_name(number): described[number].keypoints for number in self.numbers},
            {(_name(a), _name(b)): pairs for (a, b), pairs in found.items() if len(pairs) >= FEWEST_MATCHES},
        )
        in_photo = {image.name: image.num_points3D for image in model.images.values()}
        observations = np.array([in_photo[_name(number)] for number in self.numbers], np.float64)
        registered = int((observations >= FEWEST_OBSERVATIONS).sum())
        counts = (registered, model.num_points3D(), observations.sum())
        return dict(zip(COUNTS, map(float, counts), strict=True)), observations

    def _triangulate(self, keypoints: dict[str, Keypoints], matches: dict[tuple[str, str], np.ndarray]) -> Any:
        with tempfile.TemporaryDirectory() as folder:
            for number in self.numbers:
                (Path(folder) / _name(number)).write_bytes(encode_png(self._store.images.pixels(number)))
            names = self._store.names.images
            cameras = {_name(number): self._cameras[names[number]] for number in self.numbers}
            return triangulate(folder, keypoints, matches, folder, cameras, seed=self._seed)


def _name(number: int) -> str:
    return f"{number:06d}.png"


def _that_hang_together(store: TrackStore, unseen: Sequence[int]) -> list[int]:
    """At most MOST_PHOTOS, one after the other: that which shares most points with those that are chosen.

    Points that two photos share count where training did not see both of them, since only such photos are matched.
    """
    shared = np.zeros((len(store.images), len(store.images)), np.int64)
    for number in unseen:
        shared[number] = shared[:, number] = shared_points(store, number)
    chosen = [max(unseen, key=lambda number: int(shared[number].sum()))]
    while len(chosen) < MOST_PHOTOS:
        with_chosen = shared[chosen].sum(0)
        with_chosen[chosen] = 0
        if not with_chosen.any():
            break
        chosen.append(int(with_chosen.argmax()))
    return sorted(chosen)


def shared_points(store: TrackStore, number: int) -> np.ndarray:
    """How many of the points that a photo shows each photo shows; 0 for itself.

    Shape:
        (num_photos,) integers.
    """
    tracks = store.tracks
    points = np.unique(tracks.point[tracks.image == number])
    counts = np.bincount(tracks.image[np.isin(tracks.point, points)], minlength=len(store.images))
    counts[number] = 0
    return counts
