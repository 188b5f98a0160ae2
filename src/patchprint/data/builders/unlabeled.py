"""Unlabeled keypoints of any images, for distillation."""

import dataclasses
from pathlib import Path

import numpy as np
import torch

from patchprint.common.errors import UserError
from patchprint.common.progress import progress, skip_or_raise
from patchprint.data import splits, track_files
from patchprint.data.tracks import Tracks
from patchprint.detectors import check_detector, detect
from patchprint.interop.images import encode_image, limit_size, list_images, read_gray


def build(
    src: str | Path,
    out: str | Path,
    *,
    detector: str = "dog-published",
    max_keypoints: int = 4000,
    max_size: int = 1024,
    patch_scale: float = 24.0,
    max_mb: float | None = None,
    strict: bool = False,
    force: bool = False,
) -> None:
    """Any images, without tracks: each keypoint is a point that is seen once, for distillation.

    Whole images are held out, the last ones by name.

    Args:
        src: folder with images.
        out: store to write; images are stored losslessly, or as JPEG where their size is limited.
        detector: what finds the keypoints.
        max_keypoints: keypoints in an image, the strongest.
        max_size: larger images are made smaller first.
        patch_scale: side of a patch in sigma.
        max_mb: encode the images again until they take no more megabytes than this; no limit if not given.
        strict: stop at the first image that cannot be read; by default it is named and left out.
        force: replace the store if it exists.
    """
    check_detector(detector, max_keypoints)
    track_files.check_numbers(patch_scale, max_mb, max_size=max_size)

    def read(name: str) -> np.ndarray:
        return limit_size(read_gray(Path(src) / name), max_size)

    names, found = [], []
    for name in progress(list_images(src), "finding keypoints", "image"):
        try:
            keypoints = detect(read(name), detector, max_keypoints=max_keypoints, spread=False)
        except (UserError, OSError) as error:
            skip_or_raise(error, strict)
            continue
        if len(keypoints):
            names.append(name)
            found.append(keypoints)
    if not names:
        raise UserError(f"no keypoint was found in the images in {src}; give readable images with texture")
    image = np.repeat(np.arange(len(found)), [len(keypoints) for keypoints in found])
    frames = {name: torch.cat([getattr(each, name) for each in found]).numpy() for name in ("xy", "scale", "angle")}
    tracks = Tracks.from_observations(**frames, image=image, point=np.arange(len(image)), scene=image)
    tracks = dataclasses.replace(tracks, part=splits.by_scene(tracks.scene))
    # Read again, since there may be more of them than fit into memory.
    encoded = (encode_image(read(name)) for name in names)
    track_files.write(
        out, encoded, tracks, track_files.Names(names, names), patch_scale=patch_scale, max_mb=max_mb, force=force
    )
