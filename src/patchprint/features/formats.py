"""Described folders and their matches in the formats of other tools."""

from __future__ import annotations

import contextlib
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from patchprint import files
from patchprint.errors import UserError
from patchprint.features.storage import MADE_BY, FeatureFolder
from patchprint.interop import colmap_database, hloc, opencv_files
from patchprint.types import Features, Matches

FORMATS = ("npz", "hloc", "colmap", "opencv-yml")
Pair = tuple[str, str]


def write_features(features: FeatureFolder, out: str | Path, form: str, force: bool = False) -> None:
    """``hloc``: one .h5 file; ``colmap``: a database with cameras, images and keypoints; ``opencv-yml``: a folder of .yml."""
    out = Path(out)
    files.refuse_overwrite(out, force)
    if form == "hloc":
        hloc.write_features(out, features.items(), features.manifest["settings"])
    elif form == "colmap":
        with _new_database(out, features):
            pass
    elif form == "opencv-yml":
        with files.atomic_folder(out, MADE_BY, force) as folder:
            for name, item in features.items():
                opencv_files.write_features(folder / f"{name}.yml", item)
            files.write_json(folder / "settings.json", features.manifest["settings"])
    else:
        raise UserError(f"unknown format {form!r}; known are {', '.join(FORMATS)}")


def write_matches(
    features: FeatureFolder | Mapping[str, Features], matches: dict[Pair, Matches], out: str | Path, force: bool = False
) -> None:
    """By the suffix of ``out``: .h5 (hloc), .db (a COLMAP database with keypoints, matches and two-view geometry), .npz."""
    out = Path(out)
    files.refuse_overwrite(out, force)
    if out.suffix == ".h5":
        hloc.write_matches(out, matches, {name: len(item) for name, item in features.items()})
    elif out.suffix == ".db":
        if not isinstance(features, FeatureFolder):
            raise UserError("a COLMAP database needs a folder of features (patchprint describe --format npz)")
        with _new_database(out, features) as database:
            colmap_database.write_matches(database, {pair: m.indices.numpy() for pair, m in matches.items()})
            colmap_database.verify(database)
    elif out.suffix == ".npz":
        _write_npz(out, matches)
    else:
        raise UserError(f"--out {out}: matches are written as .h5 (hloc), .db (COLMAP) or .npz")


@contextlib.contextmanager
def _new_database(out: Path, features: FeatureFolder) -> Iterator[Path]:
    """A database with the features, made in a folder of its own, so that SQLite's side files never meet the final name."""
    images = Path(features.manifest["photos_folder"])
    if not images.is_dir():
        raise UserError(f"{images} is not there any more; COLMAP needs the photos themselves for the cameras")
    if features.manifest["settings"]["exif"]:
        raise UserError("COLMAP reads photos without turning them by EXIF; describe them without --exif")
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent) as workshop:
        database = Path(workshop) / "database.db"
        keypoints = {name: item.keypoints for name, item in features.items()}
        colmap_database.write_features(database, images, keypoints)
        yield database
        with files.atomic_file(out) as temporary:
            database.replace(temporary)


def read_matches(path: str | Path) -> dict[Pair, Matches]:
    """Matches from an .npz that `write_matches` wrote."""
    try:
        with np.load(path, allow_pickle=False) as values:
            result = {}
            for number, (first, second) in enumerate(values["names"]):
                indices, distance = (torch.from_numpy(values[f"{key}_{number}"]) for key in ("indices", "distance"))
                inliers = torch.from_numpy(values[f"inliers_{number}"]) if f"inliers_{number}" in values else None
                result[str(first), str(second)] = Matches(indices, distance, inliers)
            return result
    except (KeyError, ValueError, EOFError, zipfile.BadZipFile, OSError) as error:
        raise UserError(f"{path} is not a file of matches by patchprint: {error}") from None


def _write_npz(out: Path, matches: dict[Pair, Matches]) -> None:
    """``names`` (P, 2), and for pair p ``indices_p`` (M, 2), ``distance_p`` (M,) and, if verified, ``inliers_p`` (M,)."""
    values: dict[str, Any] = {"names": np.array(list(matches), dtype=str).reshape(-1, 2)}
    for number, found in enumerate(matches.values()):
        values[f"indices_{number}"], values[f"distance_{number}"] = found.indices.numpy(), found.distance.numpy()
        if found.inliers is not None:
            values[f"inliers_{number}"] = found.inliers.numpy()
    with files.atomic_file(out) as temporary, open(temporary, "wb") as stream:
        np.savez(stream, **values)
