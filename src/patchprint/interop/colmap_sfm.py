"""Sparse models by COLMAP from keypoints and matches made elsewhere; resumes where it stopped."""

import contextlib
import hashlib
import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from patchprint.common.errors import UserError, suggest
from patchprint.common.files import atomic_file, atomic_folder, claim_folder
from patchprint.common.progress import Progress
from patchprint.common.types import Keypoints
from patchprint.interop.colmap_database import Cameras, Pair, copy_database, verify, write_features, write_matches
from patchprint.interop.colmap_models import from_keypoints, is_complete, poses_of_model, read_model
from patchprint.interop.images import image_size

KEYPOINTS = 8192  # per image, COLMAP's default, which does not count second orientations
MAX_IMAGE_SIZE = 3200  # pixels along the longer side, COLMAP's default
MADE_BY = "patchprint sfm"
CONTENTS = ("database.db*", "pairs.txt", "sparse")  # of a work folder
# What COLMAP's SIFT takes for each pixel of an image (it doubles the image first), and the program without an image.
BYTES_PER_PIXEL = 300
BASE_GB = 0.4
MEMORY_GB = 4.0  # default limit for detecting keypoints
# What the mapper may take for an image of 8192 keypoints, with matches and tracks: a rough bound from one mapping.
BYTES_PER_MAPPED_IMAGE = 8e6
_SMALLEST_PART, _LARGEST_PART = 50, 500  # images that are mapped together; the second is COLMAP's default
Mapper = Literal["incremental", "hierarchical", "global"]
SMALLEST_MODEL = 3  # images; COLMAP's default of 10 discards small collections


def reconstruct(
    image_folder: str | Path,
    keypoints: Mapping[str, Keypoints],
    matches: Mapping[Pair, np.ndarray],
    work_folder: str | Path,
    cameras: Cameras | None = None,
    *,
    base_folder: str | Path | None = None,
    seed: int = 0,
    mapper: Mapper = "incremental",
    memory_gb: float = MEMORY_GB,
) -> Any:
    """Reconstruct a sparse model from keypoints and matches.

    ``work_folder`` receives ``database.db`` and the model in ``sparse/``. A second call with the same features resumes, or just
    reads the result; one with other features is refused, so that two runs never mix.

    Args:
        keypoints: by image name, relative to ``image_folder``.
        matches: (M, 2) indices by pair of names.
        base_folder: work folder of an earlier call, to whose model the images are added. It is not changed. Known cameras keep
            their poses, so that measurements in the old model hold in the new one; points are added and refined.
        mapper: "incremental", one image after the other; "hierarchical", the same for parts of the images, which are then
            merged; "global", all cameras at once (GLOMAP).
        memory_gb: limit for the parts that "hierarchical" maps in parallel.

    Returns:
        The largest model, a ``pycolmap.Reconstruction``.
    """
    work, database = Path(work_folder), Path(work_folder) / "database.db"
    base = None if base_folder is None else Path(base_folder)
    inputs = _fingerprint(keypoints, matches) + ("" if mapper == "incremental" else f" {mapper}")
    if base is not None:
        inputs = hashlib.sha256(inputs.encode() + (base / "sparse" / "points3D.bin").read_bytes()).hexdigest()
    claim_folder(work, MADE_BY, CONTENTS, inputs)
    if not (work / "sparse").is_dir():
        if base is not None and not database.is_file():
            copy_database(base / "database.db", database)
        write_features(database, image_folder, keypoints, cameras)
        write_matches(database, matches)
        verify(database, seed)
        if base is None:
            map_images(database, image_folder, work / "sparse", len(keypoints), seed, mapper, memory_gb)
        else:
            _extend_model(database, image_folder, work / "sparse", len(keypoints), seed, base / "sparse")
    return read_model(work / "sparse")


def max_parallel_images(
    image_folder: str | Path, names: Iterable[str], memory_gb: float, most: int, max_image_size: int | None = None
) -> int:
    """How many images fit into the memory while keypoints are detected in parallel, at least 1 and at most ``most``.

    Args:
        max_image_size: larger images are reduced to this first.
    """
    if memory_gb <= 0:
        raise UserError(f"the memory must be above 0 GB, got {memory_gb:g}")
    largest = 1.0
    for name in names:
        with contextlib.suppress(UserError, OSError):  # reported where the image is read
            width, height = image_size(Path(image_folder) / name)
            shrink = 1.0 if max_image_size is None else min(1.0, max_image_size / max(width, height))
            largest = max(largest, width * height * shrink**2)
    return max(1, min(most, int((memory_gb - BASE_GB) * 1e9 / (BYTES_PER_PIXEL * largest))))


