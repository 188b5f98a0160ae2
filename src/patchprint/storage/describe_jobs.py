"""One photo to describe: finding its keypoints, describing them, and what is wrong with it where that cannot be done."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from patchprint.common.errors import MissingPackageError, UserError
from patchprint.common.optional import require
from patchprint.detectors import MAX_KEYPOINTS
from patchprint.features.extract import Found, describe_found, find_keypoints
from patchprint.features.model import Model
from patchprint.features.settings import DEFAULT_MODEL
from patchprint.interop.image_files import read_gray
from patchprint.networks.engines import AUTO
from patchprint.storage import feature_files
from patchprint.types import Features


@dataclass(frozen=True)
class DescribeSettings:
    """How photos are described; equal settings give equal features."""

    model: str = DEFAULT_MODEL
    detector: str = "dog"
    max_keypoints: int | None = MAX_KEYPOINTS
    upright: bool = False
    spread: bool = True
    exif: bool = False
    max_size: int | None = None
    device: str = "cpu"
    engine: str = AUTO
    # Folder of masks, one for each photo that has one (`interop.images.find_mask`); black is where no keypoint may be.
    masks: str = ""


@dataclass(frozen=True)
class Job:
    """One photo to describe."""

    image: str | Path
    mask: Path | None
    out: Path


def limit_threads(number: int) -> None:
    """Of this process, which is one of several: libraries by themselves would start as many as there are cores in each."""
    torch.set_num_threads(number)
    require("cv2", extra="images").setNumThreads(number)


def find(job: Job, settings: DescribeSettings) -> Found | Exception:
    """The keypoints of a photo, or what is wrong with it."""
    try:
        return find_keypoints(
            job.image,
            mask=None if job.mask is None else read_gray(job.mask, settings.exif),
            max_keypoints=settings.max_keypoints,
            upright=settings.upright,
            detector=settings.detector,
            spread=settings.spread,
            exif=settings.exif,
            max_size=settings.max_size,
        )
    except (ValueError, OSError) as error:
        return _named(error, job)


def described(job: Job, found: Found | Exception, model: Model) -> Features | Exception:
    if isinstance(found, Exception):
        return found
    try:
        return describe_found(found, model)
    except (ValueError, OSError) as error:
        return _named(error, job)


def _named(error: Exception, job: Job) -> Exception:
    is_named = Path(job.image).name in str(error) or isinstance(error, MissingPackageError)
    return error if is_named else UserError(f"{job.image}: {error}")


def save(made: tuple[Job, Features | Exception]) -> Exception | None:
    job, features = made
    if isinstance(features, Exception):
        return features
    feature_files.save(features, job.out)
    return None
