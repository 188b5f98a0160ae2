"""Features of many images as files of other tools; a format is one entry of `FORMATS`."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from patchprint.common import files
from patchprint.common.errors import UserError, require
from patchprint.common.registry import Registry
from patchprint.common.types import Features
from patchprint.interop import hloc, opencv_files
from patchprint.storage import colmap_output
from patchprint.storage.feature_files import MADE_BY, FeatureFolder


@dataclass(frozen=True)
class FeatureFormat:
    """How features are written, recognized and read.

    Args:
        write: writes features; None for our own format, which `describe_folder` writes.
        package: what the format needs; of the extra ``sfm``.
        is_folder: the output is a folder, else a single file.
        stored_pixels: the tool reads images without EXIF rotation.
        recognize: whether a path holds features in this format; None where features are not read back.
        read: yields features by image name.
    """

    write: Callable[[FeatureFolder, Path, bool], None] | None = None
    package: str | None = None
    is_folder: bool = False
    stored_pixels: bool = False
    recognize: Callable[[Path], bool] | None = None
    read: Callable[[Path], Iterable[tuple[str, Features]]] | None = None


def check_output(out: str | Path, form: str, exif: bool = False, force: bool = False) -> None:
    """Raise UserError where `write_features` would, before features are made; ``exif``: images are rotated by it."""
    chosen = FORMATS[form]
    if chosen.write is not None and chosen.is_folder:
        files.check_output_folder(out, MADE_BY, force)
    elif chosen.write is not None:
        files.check_output_file(out, force)
    if chosen.package is not None:
        require(chosen.package, extra="sfm")
    if chosen.stored_pixels:
        colmap_output.refuse_exif_rotation(exif)


def write_features(features: FeatureFolder, out: str | Path, form: str, force: bool = False) -> None:
    """Write features in one of the `FORMATS`."""
    write = FORMATS[form].write
    if write is None:
        raise UserError(f"features are in the format {form} already; their folder is {features.folder}")
    files.refuse_overwrite(Path(out), force)
    write(features, Path(out), force)


def open_features(path: str | Path) -> Mapping[str, Features]:
    """Read features by image name, in any of the `FORMATS` that can be read back."""
    path = Path(path)
    for form in FORMATS.values():
        if form.recognize is not None and form.read is not None and form.recognize(path):
            return dict(form.read(path))
    if path.is_file():
        raise UserError(f"{path} is one file: give a second image, or a folder of features (patchprint describe)")
    return FeatureFolder(path)


def _write_hloc(features: FeatureFolder, out: Path, force: bool) -> None:
    settings = features.manifest["settings"]
    images = (
        None if settings["exif"] else features.manifest["photos_folder"]
    )  # whose pixels are not those of the features
    hloc.write_features(out, features.items(), settings, images)


def _write_opencv(features: FeatureFolder, out: Path, force: bool) -> None:
    with files.atomic_folder(out, MADE_BY, force) as folder:
        for name, item in features.items():
            opencv_files.write_features(folder / f"{name}.yml", item)
        files.write_json(folder / opencv_files.SETTINGS, features.manifest["settings"])


def _is_hdf5(path: Path) -> bool:
    if path.suffix == ".h5" or not path.is_file():
        return path.suffix == ".h5"
    with open(path, "rb") as stream:
        return stream.read(8) == b"\x89HDF\r\n\x1a\n"


FORMATS: Registry[FeatureFormat] = Registry(
    "format",
    {
        "npz": FeatureFormat(is_folder=True),
        "hloc": FeatureFormat(_write_hloc, package="h5py", recognize=_is_hdf5, read=hloc.read_features),
        "colmap": FeatureFormat(
            lambda features, out, force: colmap_output.write_database(out, features),
            package="pycolmap",
            stored_pixels=True,
        ),
        "colmap-graph": FeatureFormat(
            lambda features, out, force: colmap_output.write_database(out, features, frames=True),
            package="pycolmap",
            stored_pixels=True,
        ),
        "opencv-yml": FeatureFormat(
            _write_opencv,
            is_folder=True,
            recognize=lambda path: (path / opencv_files.SETTINGS).is_file(),
            read=opencv_files.read_folder,
        ),
    },
)
