"""Photos to sparse models with COLMAP: its own SIFT pipeline, or our keypoints and matches; both resume where they stopped."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from patchprint.errors import UserError
from patchprint.files import atomic_folder, claim_folder
from patchprint.interop.colmap import from_keypoints, is_complete, read_model
from patchprint.interop.colmap_database import Cameras, Pair, verify, write_features, write_matches
from patchprint.interop.colmap_pairs import Matching, match_images
from patchprint.types import Keypoints

KEYPOINTS = 8192  # of a photo, COLMAP's default; it does not count second angles
MADE_BY = "patchprint sfm"
CONTENTS = ("database.db*", "pairs.txt", "sparse")  # of a work folder
SMALLEST_MODEL = 3  # photos; COLMAP's default of 10 throws small collections away


def reconstruct(
    image_folder: str | Path,
    keypoints: Mapping[str, Keypoints],
    matches: Mapping[Pair, np.ndarray],
    work_folder: str | Path,
    cameras: Cameras | None = None,
    max_error: float = 4.0,
    seed: int = 0,
) -> Any:
    """A sparse model from features and matches made elsewhere.

    ``work_folder`` receives ``database.db`` and the model in ``sparse/``. A second call with the same features continues or
    just reads the result; one with other features is refused, so that two runs never mix.

    Args:
        keypoints: by name of the photo, relative to ``image_folder``.
        matches: (M, 2) indices by pair of names.

    Returns:
        The largest model, a ``pycolmap.Reconstruction``.
    """
    work = Path(work_folder)
    claim_folder(work, MADE_BY, CONTENTS, _fingerprint(keypoints, matches))
    if not (work / "sparse").is_dir():
        write_features(work / "database.db", image_folder, keypoints, cameras)
        write_matches(work / "database.db", matches)
        verify(work / "database.db", max_error, seed)
        _map(work / "database.db", image_folder, work / "sparse", seed)
    return read_model(work / "sparse")


def sift_reconstruction(
    image_folder: str | Path,
    work_folder: str | Path,
    names: list[str] | None = None,
    cameras: Cameras | None = None,
    max_keypoints: int = KEYPOINTS,
    max_image_size: int = 3200,
    seed: int = 0,
    matching: Matching = "exhaustive",
) -> Any:
    """A sparse model with COLMAP's own SIFT and incremental mapping, on the CPU.

    Args:
        names: photos to use, relative to ``image_folder``; all by default.
        matching: which pairs are matched (``interop.colmap_pairs``).
    """
    from patchprint.interop.colmap import pycolmap

    work, cameras = Path(work_folder), cameras or Cameras()
    database = work / "database.db"
    settings = repr((sorted(names or []), cameras, max_keypoints, max_image_size, seed, matching))
    claim_folder(work, MADE_BY, CONTENTS, hashlib.sha256(settings.encode()).hexdigest())
    if not (work / "sparse").is_dir():
        extraction = pycolmap.FeatureExtractionOptions(use_gpu=False, max_image_size=max_image_size)
        extraction.sift.max_num_features = max_keypoints
        reader = pycolmap.ImageReaderOptions(camera_model=cameras.model, camera_params=cameras.params)
        mode = pycolmap.CameraMode.SINGLE if cameras.single else pycolmap.CameraMode.AUTO
        cpu = pycolmap.Device.cpu
        pycolmap.extract_features(database, image_folder, names or [], mode, reader, extraction, device=cpu)
        verification = pycolmap.TwoViewGeometryOptions()
        verification.ransac.random_seed = seed
        match_images(database, matching, verification, seed)
        _map(database, image_folder, work / "sparse", seed)
    return read_model(work / "sparse")


def summarize(model: Any, num_images: int) -> dict[str, Any]:
    """The numbers by which sparse models are compared."""
    return {
        "photos": num_images,
        "registered": model.num_reg_images(),
        "points": model.num_points3D(),
        "observations": model.compute_num_observations(),
        "track_length": round(model.compute_mean_track_length(), 4),
        "reprojection_error_px": round(model.compute_mean_reprojection_error(), 4),
    }


def _map(database: Path, image_folder: str | Path, out: Path, seed: int) -> None:
    """Incremental mapping; the largest model goes to ``out``, the others to ``out/others/1`` and so on."""
    from patchprint.interop.colmap import pycolmap

    options = pycolmap.IncrementalPipelineOptions(min_model_size=SMALLEST_MODEL, random_seed=seed)
    with atomic_folder(out, MADE_BY) as temporary:
        candidates = temporary / "others"
        candidates.mkdir()
        models = pycolmap.incremental_mapping(database, image_folder, candidates, options)
        if not models:
            raise UserError(
                f"no 3D model could be made of the photos in {image_folder}: they overlap too little, or show too little "
                f"texture"
            )
        # COLMAP writes on when the disk is full; a cut model must not get the name under which later runs look for it.
        if not all(is_complete(candidates / str(index)) for index in models):
            raise OSError("COLMAP's model is cut short; make room on the disk and run again")
        largest = max(models, key=lambda index: (models[index].num_reg_images(), models[index].num_points3D()))
        for file in (candidates / str(largest)).iterdir():
            file.rename(temporary / file.name)
        (candidates / str(largest)).rmdir()
        if not any(candidates.iterdir()):
            candidates.rmdir()


def _fingerprint(keypoints: Mapping[str, Keypoints], matches: Mapping[Pair, np.ndarray]) -> str:
    digest = hashlib.sha256()
    for name in sorted(keypoints):
        digest.update(name.encode() + b"\0" + from_keypoints(keypoints[name]).tobytes())
    for pair in sorted(matches):
        digest.update("\0".join(pair).encode() + b"\0" + np.asarray(matches[pair], dtype=np.int64).tobytes())
    return digest.hexdigest()
