"""Tracks from a COLMAP model and its images."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from patchprint.common import files
from patchprint.data import manifest, track_files
from patchprint.data.builders import densify as densification
from patchprint.data.builders.sfm_scene import find_images, frames_from_database, frames_from_detection, read_scene
from patchprint.data.tracks import Tracks


def build(
    src: str | Path,
    out: str | Path,
    *,
    images: str | Path | None = None,
    sparse: str | Path | None = None,
    database: str | Path | None = None,
    densify: bool = False,
    patch_scale: float = 12.0,
    max_mb: float | None = None,
    scene_name: str | None = None,
    strict: bool = False,
    force: bool = False,
) -> dict[str, Any]:
    """A COLMAP model and its images.

    Args:
        src: folder with images/, sparse/ and, if it can be had, database.db.
        out: store to write.
        images: where the images are, if not in images/ of the folder.
        sparse: where the model is, if not in sparse/ of the folder.
        database: the database with the keypoints, if not database.db in the folder.
        densify: add views that SIFT did not match but the model predicts.
        patch_scale: side of a patch in sigma.
        max_mb: encode the images again until they take no more megabytes than this; no limit if not given.
        scene_name: what the scene is called in the store, if not like the folder.
        strict: stop at the first image that is missing, cannot be read or was resized; by default it is named and left out.
        force: replace the store if it exists.

    Returns:
        How many views densification added (0 without it).
    """
    files.refuse_folder(out, manifest.MADE_BY, force)
    track_files.check_numbers(patch_scale, max_mb)
    root = Path(src)
    scene = read_scene(Path(sparse) if sparse else root)
    scene, paths = find_images(scene, Path(images) if images else root / "images", strict)
    store = Path(database) if database else root / "database.db"
    if store.is_file() or database:
        scale, angle = frames_from_database(scene, store)
    else:
        scale, angle = frames_from_detection(scene, paths)
    known = scene.seen_twice(scale > 0)
    scene, scale, angle = scene.select(known), scale[known], angle[known]
    columns = {"image": scene.image, "xy": scene.xy, "scale": scale, "angle": angle, "point": scene.point}
    added = 0
    if densify:
        more = densification.add_views(scene, scale, angle, paths)
        columns = {name: np.concatenate([values, getattr(more, name)]) for name, values in columns.items()}
        added = len(more)
    tracks = Tracks.from_observations(**columns, xyz=scene.xyz[columns["point"]])
    names = track_files.Names(scene.names, [scene_name or root.resolve().name])
    facts = {"added_views": added}
    photos = (path.read_bytes() for path in paths)
    track_files.write(out, photos, tracks, names, patch_scale=patch_scale, max_mb=max_mb, facts=facts, force=force)
    return facts
