"""Tracks from bare images: COLMAP finds cameras and points, then the model is read like any other."""

import os
from pathlib import Path
from typing import Any, Literal

from patchprint.common import files
from patchprint.common.errors import UserError
from patchprint.data import manifest, track_files
from patchprint.data.builders import colmap_tracks
from patchprint.interop.colmap_database import Cameras
from patchprint.interop.colmap_sfm import MEMORY_GB, max_parallel_images
from patchprint.interop.colmap_sift import sift_reconstruction
from patchprint.interop.images import readable_images

EXHAUSTIVE_BELOW = 150


def build(
    src: str | Path,
    out: str | Path,
    *,
    pairs: Literal["auto", "exhaustive", "sequential", "retrieval"] = "auto",
    single_camera: bool = False,
    work: str | Path | None = None,
    max_keypoints: int = 8192,
    max_size: int = 3200,
    densify: bool = False,
    patch_scale: float = 12.0,
    max_mb: float | None = None,
    memory: float = MEMORY_GB,
    seed: int = 0,
    strict: bool = False,
    force: bool = False,
) -> dict[str, Any]:
    """Bare images that overlap; COLMAP finds cameras and points first.

    Args:
        src: folder with images.
        out: store to write.
        pairs: which are matched; auto is exhaustive below 150 images, above each with those that look like it.
        single_camera: one camera took them all, with one zoom.
        work: folder for the reconstruction, which goes on from there if it was stopped; if none is given, a hidden one beside
            the store, removed at the end.
        max_keypoints: keypoints in an image.
        max_size: longer sides are reduced for SIFT.
        densify: add views that SIFT did not match but the model predicts.
        patch_scale: side of a patch in sigma.
        max_mb: encode the images again until they take no more megabytes than this; no limit if not given.
        memory: gigabytes that finding keypoints may take, several images side by side.
        seed: of everything random.
        strict: stop at the first image that cannot be read; by default it is named and left out.
        force: replace the store if it exists, and the hidden folder of a run that was stopped.
    """
    files.check_output_folder(out, manifest.MADE_BY, force)
    track_files.check_numbers(patch_scale, max_mb, max_keypoints=max_keypoints, max_size=max_size)
    root, target = Path(src), Path(out)
    cameras = Cameras(single_camera=single_camera)
    names = readable_images(root, strict)
    if len(names) < 2:
        raise UserError(f"{root} holds {len(names)} readable image; a reconstruction needs at least two")
    cameras.check_images(root, names)
    if pairs == "auto":
        pairs = "exhaustive" if len(names) < EXHAUSTIVE_BELOW else "retrieval"
    place = Path(work) if work is not None else target.parent / f".{target.name}.sfm"
    with files.exclusive_writer(place):
        if work is None and force:
            files.remove_folder(place)
        threads = max_parallel_images(root, names, memory, os.cpu_count() or 1, max_size)
        model = sift_reconstruction(root, place, names, cameras, max_keypoints, max_size, seed, pairs, threads)
        facts = colmap_tracks.build(
            root,
            out,
            images=root,
            sparse=place / "sparse",
            database=place / "database.db",
            densify=densify,
            patch_scale=patch_scale,
            max_mb=max_mb,
            scene_name=root.resolve().name,
            strict=strict,
            force=force,
        )
        if work is None:
            files.remove_folder(place)
    return {**facts, "registered": model.num_reg_images()}
