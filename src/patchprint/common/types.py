"""Keypoints, features and matches, and the one coordinate convention of patchprint.

**Convention.** The center of the top-left pixel is (0, 0); x grows to the right, y grows downwards. A keypoint's
``scale`` is the sigma of the detector (COLMAP's scale, half of ``cv2.KeyPoint.size``). Its ``angle`` is in radians,
measured from the x axis towards the y axis (clockwise as seen on the screen). An affine frame ``A`` (2, 2) carries
scale and angle together, ``A = scale * [[cos, -sin], [sin, cos]]`` for a round keypoint, and takes an offset in units of
sigma to an offset in pixels. A patch of ``patch_scale`` m covers the square ``xy + m / 2 * A @ [-1, 1]^2``, so that its
side is ``m * scale`` pixels. Converters to the conventions of other libraries live in ``patchprint.interop``; only that from
OpenCV is here, since its keypoints are taken wherever ours are.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from patchprint.common.errors import UserError

_LARGEST = 1e6  # pixels of any coordinate or scale; beyond some 1e10 the sampling of patches overflows

Numbers = Tensor | np.ndarray | Sequence[Any]  # converted to tensors


@dataclass(frozen=True, eq=False, init=False)
class Keypoints:
    """N keypoints of one image, in the convention of this module.

    Args:
        scale: one for each keypoint, or one number for all; needed, since the size of a patch follows from it.
        angle: zero where it is not given.

    Shape:
        xy (N, 2), scale (N,), angle (N,), score (N,) or None, affine (N, 2, 2) or None: float32 tensors on one device.
        Where ``affine`` is given it decides the frame; ``scale`` and ``angle`` then describe it for readers.
    """

    xy: Tensor
    scale: Tensor = None  # type: ignore[assignment] # so that a sentence says what is missing
    angle: Tensor = None  # type: ignore[assignment]
    score: Tensor | None = None
    affine: Tensor | None = None

    def __init__(
        self,
        xy: Numbers,
        scale: Numbers | float | None = None,
        angle: Numbers | float | None = None,
        score: Numbers | None = None,
        affine: Numbers | None = None,
    ) -> None:
        if scale is None:
            raise UserError("keypoints need a scale, which sets the size of patches: Keypoints(xy, scale, angle)")
        places = torch.as_tensor(xy, dtype=torch.float32)
        count = len(places)
        given = {"scale": scale, "angle": 0.0 if angle is None else angle, "score": score, "affine": affine}
        object.__setattr__(self, "xy", places)
        for name, numbers in given.items():
            value = numbers if numbers is None else torch.as_tensor(numbers, dtype=torch.float32)
            if value is not None and value.ndim == 0 and name in ("scale", "angle"):
                value = value.expand(count).contiguous().to(places.device)
            object.__setattr__(self, name, value)
        expected = {"xy": (count, 2), "scale": (count,), "angle": (count,), "score": (count,), "affine": (count, 2, 2)}
        for name, shape in expected.items():
            value = getattr(self, name)
            if value is not None and tuple(value.shape) != shape:
                raise UserError(f"Keypoints.{name} has shape {tuple(value.shape)}, expected {shape}")

    def __len__(self) -> int:
        return len(self.xy)

    def __repr__(self) -> str:
        shape = "" if self.affine is None else ", affine"
        reach = f", scale {float(self.scale.min()):.3g} to {float(self.scale.max()):.3g}" if len(self) else ""
        return f"Keypoints({len(self)}{reach}{shape})"

    def __getitem__(self, index: Tensor | np.ndarray | slice) -> Keypoints:
        """Select keypoints by a slice, an index array or a boolean mask."""
        if not isinstance(index, slice):
            index = torch.as_tensor(index, device=self.xy.device)
        return self._map(lambda value: value[index])

    @staticmethod
    def empty() -> Keypoints:
        return Keypoints(torch.zeros(0, 2), torch.zeros(0), torch.zeros(0), torch.zeros(0))

    @staticmethod
    def concatenate(parts: Sequence[Keypoints]) -> Keypoints:
        """Concatenate keypoints; scores are kept only where all parts have them."""
        parts = [part for part in parts if len(part)]
        if not parts:
            return Keypoints.empty()
        names = ["xy", "scale", "angle", *(["score"] if all(part.score is not None for part in parts) else [])]
        joined = {name: torch.cat([getattr(part, name) for part in parts]) for name in names}
        shaped = any(part.affine is not None for part in parts)
        return Keypoints(**joined, affine=torch.cat([part.frames() for part in parts]) if shaped else None)

    @staticmethod
    def from_arrays(arrays: Mapping[str, np.ndarray]) -> Keypoints:
        """Make keypoints from the output of `to_arrays`; other names in ``arrays`` are ignored."""
        names = [field.name for field in dataclasses.fields(Keypoints) if field.name in arrays]
        return Keypoints(**{name: torch.from_numpy(np.asarray(arrays[name])) for name in names})

    @staticmethod
    def from_opencv(keypoints: Sequence[Any]) -> Keypoints:
        """Convert ``list[cv2.KeyPoint]``: half the size, radians; an angle of -1 means "none" in OpenCV and becomes 0."""
        if not keypoints:
            return Keypoints.empty()
        rows = np.array([(*k.pt, k.size, k.angle, k.response) for k in keypoints], dtype=np.float64)
        degrees = np.where(rows[:, 3] == -1, 0.0, rows[:, 3])
        return Keypoints(
            xy=torch.from_numpy(rows[:, :2]),
            scale=torch.from_numpy(rows[:, 2] / 2),
            angle=torch.from_numpy(np.radians(degrees)),
            score=torch.from_numpy(rows[:, 4]),
        )

    @staticmethod
    def validate(keypoints: KeypointsLike) -> Keypoints:
        """Validate keypoints from a user: Keypoints or a list of ``cv2.KeyPoint``, all numbers finite."""
        if isinstance(keypoints, (list, tuple)) and all(hasattr(each, "pt") for each in keypoints):
            keypoints = Keypoints.from_opencv(keypoints)
        if not isinstance(keypoints, Keypoints):
            kind = type(keypoints).__name__
            raise UserError(
                f"keypoints are given as {kind}; give Keypoints(xy, scale, angle) or a list of cv2.KeyPoint"
            )
        given = (keypoints.xy, keypoints.scale, keypoints.angle, keypoints.affine)
        numbers = [each for each in given if each is not None]
        # The smallest scale and the largest numbers (NaN is none) show anything wrong, quicker than a look at each keypoint.
        is_small = all(float(each.detach().abs().max()) <= _LARGEST for each in numbers if each.numel())
        if len(keypoints) == 0 or (keypoints.scale.min() > 0 and is_small):
            return keypoints
        rows = torch.cat([each.flatten(1) if each.ndim > 1 else each[:, None] for each in numbers], 1)
        wrong = (~((rows.abs() <= _LARGEST).all(1) & (keypoints.scale > 0))).nonzero().flatten().tolist()
        if wrong:
            x, y = keypoints.xy[wrong[0]].tolist()
            scale, angle = float(keypoints.scale[wrong[0]]), float(keypoints.angle[wrong[0]])
            raise UserError(
                f"keypoint {wrong[0]} of {len(keypoints)} lies at ({x:g}, {y:g}) with scale {scale:g} and angle {angle:g}; all "
                f"must be finite, none beyond {_LARGEST:.0e}, and the scale above zero"
            )
        return keypoints

    @staticmethod
    def from_affine(xy: Tensor, affine: Tensor, score: Tensor | None = None) -> Keypoints:
        """Make keypoints from frames (N, 2, 2); scale is the geometric mean of the axes, angle that of the first column."""
        affine = torch.as_tensor(affine, dtype=torch.float32)
        scale = torch.linalg.det(affine).abs().sqrt()
        return Keypoints(xy, scale, torch.atan2(affine[:, 1, 0], affine[:, 0, 0]), score, affine)

    def frames(self) -> Tensor:
        """Affine frames (N, 2, 2): ``affine`` where given, else scale times rotation."""
        if self.affine is not None:
            return self.affine
        cos, sin = torch.cos(self.angle) * self.scale, torch.sin(self.angle) * self.scale
        return torch.stack([cos, -sin, sin, cos], -1).unflatten(-1, (2, 2))

    def upright(self) -> Keypoints:
        """Set all angles to zero; affine shape is dropped, since its rotation part carries the angle."""
        return dataclasses.replace(self, angle=torch.zeros_like(self.angle), affine=None)

    def rescale(self, factor: float, offset: tuple[float, float]) -> Keypoints:
        """Convert keypoints of a crop or a smaller copy to coordinates of the image: ``xy * factor + offset``."""
        affine = None if self.affine is None else self.affine * factor
        return dataclasses.replace(
            self, xy=self.xy * factor + torch.tensor(offset), scale=self.scale * factor, affine=affine
        )

    def unique_places(self, cell: float | None = None) -> Keypoints:
        """Keep one keypoint for each place, the strongest (without scores the first), in order.

        Detectors answer twice where a point has two orientations. A place is a position with a scale; with ``cell``, a square
        of that side in pixels, whatever the scale.
        """
        if len(self) == 0:
            return self
        places = torch.cat([self.xy, self.scale[:, None]], 1) if cell is None else (self.xy / cell).round()
        order = np.arange(len(self)) if self.score is None else self.score.cpu().argsort(descending=True).numpy()
        _, first = np.unique(places.cpu().numpy()[order], axis=0, return_index=True)
        return self[np.sort(order[first])]

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Convert the fields that are given to arrays, by name."""
        return {name: value.cpu().numpy() for name, value in vars(self).items() if value is not None}

    def to(self, device: torch.device | str) -> Keypoints:
        return self._map(lambda value: value.to(device))

    def _map(self, function: Callable[[Tensor], Tensor]) -> Keypoints:
        return Keypoints(**{name: function(value) for name, value in vars(self).items() if value is not None})


