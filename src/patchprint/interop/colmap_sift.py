"""COLMAP's own SIFT pipeline: detect, describe, match, verify and map, on the CPU.

COLMAP's retrieval needs a vocabulary from the internet; here `ops.pooling` of SIFT descriptors finds similar images.
"""

import contextlib
import dataclasses
import hashlib
import sqlite3
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from patchprint.common import files
from patchprint.common.errors import UserError
from patchprint.common.files import claim_folder
from patchprint.common.progress import Progress
from patchprint.interop import colmap_subprocess
from patchprint.interop.colmap_database import Cameras, writing
from patchprint.interop.colmap_models import read_model
from patchprint.interop.colmap_sfm import CONTENTS, KEYPOINTS, MADE_BY, MAX_IMAGE_SIZE, map_images
from patchprint.interop.images import list_images
from patchprint.ops import pooling

PairRule = Literal["exhaustive", "sequential", "retrieval"]
_SPACE = "\x1f"  # stands for a space; no image name has it (`interop.images.list_images`)
OVERLAP = 15  # images before and after, for sequences


def sift_reconstruction(
    image_folder: str | Path,
    work_folder: str | Path,
    names: list[str] | None = None,
    cameras: Cameras | None = None,
    max_keypoints: int = KEYPOINTS,
    max_image_size: int = MAX_IMAGE_SIZE,
    seed: int = 0,
    pairs: PairRule = "exhaustive",
    threads: int = -1,
) -> Any:
    """Reconstruct a sparse model with COLMAP's own SIFT and incremental mapping, on the CPU.

    Args:
        names: images to use, relative to ``image_folder``; all by default.
        pairs: which are matched.
        threads: images in which keypoints are detected at a time, each of which takes memory (`max_parallel_images`).
    """
    from patchprint.interop.colmap_models import pycolmap

    work, cameras = Path(work_folder), cameras or Cameras()
    database = work / "database.db"
    # Spelled as earlier versions did, whose work folders go on.
    guess = f"Cameras(single={cameras.single_camera}, model={cameras.camera_model!r}, params={cameras.camera_params!r})"
    settings = f"({sorted(names or [])!r}, {guess}, {max_keypoints}, {max_image_size}, {seed}, {pairs!r})"
    claim_folder(work, MADE_BY, CONTENTS, hashlib.sha256(settings.encode()).hexdigest())
    if not (work / "sparse").is_dir():
        mode, reader = cameras.reader_options()
        with writing(database), Progress("COLMAP describes the images"):
            pycolmap.Database.open(database).close()
            restore_names(database)
            # Its threads would add images in the order in which they finish, and another order gives another model.
            pycolmap.import_images(database, image_folder, mode, names or list_images(image_folder), reader)
            colmap_subprocess.run(
                "extract",
                database,
                image_folder=str(image_folder),
                names=names or [],
                cameras=dataclasses.asdict(cameras),
                max_keypoints=max_keypoints,
                max_image_size=max_image_size,
                threads=threads,
            )
        with writing(database), Progress("COLMAP matches the images"):
            match_images(database, pairs, seed)
        map_images(database, image_folder, work / "sparse", len(names or list_images(image_folder)), seed)
    return read_model(work / "sparse")


def match_images(database: Path, pairs: PairRule, seed: int = 0) -> None:
    """Match and verify with COLMAP on the CPU; pairs that were matched before are skipped."""
    run = partial(colmap_subprocess.run, "match", database, seed=seed)
    if pairs == "exhaustive":
        run(function="match_exhaustive", pairing={})
    elif pairs == "sequential":
        run(function="match_sequential", pairing={"overlap": OVERLAP, "loop_detection": False})
    else:
        listing = database.with_name("pairs.txt")
        lines = [" ".join(name.replace(" ", _SPACE) for name in pair) for pair in similar_pairs(database, seed=seed)]
        files.write_text(listing, "".join(f"{line}\n" for line in lines))
        # COLMAP splits the lines of a list at spaces, so names must not have them while it reads it.
        _rename(database, " ", _SPACE)
        try:
            run(function="match_image_pairs", pairing={"match_list_path": str(listing)})
        finally:
            restore_names(database)


def restore_names(database: Path) -> None:
    """Restore image names that a killed matching left without spaces."""
    if database.is_file():
        _rename(database, _SPACE, " ")


def _rename(database: Path, old: str, new: str) -> None:
    with contextlib.closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("UPDATE images SET name = replace(name, ?, ?) WHERE instr(name, ?)", (old, new, old))


def similar_pairs(database: Path, neighbors: int = pooling.NEIGHBORS, seed: int = 0) -> list[tuple[str, str]]:
    """Each image with the ``neighbors`` that look most like it, by name, every pair once."""
    with contextlib.closing(sqlite3.connect(f"{database.resolve().as_uri()}?mode=ro", uri=True)) as connection:
        query = "SELECT name, image_id FROM images JOIN descriptors USING (image_id) WHERE rows > 0 ORDER BY name"
        ids = dict(connection.execute(query).fetchall())
        if len(ids) < 2:
            raise UserError(f"{database} holds {len(ids)} images with descriptors; pairs need two")

        def read(name: str) -> Tensor:
            query = "SELECT cols, data FROM descriptors WHERE image_id = ?"
            columns, data = connection.execute(query, (ids[name],)).fetchone()
            return F.normalize(torch.frombuffer(bytearray(data), dtype=torch.uint8).view(-1, columns).float())

        return pooling.similar_pairs(list(ids), read, neighbors, seed)
