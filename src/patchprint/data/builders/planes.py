"""Where two images of a COLMAP model show one plane, and the homography between them there: real changes with known truth.

Copies of an image know no season, no other camera and no people. Points of a model that two images share and that agree with a
homography lie on a facade or on the ground, and everything around them does so too.
"""

import itertools
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from patchprint.common import files
from patchprint.common.errors import UserError, parsing, require
from patchprint.common.progress import progress
from patchprint.common.safe_io import read_npz
from patchprint.data.builders.sfm_scene import SfmScene, find_images, read_scene
from patchprint.interop.images import limit_size, read_gray
from patchprint.ops.geometry import homography_errors, jacobian, project

FILE = "planes.npz"
_MADE_BY = "patchprint data build planes"
_REACH = 0.11  # of the longer side of an image: points so near to each other are looked at together
_POINTS = 9  # the fewest that agree
_SHARE = 0.75  # of the points around that must agree
_EXACT = 0.0018  # of the longer side: how far they may be off
_WIDE = 0.02  # of the longer side: the least deviation of their positions, in the direction in which it is smallest
_ZOOM = 2.0  # largest ratio of sizes
_BORDER = 0.03  # of the longer side, beyond the outermost point


@dataclass(frozen=True, eq=False)
class Planes:
    """Planes that two images show.

    Shape:
        names: images; images (P, 2) int64; homography (P, 3, 3) from the first to the second; disc (P, 3) center and radius in
        the first where it holds.
    """

    names: list[str]
    images: np.ndarray
    homography: np.ndarray
    disc: np.ndarray

    def __len__(self) -> int:
        return len(self.images)


def build(
    src: str | Path,
    out: str | Path,
    *,
    images: str | Path | None = None,
    sparse: str | Path | None = None,
    max_size: int = 1024,
    each: int = 3,
    most: int = 4000,
    seed: int = 0,
    quality: int = 90,
    force: bool = False,
) -> None:
    """Planes that two images of a COLMAP model show, for train detector.

    Args:
        src: folder with images/ and sparse/.
        out: folder of images to write.
        images: folder with the images, if not SRC/images.
        sparse: folder with the model, if not SRC/sparse.
        max_size: larger images are made smaller.
        each: planes of a pair of images.
        most: planes in all.
        seed: of everything random.
        quality: of the images, which are stored as WebP.
        force: replace the folder if it exists.
    """
    cv2 = require("cv2", extra="images")
    scene, paths = find_images(read_scene(Path(sparse or src)), Path(images or Path(src) / "images"))
    shrink, sizes = [], []
    with files.atomic_folder(out, _MADE_BY, force) as new:
        for number, path in enumerate(progress(paths, "copying images", "image")):
            image = read_gray(path)
            small = limit_size(image, max_size)
            shrink.append(np.array(small.shape[::-1]) / image.shape[::-1])
            sizes.append(small.shape)
            data = cv2.imencode(".webp", small, [cv2.IMWRITE_WEBP_QUALITY, quality])[1]
            (new / f"{number:05}.webp").write_bytes(data.tobytes())
        found = find_planes(scene, np.array(shrink), max(map(max, sizes)), each, most, seed)
        if len(found) == 0:
            raise UserError(f"{src}: no two images show a plane of {_POINTS} shared points")
        np.savez_compressed(
            new / FILE, names=np.array(found.names), images=found.images, homography=found.homography, disc=found.disc
        )


def read_planes(folder: str | Path) -> Planes | None:
    """Read what `build` wrote; None where the folder has no planes."""
    path = Path(folder) / FILE
    if not path.is_file():
        return None
    found = read_npz(path, "planes of two images")
    with parsing(path, "planes of two images"):
        planes = Planes(found["names"].tolist(), found["images"], found["homography"], found["disc"])
        sizes = (planes.images.shape, planes.homography.shape, planes.disc.shape)
        if sizes != ((len(planes), 2), (len(planes), 3, 3), (len(planes), 3)) or planes.images.max() >= len(
            planes.names
        ):
            raise UserError(f"{path} does not hold planes of two images; build it again")
    return planes


def find_planes(scene: SfmScene, shrink: np.ndarray, side: int, each: int, most: int, seed: int) -> Planes:
    """Find planes; ``shrink`` (I, 2) are the factors by which images were made smaller, ``side`` is their longest side."""
    generator = np.random.default_rng(seed)
    xy = (scene.xy + 0.5) * shrink[scene.image] - 0.5
    rows = [np.flatnonzero(scene.image == number) for number in range(len(scene.names))]
    pairs = list(itertools.combinations(range(len(scene.names)), 2))
    images, homographies, discs = [], [], []
    for place in progress(generator.permutation(len(pairs)), "looking for planes", "pair"):
        first, second = pairs[place] if generator.random() < 0.5 else pairs[place][::-1]
        _, i, j = np.intersect1d(scene.point[rows[first]], scene.point[rows[second]], return_indices=True)
        if len(i) < _POINTS:
            continue
        a, b = xy[rows[first][i]], xy[rows[second][j]]
        for start in generator.permutation(len(a))[:each]:
            plane = _plane_around(a, b, start, side)
            if plane is not None:
                images.append((first, second))
                homographies.append(plane[0])
                discs.append(plane[1])
        if len(images) >= most:
            break
    names = [f"{number:05}.webp" for number in range(len(scene.names))]
    shapes = ((-1, 2), (-1, 3, 3), (-1, 3))
    return Planes(
        names,
        *(np.array(each).reshape(shape) for each, shape in zip((images, homographies, discs), shapes, strict=True)),
    )


def _plane_around(a: np.ndarray, b: np.ndarray, start: int, side: int) -> tuple[np.ndarray, np.ndarray] | None:
    """Homography and disc around a shared point (M, 2), (M, 2), where enough points near to it agree."""
    cv2 = require("cv2", extra="images")
    near = np.linalg.norm(a - a[start], axis=1) < _REACH * side
    if near.sum() < _POINTS:
        return None
    exact = _EXACT * side
    homography, _ = cv2.findHomography(a[near], b[near], cv2.USAC_MAGSAC, exact, maxIters=500, confidence=0.99)
    if homography is None or abs(np.linalg.det(homography)) < 1e-9:
        return None
    agree = homography_errors(homography, a[near], b[near]) < exact
    if agree.sum() < max(_POINTS, _SHARE * near.sum()):
        return None
    points = a[near][agree]
    center = points.mean(0)
    if np.sqrt(np.linalg.eigvalsh(np.cov(points.T))[0]) < _WIDE * side:
        return None
    zoom = np.sqrt(abs(np.linalg.det(jacobian(homography, center[None])[0])))
    if not 1 / _ZOOM < zoom < _ZOOM or not np.isfinite(project(homography, points)).all():
        return None
    radius = np.quantile(np.linalg.norm(points - center, axis=1), 0.8) + _BORDER * side
    return homography, np.array([*center, radius])