# Keypoints, or a list of cv2.KeyPoint.
KeypointsLike = Keypoints | Sequence[Any]


@dataclass(frozen=True)
class ModelId:
    """Name of a model and sha256 of its weights (empty for models without weights)."""

    name: str
    sha256: str = ""


@dataclass(frozen=True, eq=False)
class Features:
    """Keypoints of one image with their descriptors.

    Shape:
        descriptors (N, D): float32 or float16 unit vectors, int8 quantized vectors, or uint8 packed bits (D = bytes).
        image_size (width, height) in pixels of the image as it was read; ratio: the calibrated threshold of the ratio
        test for these descriptors, None where there is none.
    """

    keypoints: Keypoints
    descriptors: Tensor
    image_size: tuple[int, int]
    image_path: Path | None
    model: ModelId
    ratio: float | None = None

    def __post_init__(self) -> None:
        if self.descriptors.ndim != 2 or len(self.descriptors) != len(self.keypoints):
            count, shape = len(self.keypoints), tuple(self.descriptors.shape)
            raise UserError(f"{count} keypoints have descriptors of shape {shape}, expected ({count}, D)")

    def __len__(self) -> int:
        return len(self.keypoints)

    def __repr__(self) -> str:
        dtype, (width, height) = str(self.descriptors.dtype).removeprefix("torch."), self.image_size
        source = "an image" if self.image_path is None else self.image_path.name
        return (
            f"Features({len(self)} of {self.model.name}, {self.descriptors.shape[1]} {dtype} each, "
            f"in {source} of {width}x{height})"
        )

    def validate(self) -> Features:
        """Return these features; raises UserError where numbers from a file cannot be those of an image."""
        Keypoints.validate(self.keypoints)
        if not 1 <= min(self.image_size) <= max(self.image_size) <= _LARGEST:
            raise UserError(f"the image size of the features is {self.image_size}")
        if self.ratio is not None and not 0 < self.ratio <= 1:
            raise UserError(f"the ratio of the features is {self.ratio:g}, and no number above 0 and up to 1")
        return self

    @property
    def is_binary(self) -> bool:
        """Whether the descriptors are packed bits, compared by Hamming distance."""
        return self.descriptors.dtype == torch.uint8


