"""Features of many images in the formats of other tools, and back."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from patchprint.common import files
from patchprint.common.errors import UserError
from patchprint.common.optional import require
from patchprint.interop import hloc, opencv_files
from patchprint.storage import colmap_output
from patchprint.storage.feature_files import MADE_BY, FeatureFolder
from patchprint.types import Features

FORMATS = ("npz", "hloc", "colmap", "opencv-yml")


def check_output(out: str | Path, form: str, exif: bool = False, force: bool = False) -> None:
    """Raise UserError where `write_features` would, before the features are made; ``exif``: images are turned by it."""
    if form == "opencv-yml":
        files.refuse_folder(out, MADE_BY, force)
    elif form != "npz":
        files.refuse_file(out, force)
    if form == "hloc":
        require("h5py", extra="sfm")
    elif form == "colmap":
        require("pycolmap", extra="sfm")
        colmap_output.refuse_turned(exif)


def write_features(features: FeatureFolder, out: str | Path, form: str, force: bool = False) -> None:
    """``hloc``: one .h5 file; ``colmap``: a database with cameras, images and keypoints; ``opencv-yml``: a folder of .yml."""
    out = Path(out)
    files.refuse_overwrite(out, force)
    if form == "hloc":
        hloc.write_features(out, features.items(), features.manifest["settings"])
    elif form == "colmap":
        colmap_output.write_database(out, features)
    elif form == "opencv-yml":
        with files.atomic_folder(out, MADE_BY, force) as folder:
            for name, item in features.items():
                opencv_files.write_features(folder / f"{name}.yml", item)
            files.write_json(folder / opencv_files.SETTINGS, features.manifest["settings"])
    else:
        raise UserError(f"unknown format {form!r}; known are {', '.join(FORMATS)}")


def open_features(path: str | Path) -> Mapping[str, Features]:
    """Features by the name of the image: a folder of ``patchprint describe`` (npz or opencv-yml), or an hloc file (.h5)."""
    path = Path(path)
    if path.suffix == ".h5" or _is_hdf5(path):
        return dict(hloc.read_features(path))
    if path.is_file():
        raise UserError(f"{path} is one file: give a second photo, or a folder of features (patchprint describe)")
    if (path / opencv_files.SETTINGS).is_file():
        return dict(opencv_files.read_folder(path))
    return FeatureFolder(path)


def _is_hdf5(path: Path) -> bool:
    if not path.is_file():
        return False
    with open(path, "rb") as stream:
        return stream.read(8) == b"\x89HDF\r\n\x1a\n"
