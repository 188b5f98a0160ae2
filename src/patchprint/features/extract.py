"""Detect and describe the keypoints of images."""

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from patchprint.common.errors import UserError
from patchprint.common.registry import check_options
from patchprint.common.types import Features, Keypoints, KeypointsLike
from patchprint.detectors import DetectSettings, detect
from patchprint.features.model import DEFAULT_MODEL, Model, ModelLike, load
from patchprint.interop.images import ImageLike, is_rotated_by_exif, limit_size, local_path, read_gray
from patchprint.networks.engines import AUTO


@dataclass(frozen=True, kw_only=True)
class DescribeSettings(DetectSettings):
    """How images are described.

    Where only ``device`` and ``engine`` differ, components of descriptors do by at most 0.01 (0.1 with int8), and of a thousand
    keypoints a GPU finds one or two elsewhere.
    """

    # Shipped weights (patchprint.fast is the fast one), a baseline, or a weight file.
    model: str = DEFAULT_MODEL
    # auto, cpu, cuda or mps.
    device: str = "auto"
    # How the network is computed (`networks.engines.ENGINES`); float32 is exact; auto: what the machine has.
    engine: str = AUTO


def extract(
    image: ImageLike,
    model: ModelLike = DEFAULT_MODEL,
    *,
    settings: DetectSettings | None = None,
    keypoints: KeypointsLike | None = None,
    mask: ImageLike | None = None,
    device: str | torch.device = "cpu",
    engine: str = AUTO,
    **fields: Any,
) -> Features:
    """Detect and describe the keypoints of one image.

    >>> extract("a.jpg", max_keypoints=500, upright=True)    # doctest: +SKIP

    Args:
        image: a file, a URL of object storage, or an array (H, W) or (H, W, 3) in RGB; uint8, uint16, or float in [0, 1].
        model: the name of shipped weights or of a baseline (sift, rootsift, pixels), a weight file, or a loaded model.
        settings: how keypoints are detected.
        keypoints: describe these, all of them and in this order, instead of detecting: Keypoints or a list of
            ``cv2.KeyPoint``. None may lie outside of the image. For a file whose EXIF
            orientation rotates it, ``exif`` must be given too, since it decides where keypoints lie.
        mask: a file or an array (H, W); keypoints where it is zero are not detected. Not used with given ``keypoints``.
        device: where a model given by name runs.
        engine: how it is computed there (`load`).
        fields: single fields of `DetectSettings`, which win over ``settings``.

    Raises:
        UserError: for an image, a model or a setting that cannot be used.
    """
    loaded = load(model, device=device, engine=engine)
    found = find_keypoints(image, settings, keypoints=keypoints, mask=mask, device=loaded.device, **fields)
    return describe_found(found, loaded)


def extract_many(
    images: Iterable[ImageLike],
    model: ModelLike = DEFAULT_MODEL,
    *,
    settings: DetectSettings | None = None,
    device: str | torch.device = "cpu",
    engine: str = AUTO,
    **fields: Any,
) -> list[Features]:
    """Detect and describe the keypoints of several images, which are in memory together; on a GPU they are one batch.

    The features are those of `extract`, image by image; so are the arguments.
    """
    loaded = load(model, device=device, engine=engine)
    found = [find_keypoints(image, settings, device=loaded.device, **fields) for image in images]
    descriptors = loaded.describe_many([each.pixels for each in found], [each.keypoints for each in found])
    return [_features(each, part, loaded) for each, part in zip(found, descriptors, strict=True)]


def describe_keypoints(
    image: ImageLike, keypoints: KeypointsLike, *, model: ModelLike = DEFAULT_MODEL, device: str | torch.device = "cpu"
) -> Features:
    """Describe given keypoints of an image; the arguments are those of `extract`."""
    found = Found(read_gray(image), Keypoints.validate(keypoints), path=local_path(image))
    return describe_found(found, load(model, device=device))


@dataclass(frozen=True, eq=False)
class Found:
    """Keypoints of an image, not yet described.

    Attributes:
        pixels: uint8 (H, W), maybe a smaller copy of the image, in whose coordinates the keypoints are.
        factor: how many pixels of the image lie along one of the copy.
        size: width and height of the image; by default those of ``pixels``.
    """

    pixels: np.ndarray
    keypoints: Keypoints
    factor: float = 1.0
    size: tuple[int, int] | None = None
    path: Path | None = None