Answer = Literal["same", "unsure"]
_ADVICE = (
    "--matcher mutual", "--detector hessian-affine (extra eval)", "more --max-keypoints", "or another --max-size"
)  # fmt: skip
_BEYOND = {"0.00": "below 0.01", "1.00": "above 0.99"}  # nothing is certain


@dataclass(frozen=True)
class Verdict:
    """Whether two images show the same place, and the probability that they do.

    There is no answer "different": images whose matches do not agree show different places, or one place in ways that the
    detector and the descriptor do not see through, and matches alone cannot tell which. The probability is calibrated for
    equal priors, on pairs with more inliers than the minimal sample of the geometry.
    """

    answer: Answer
    probability: float

    def __str__(self) -> str:
        return self.sentence()

    def sentence(self, *tried: str) -> str:
        """Return the answer in words, with advice but for what was ``tried`` already, as "--matcher mutual"."""
        rounded = f"{self.probability:.2f}"
        probability = f"probability {_BEYOND.get(rounded, rounded)}"
        if self.answer == "same":
            return f"same place ({probability})"
        advice = ", ".join(each for each in _ADVICE if not each.startswith(tried))
        return f"cannot tell whether they show the same place ({probability} by the matches found); try {advice}"


@dataclass(frozen=True, eq=False)
class Matches:
    """M correspondences between two Features.

    Shape:
        indices (M, 2) int64 into the keypoints of a and b; distance (M,) float32, smaller is better;
        inliers (M,) bool or None before geometric verification; model (3, 3) float64, the homography or
        fundamental matrix that was estimated, or None; verdict: whether both images show the same place, None before
        verification; score (M,) float32, how sure a matcher is of each match, larger is better, or None; refined (M, 2)
        float32, where the keypoints of b lie once their pixels are aligned with those of a, or None: where they were found.
    """

    indices: Tensor
    distance: Tensor
    inliers: Tensor | None = None
    model: Tensor | None = None
    geometry: str | None = None
    verdict: Verdict | None = None
    score: Tensor | None = None
    refined: Tensor | None = None

    def __len__(self) -> int:
        return len(self.indices)

    def __repr__(self) -> str:
        verified = "" if self.inliers is None else f", {self.num_inliers} agree with one geometry ({self.geometry})"
        verdict = "" if self.verdict is None else f": {self.verdict}"
        return f"Matches({len(self)}{verified}{verdict})"

    @property
    def num_inliers(self) -> int | None:
        return None if self.inliers is None else int(self.inliers.sum())

    def points(
        self, a: Features | Keypoints, b: Features | Keypoints, inliers_only: bool = False
    ) -> tuple[Tensor, Tensor]:
        """Positions of the matched keypoints in both images, in b ``refined`` ones; ``a`` and ``b`` were matched.

        Shape:
            -> (M, 2) and (M, 2) pixels; with ``inliers_only`` (needs verification) the rows that agree with the geometry.
        """
        indices, refined = self.indices, self.refined
        if inliers_only:
            if self.inliers is None:
                raise UserError("matches without inliers; call patchprint.verify first")
            indices, refined = indices[self.inliers], None if refined is None else refined[self.inliers]
        if len(indices) and ((indices < 0) | (indices >= torch.tensor([len(a), len(b)], device=indices.device))).any():
            raise UserError(f"these matches are not of {a!r} and {b!r}; give the features that were matched")
        xy_a, xy_b = (each.xy if isinstance(each, Keypoints) else each.keypoints.xy for each in (a, b))
        return xy_a[indices[:, 0]], xy_b[indices[:, 1]] if refined is None else refined


@dataclass(frozen=True, eq=False)
class Pose:
    """Pose of a camera: rotation (3, 3) from world to camera, center (3,) in the world."""

    rotation: np.ndarray
    center: np.ndarray
