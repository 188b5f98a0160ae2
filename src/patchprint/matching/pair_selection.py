"""Select and match pairs of images from stored features."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

from patchprint.common.errors import UserError
from patchprint.common.lru import Lru
from patchprint.common.progress import note, progress
from patchprint.common.types import Features, Matches
from patchprint.interop.images import read_gps
from patchprint.matching.matchers import DEFAULT_MATCHER, create_matcher, match
from patchprint.matching.two_view_geometry import Kind, verify
from patchprint.ops import pooling
from patchprint.ops.distances import nearest
from patchprint.storage import image_vectors

Pair = tuple[str, str]
RULES = ("exhaustive", "sequential", "retrieval", "gps")
_EARTH = 6_371_000.0  # radius in meters
OVERLAP = 15  # images that follow, for sequences
_NO_POSITION = (
    "no image has a GPS position in its EXIF data (JPEG and TIFF files, where they were when they were described); take "
    "--pairs retrieval, or sequential for a flight"
)
_CACHED = 64  # images whose features stay in memory


def choose_pairs(
    features: Mapping[str, Features],
    pairs: str | Path,
    neighbors: int | None = None,
    seed: int = 0,
    left_out: Iterable[str] = (),
) -> list[Pair]:
    """Choose the pairs of images to match, by name.

    Args:
        features: by name of the image; only retrieval and gps look at them.
        pairs: "exhaustive" (all); "sequential" (each with the ``neighbors`` that follow it, by name with numbers in the order
            of their value; default 15); "retrieval" (each with the ``neighbors`` that look most like it; default 20); "gps"
            (each with the ``neighbors`` that were taken nearest to it, by the EXIF data of the image files; default 20; images
            without a position by retrieval); or a text file (`read_pairs`).
        seed: of retrieval.
        left_out: images without features that a list may name; their pairs are left out too.
    """
    names = list(features)
    check_pairs([*names, *left_out], pairs, neighbors)
    if pairs == "exhaustive":
        return list(itertools.combinations(names, 2))
    if pairs == "sequential":
        ordered, reach = sorted(names, key=_by_number), (neighbors or OVERLAP) + 1
        return [(a, b) for start, a in enumerate(ordered) for b in ordered[start + 1 : start + reach]]
    if pairs == "retrieval":
        return _similar(features, neighbors or pooling.NEIGHBORS, seed)
    if pairs == "gps":
        return _near(features, neighbors or pooling.NEIGHBORS, seed)
    return [pair for pair in read_pairs(pairs, [*names, *left_out]) if set(pair) <= set(names)]


def check_pairs(
    names: Iterable[str], pairs: str | Path, neighbors: int | None = None, images: str | Path | None = None
) -> None:
    """Raise UserError where `choose_pairs` would, before the ``images``, a folder, are described."""
    if neighbors is not None and neighbors < 1:
        raise UserError(f"an image needs at least 1 neighbor, got {neighbors}")
    if neighbors is not None and pairs not in RULES[1:]:
        raise UserError(f"a number of neighbors belongs to the pairs {', '.join(RULES[1:])}, not to {pairs}")
    if pairs == "gps" and images is not None and all(read_gps(Path(images) / name) is None for name in names):
        raise UserError(_NO_POSITION)
    if pairs not in RULES:
        read_pairs(pairs, names)


def read_pairs(path: str | Path, names: Iterable[str]) -> list[Pair]:
    """Read the pairs of a text file: two of the ``names`` on each line (separated by a tab where names have spaces)."""
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        raise UserError(
            f"--pairs takes {', '.join(RULES)}, or a text file with two names per line; {path} is none of them"
        ) from None
    known, chosen = set(names), []
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        words = line.rstrip("\n").split("\t") if "\t" in line else line.split()
        if len(words) != 2:
            raise UserError(f"{path}, line {number}: expected two names, got {len(words)}")
        for word in words:
            if word not in known:
                raise UserError(f"{path}, line {number}: there is no image {word}")
        chosen.append((words[0], words[1]))
    return list(dict.fromkeys(chosen))


def _similar(features: Mapping[str, Features], neighbors: int, seed: int) -> list[Pair]:
    known = image_vectors.load_or_compute(features, seed)
    return pooling.similar_pairs(known.names, lambda name: features[name].descriptors, neighbors, seed, known.vectors)


def _near(features: Mapping[str, Features], neighbors: int, seed: int) -> list[Pair]:
    """Pair each image with those that were taken nearest to it; altitude does not count."""
    positions = {}
    for name in progress(features, "reading GPS positions", "image"):
        path = features[name].image_path
        if path is not None and (position := read_gps(path)) is not None:
            positions[name] = position
    if not positions:
        raise UserError(_NO_POSITION)
    names = list(positions)
    latitude, longitude = torch.tensor([positions[name] for name in names], dtype=torch.float64).deg2rad().T
    meters = _EARTH * torch.stack(
        [latitude.cos() * longitude.cos(), latitude.cos() * longitude.sin(), latitude.sin()], 1
    )
    # Exact, since a matrix product would lose meters; one more neighbor, since an image is its own.
    _, index = nearest(meters, meters, neighbors + 1, exact=True)
    found = {
        (names[min(row, other)], names[max(row, other)])
        for row, others in enumerate(index.tolist())
        for other in [other for other in others if other not in (row, -1)][:neighbors]
    }
    if without := [name for name in features if name not in positions]:
        note(
            f"{len(without)} of {len(features)} images have no GPS position, {without[0]} first: paired by what they show"
        )
        found |= {pair for pair in _similar(features, neighbors, seed) if not set(pair) <= set(positions)}
    order = {name: number for number, name in enumerate(features)}
    return sorted(found, key=lambda pair: (order[pair[0]], order[pair[1]]))


@dataclass(frozen=True)
class MatchRule:
    """How the pairs of a collection are matched; pairs with fewer than ``fewest`` matches come out empty.

    ``tolerance`` is that of a matcher that has one, in place of its own.
    """

    mode: str = DEFAULT_MATCHER
    ratio: float | None = None
    geometry: Kind | None = None
    fewest: int = 0
    tolerance: float | None = None

    def __call__(self, a: Features, b: Features, device: str = "cpu") -> Matches:
        options = {} if self.tolerance is None else {"tolerance": self.tolerance}
        matcher = create_matcher(self.mode, ratio=self.ratio, **options)
        found = match(a, b, matcher, device=device)
        if self.geometry is not None:
            found = verify(a, b, found, geometry=self.geometry)
        count = len(found) if found.num_inliers is None else found.num_inliers
        return found if count >= self.fewest else Matches(found.indices[:0], found.distance[:0])


class CachedFeatures(Mapping[str, Features]):
    """Features by name, with those of recent images in memory."""

    def __init__(self, features: Mapping[str, Features]) -> None:
        self._features, self._recent = features, Lru[Features](_CACHED)

    def __getitem__(self, name: str) -> Features:
        return self._recent.get(name, lambda: self._features[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._features)

    def __len__(self) -> int:
        return len(self._features)


def _by_number(name: str) -> list[tuple[int, str]]:
    """Sort key that puts image2 before image10."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"([0-9]+)", name)]