def find_keypoints(
    image: ImageLike,
    settings: DetectSettings | None = None,
    *,
    keypoints: KeypointsLike | None = None,
    mask: ImageLike | None = None,
    device: str | torch.device = "cpu",
    **fields: Any,
) -> Found:
    """Run the part of `extract` that needs no model; keypoints are searched on ``device`` where the detector can."""
    check_options("extract", fields, [field.name for field in dataclasses.fields(DetectSettings)])
    settings = dataclasses.replace(settings or DetectSettings(), **fields)
    whole = read_gray(image, settings.exif)
    allowed = read_gray(mask, settings.exif) if isinstance(mask, str | Path) else mask
    pixels, factor = whole, 1.0
    if settings.max_size is not None and settings.max_size < max(whole.shape):
        pixels, factor = limit_size(whole, settings.max_size), max(whole.shape) / settings.max_size
        allowed = None if allowed is None else _smaller_mask(np.asarray(allowed), whole.shape, pixels.shape)
    if keypoints is None:
        found = detect(
            pixels,
            settings.detector,
            max_keypoints=settings.max_keypoints,
            mask=None if allowed is None else np.asarray(allowed),
            spread=settings.spread,
            upright=settings.upright,
            device=device,
        )
    else:
        given = Keypoints.validate(keypoints)
        if "exif" not in fields and isinstance(image, (str, Path)) and is_rotated_by_exif(image):
            raise UserError(
                f"{image} is rotated by its EXIF orientation: give exif=True if the keypoints were found in the rotated "
                "image that cv2.imread returns, or exif=False if in the stored pixels"
            )
        _refuse_outside(given, whole)
        found = given.rescale(1 / factor, _shift(1 / factor)) if factor != 1 else given
        found = found.upright() if settings.upright else found
    return Found(pixels, found, factor, (whole.shape[1], whole.shape[0]), local_path(image))


def describe_found(found: Found, model: Model) -> Features:
    """Describe the keypoints of `find_keypoints`; the features are in coordinates of the full-size image."""
    return _features(found, model.describe_keypoints(found.pixels, found.keypoints), model)


def _features(found: Found, descriptors: Tensor, model: Model) -> Features:
    keypoints, (height, width) = found.keypoints, found.pixels.shape
    if found.factor != 1:
        keypoints = keypoints.rescale(found.factor, _shift(found.factor))
    return Features(keypoints, descriptors, found.size or (width, height), found.path, model.id, model.ratio)


def _refuse_outside(keypoints: Keypoints, image: np.ndarray) -> None:
    """Raise UserError for keypoints more than a pixel outside of the image; refinement may move them by less."""
    height, width = image.shape
    beyond = torch.maximum((-1 - keypoints.xy).amax(1), (keypoints.xy - torch.tensor([width, height])).amax(1)) > 0
    outside = beyond.nonzero().flatten().tolist()
    if outside:
        x, y = keypoints.xy[outside[0]].tolist()
        raise UserError(
            f"{len(outside)} of {len(keypoints)} keypoints lie outside of the image of {width}x{height} pixels, the first at "
            f"({x:g}, {y:g}); were they found in another image, or one of another size or orientation?"
        )


def _shift(factor: float) -> tuple[float, float]:
    """Offset of pixel centers when an image is scaled."""
    return 0.5 * factor - 0.5, 0.5 * factor - 0.5


def _smaller_mask(mask: np.ndarray, whole: tuple[int, ...], smaller: tuple[int, ...]) -> np.ndarray:
    """Sample the mask of an image at the pixel centers of its smaller copy."""
    if mask.shape != whole:
        raise UserError(f"the mask has shape {mask.shape}, the image {whole}; they must be equal")
    factor = max(whole) / max(smaller)
    rows, columns = (
        np.minimum(((np.arange(small) + 0.5) * factor).astype(int), large - 1)
        for small, large in zip(smaller, whole, strict=True)
    )
    return mask[rows][:, columns]