def plan_submodels(memory_gb: float, most: int) -> tuple[int, int]:
    """How many parts of a large collection fit into the memory in parallel, and the images of each."""
    images = max(_SMALLEST_PART, int((memory_gb - BASE_GB) * 1e9 / BYTES_PER_MAPPED_IMAGE))
    workers = max(1, min(most, images // _LARGEST_PART))
    return workers, min(_LARGEST_PART, images)


def check_mapper(mapper: str) -> None:
    """Raise UserError where COLMAP, or the installed pycolmap, has no such mapper."""
    if mapper not in get_args(Mapper):
        raise UserError(f"COLMAP has no mapper {mapper!r}; {suggest(mapper, get_args(Mapper))}")
    if mapper == "incremental":
        return  # without importing pycolmap
    from patchprint.interop.colmap_models import pycolmap

    if not hasattr(pycolmap, f"{mapper}_mapping"):
        raise UserError(f"pycolmap {pycolmap.__version__} has no {mapper} mapper; pip install --upgrade pycolmap")


def write_model(model: Any, work_folder: str | Path) -> None:
    """Write a changed model in place of the one that `reconstruct` left in ``work_folder``."""
    sparse = Path(work_folder) / "sparse"
    with atomic_folder(sparse, MADE_BY, force=True) as temporary:
        model.write(temporary)
        _refuse_cut_model(temporary)
        if (sparse / "others").is_dir():
            shutil.copytree(sparse / "others", temporary / "others")


def write_ply(model: Any, path: str | Path) -> None:
    """Write the points of a ``pycolmap.Reconstruction`` with their colors as PLY."""
    points = list(model.points3D.values())
    rows = np.zeros(len(points), [("xyz", "<f4", 3), ("color", "u1", 3)])
    rows["xyz"] = np.array([point.xyz for point in points]).reshape(-1, 3)
    rows["color"] = np.array([point.color for point in points]).reshape(-1, 3)
    header = ["ply", "format binary_little_endian 1.0", f"element vertex {len(points)}"]
    header += [f"property float {axis}" for axis in "xyz"]
    header += [f"property uchar {color}" for color in ("red", "green", "blue")]
    with atomic_file(path) as temporary:  # pycolmap's own writer ignores a full disk
        temporary.write_bytes("\n".join([*header, "end_header", ""]).encode() + rows.tobytes())


def observations(model: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return image id, keypoint index and point id of each observation of a model, (V,) int64 each."""
    rows = [
        (element.image_id, element.point2D_idx, point)
        for point in sorted(model.points3D)
        for element in model.points3D[point].track.elements
    ]
    image, index, point = np.array(rows, np.int64).reshape(-1, 3).T
    return image, index, point


def move_observations(
    model: Any, image: np.ndarray, index: np.ndarray, xy: np.ndarray, most_error: float | None = None
) -> None:
    """Move observations to ``xy`` (V, 2), our pixel frame, and adjust cameras and points to them.

    With ``most_error``, observations that are then farther than so many pixels from their points are dropped, and the rest is
    adjusted again.
    """
    from patchprint.interop.colmap_models import PIXEL_CENTER, pycolmap

    for number, row, place in zip(image.tolist(), index.tolist(), xy.astype(np.float64) + PIXEL_CENTER, strict=True):
        model.images[number].points2D[row].xy = place
    options = pycolmap.BundleAdjustmentOptions(print_summary=False)
    pycolmap.bundle_adjustment(model, options)
    if most_error is not None:
        least_angle = pycolmap.IncrementalMapperOptions().filter_min_tri_angle
        pycolmap.ObservationManager(model).filter_all_points3D(most_error, least_angle)
        pycolmap.bundle_adjustment(model, options)
    model.update_point_3d_errors()


def adjust(model: Any) -> None:
    """Adjust cameras and points by a loss on which inexact observations pull little; COLMAP ends with least squares."""
    from patchprint.interop.colmap_models import pycolmap

    options = pycolmap.BundleAdjustmentOptions(print_summary=False)
    ceres = getattr(options, "ceres", options)  # older versions know no other solver
    ceres.loss_function_type = pycolmap.LossFunctionType.CAUCHY
    with Progress("COLMAP adjusts the model"):
        pycolmap.bundle_adjustment(model, options)
    model.update_point_3d_errors()


def summarize(model: Any, num_images: int) -> dict[str, Any]:
    """Statistics of a sparse model."""
    return {
        "photos": num_images,
        "registered": model.num_reg_images(),
        "points": model.num_points3D(),
        "observations": model.compute_num_observations(),
        "track_length": round(model.compute_mean_track_length(), 4),
        "reprojection_error_px": round(model.compute_mean_reprojection_error(), 4),
    }


def map_images(
    database: Path,
    image_folder: str | Path,
    out: Path,
    num_images: int,
    seed: int,
    mapper: Mapper = "incremental",
    memory_gb: float = MEMORY_GB,
) -> None:
    """Map images from scratch; the largest model, adjusted, goes to ``out``, the others to ``out/others/1`` and so on."""
    with atomic_folder(out, MADE_BY) as temporary:
        candidates = temporary / "others"
        candidates.mkdir()
        if mapper == "incremental":
            models = _run_mapper(database, image_folder, candidates, num_images, seed)
        else:
            models = _run_large_mapper(database, image_folder, candidates, seed, mapper, memory_gb)
        if not models:
            raise UserError(f"no 3D model of the images in {image_folder}: they overlap too little, or lack texture")
        for index in models:
            _refuse_cut_model(candidates / str(index))
        largest = max(models, key=lambda index: (models[index].num_reg_images(), models[index].num_points3D()))
        for file in (candidates / str(largest)).iterdir():
            file.rename(temporary / file.name)
        (candidates / str(largest)).rmdir()
        if not any(candidates.iterdir()):
            candidates.rmdir()
        model = read_model(temporary)
        adjust(model)
        model.write(temporary)
        _refuse_cut_model(temporary)


def _extend_model(database: Path, image_folder: str | Path, out: Path, num_images: int, seed: int, start: Path) -> None:
    """Map further images into the model of ``start``, whose cameras keep their poses."""
    from patchprint.interop.colmap_models import pycolmap

    with atomic_folder(out, MADE_BY) as temporary:
        model = _run_mapper(database, image_folder, temporary, num_images, seed, start)[0]
        # COLMAP normalizes a finished model: undo the shift and the scale.
        before, after = poses_of_model(read_model(start)), poses_of_model(model)
        old, new = (np.stack([poses[name].center for name in sorted(before)]) for poses in (before, after))
        farthest = int(np.linalg.norm(old - old[0], axis=1).argmax())
        scale = np.linalg.norm(old[farthest] - old[0]) / np.linalg.norm(new[farthest] - new[0])
        model.transform(pycolmap.Sim3d(scale, pycolmap.Rotation3d(), old[0] - scale * new[0]))
        model.write(temporary)
        _refuse_cut_model(temporary)


def _run_mapper(
    database: Path, image_folder: str | Path, out: Path, num_images: int, seed: int, start: Path | None = None
) -> dict[int, Any]:
    """Run the incremental mapper; models go to ``out/0`` and so on, with a ``start`` to ``out`` itself."""
    from patchprint.interop.colmap_models import pycolmap

    options = pycolmap.IncrementalPipelineOptions(min_model_size=SMALLEST_MODEL, random_seed=seed)
    if start is not None:
        options.multiple_models = False
        options.fix_existing_frames = True
        options.constant_cameras = set(read_model(start).cameras)
    with Progress("COLMAP maps", num_images, "image") as progress:
        return pycolmap.incremental_mapping(
            database,
            image_folder,
            out,
            options,
            start or "",
            initial_image_pair_callback=lambda: progress.update(2),
            next_image_callback=progress.update,
        )


def _run_large_mapper(
    database: Path, image_folder: str | Path, out: Path, seed: int, mapper: Mapper, memory_gb: float
) -> dict[int, Any]:
    """Run the hierarchical or global mapper, which do not report progress."""
    from patchprint.interop.colmap_models import pycolmap

    with Progress("COLMAP maps"):
        if mapper == "global":
            options = pycolmap.GlobalPipelineOptions(min_model_size=SMALLEST_MODEL, random_seed=seed)
            return pycolmap.global_mapping(database, image_folder, out, options)
        options = pycolmap.HierarchicalPipelineOptions()
        options.incremental_options.min_model_size = SMALLEST_MODEL
        options.incremental_options.random_seed = seed
        workers, images = plan_submodels(memory_gb, os.cpu_count() or 1)
        options.num_workers, options.clustering_options.leaf_max_num_images = workers, images
        options.clustering_options.image_overlap = min(options.clustering_options.image_overlap, images // 4)
        return pycolmap.hierarchical_mapping(database, image_folder, out, options)


def _refuse_cut_model(folder: Path) -> None:
    """Raise OSError for a truncated model, which COLMAP leaves on a full disk; later runs must not find it."""
    if not is_complete(folder):
        raise OSError("COLMAP's model is truncated; make room on the disk and run again")


def _fingerprint(keypoints: Mapping[str, Keypoints], matches: Mapping[Pair, np.ndarray]) -> str:
    digest = hashlib.sha256()
    for name in sorted(keypoints):
        digest.update(name.encode() + b"\0" + from_keypoints(keypoints[name]).tobytes())
    for pair in sorted(matches):
        digest.update("\0".join(pair).encode() + b"\0" + np.asarray(matches[pair], dtype=np.int64).tobytes())
    return digest.hexdigest()
