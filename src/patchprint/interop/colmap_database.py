"""Writing COLMAP databases through pycolmap: cameras, images, keypoints, descriptors and raw matches.

COLMAP 4 stores the type of descriptors beside them. Those of ALIKED are rows of floats of any length, which its ONNX matchers
compare by cosine (``ALIKED_BRUTEFORCE``) or by a given network (``ALIKED_LIGHTGLUE``); ours are written as this type, since
there is none for others' vectors. The matchers for SIFT refuse them, and never compare bytes of floats.
"""

import contextlib
import itertools
import shutil
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from patchprint.common import files
from patchprint.common.errors import UserError, suggest
from patchprint.common.progress import Progress
from patchprint.common.types import Keypoints
from patchprint.interop.colmap_models import from_keypoints
from patchprint.interop.images import image_size

T = TypeVar("T")
Pair = tuple[str, str]
_PIECE = 2000  # images or pairs per transaction


@dataclass(frozen=True, kw_only=True)
class Cameras:
    """How COLMAP initializes cameras; valid once constructed."""

    # All images come from one camera with one focal length; by default cameras are told apart by EXIF.
    single_camera: bool = False
    # COLMAP's name of the camera model.
    camera_model: str = "SIMPLE_RADIAL"
    # Initial parameters of the camera, separated by commas; default: guessed from EXIF or the image size.
    camera_params: str = ""

    def __post_init__(self) -> None:
        if (self.camera_model, self.camera_params) == ("SIMPLE_RADIAL", ""):
            return  # without importing pycolmap
        from patchprint.interop.colmap_models import pycolmap

        known = [name for name in pycolmap.CameraModelId.__members__ if name != "INVALID"]
        if self.camera_model not in known:
            raise UserError(f"COLMAP has no camera model {self.camera_model!r}; {suggest(self.camera_model, known)}")
        camera = pycolmap.Camera.create_from_model_name(0, self.camera_model, 1.0, 1, 1)
        try:
            values = [float(value) for value in self.camera_params.split(",") if self.camera_params]
        except ValueError:
            values = [0.0]
        if len(values) not in (0, len(camera.params)):
            raise UserError(
                f"the camera parameters {self.camera_params!r} are not those of {self.camera_model}: {len(camera.params)} "
                f"numbers ({camera.params_info}), separated by commas"
            )

    def check_images(self, folder: Path, names: Iterable[str]) -> None:
        """Raise UserError where images of other sizes are said to come from a single camera."""
        sizes = dict[str, tuple[int, int]]()
        for name in names if self.single_camera else ():
            with contextlib.suppress(UserError, OSError):  # reported where the image is read
                sizes[name] = image_size(folder / name)
        usual = Counter(sizes.values()).most_common(1)
        for name, size in sizes.items():
            if size != usual[0][0]:
                raise UserError(
                    f"{folder / name} has {size[0]}x{size[1]} pixels and the others {usual[0][0][0]}x{usual[0][0][1]}, but a "
                    "single camera takes images of one size; leave --single-camera or this image out"
                )

    def reader_options(self) -> tuple[Any, Any]:
        """``pycolmap.CameraMode`` and ``pycolmap.ImageReaderOptions``."""
        from patchprint.interop.colmap_models import pycolmap

        mode = pycolmap.CameraMode.SINGLE if self.single_camera else pycolmap.CameraMode.AUTO
        return mode, pycolmap.ImageReaderOptions(camera_model=self.camera_model, camera_params=self.camera_params)


def write_features(
    database: str | Path,
    image_folder: str | Path,
    keypoints: Mapping[str, Keypoints],
    cameras: Cameras | None = None,
    descriptors: Mapping[str, np.ndarray] | None = None,
) -> dict[str, int]:
    """Add images with their keypoints; images in the database keep their id, keypoints and descriptors.

    Args:
        keypoints: by image name, relative to ``image_folder`` with forward slashes.
        descriptors: unit vectors of the keypoints, (N, D) float32, by the same names.

    Returns:
        Image ids by name.
    """
    from patchprint.interop.colmap_models import pycolmap

    cameras = cameras or Cameras()
    with writing(database):
        with pycolmap.Database.open(database) as store:
            known = {image.name for image in store.read_all_images()}
            there = [camera.camera_id for camera in store.read_all_cameras()]
        missing = [name for name in keypoints if name not in known]
        if missing:
            mode, options = cameras.reader_options()
            if cameras.single_camera and len(there) == 1:  # images are added to those of the same camera
                options.existing_camera_id = there[0]
            pycolmap.import_images(database, image_folder, mode, missing, options)
        with pycolmap.Database.open(database) as store:
            ids = {image.name: image.image_id for image in store.read_all_images()}
            unread = [name for name in keypoints if name not in ids]
            if unread:
                raise UserError(f"COLMAP cannot read {Path(image_folder) / unread[0]}; convert it to JPEG or PNG")
            for names in _pieces(keypoints):
                with pycolmap.DatabaseTransaction(store):
                    for name in names:
                        if not store.exists_keypoints(ids[name]):
                            store.write_keypoints(ids[name], from_keypoints(keypoints[name]))
                        if descriptors is not None and not store.exists_descriptors(ids[name]):
                            kind = pycolmap.FeatureExtractorType.ALIKED_N16ROT
                            rows = pycolmap.FeatureDescriptorsFloat(kind, descriptors[name])
                            store.write_descriptors(ids[name], rows.to_bytes())
    return ids


def write_matches(database: str | Path, matches: Mapping[Pair, np.ndarray]) -> None:
    """Add raw matches, (M, 2) indices into the keypoints of the first and the second image; existing pairs are kept."""
    from patchprint.interop.colmap_models import pycolmap

    with writing(database), pycolmap.Database.open(database) as store:
        images = store.read_all_images()
        ids = {image.name: image.image_id for image in images}
        counts = {image.name: store.num_keypoints_for_image(image.image_id) for image in images}
        for piece in _pieces(matches):
            with pycolmap.DatabaseTransaction(store):
                for first, second in piece:
                    for name in (first, second):
                        if name not in ids:
                            raise UserError(f"{database} has no image {name}; write its features first")
                    pairs = np.asarray(matches[first, second], dtype=np.int64).reshape(-1, 2)
                    if len(pairs) and ((pairs < 0) | (pairs >= [counts[first], counts[second]])).any():
                        raise UserError(f"matches of {first} and {second} have indices of keypoints that do not exist")
                    if len(pairs) and not store.exists_matches(ids[first], ids[second]):
                        store.write_matches(ids[first], ids[second], pairs.astype(np.uint32))


def _pieces(items: Iterable[T]) -> Iterator[list[T]]:
    """Lists of `_PIECE` items, so that transactions stay small and a killed process loses only the last one."""
    left = iter(items)
    while piece := list(itertools.islice(left, _PIECE)):
        yield piece


def copy_database(source: str | Path, target: str | Path) -> None:
    """Copy a database that nobody writes to; SQLite opens only the copy, since it would leave files beside the source."""
    source, target = Path(source), Path(target)
    with files.temporary_folder(target) as workshop:
        copy = workshop / target.name
        for suffix in ("", "-wal"):  # the write-ahead log has what a killed process wrote last
            if Path(f"{source}{suffix}").is_file():
                shutil.copyfile(f"{source}{suffix}", f"{copy}{suffix}")
        with contextlib.closing(sqlite3.connect(copy)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        copy.replace(target)


def verify(database: str | Path, seed: int = 0) -> None:
    """Let COLMAP estimate the two-view geometry of every pair with raw matches and without geometry."""
    from patchprint.interop.colmap_models import pycolmap

    options = pycolmap.TwoViewGeometryOptions()
    options.ransac.random_seed = seed
    with writing(database), Progress("COLMAP verifies the matches"):
        pycolmap.geometric_verification(database, two_view_geometry_options=options)


@contextlib.contextmanager
def writing(database: str | Path) -> Iterator[None]:
    """Wait for other writers, which SQLite would refuse; turn errors of a full disk into OSError with the file name."""
    with files.exclusive_writer(database, wait=True):
        try:
            yield
        except (RuntimeError, sqlite3.OperationalError) as error:
            if "database factory" in str(error):
                raise OSError(f"{database} could not be opened for writing; is the disk full?") from error
            if isinstance(error, sqlite3.Error) or "SQLite" in str(error):
                raise OSError(f"{database} could not be written: {error}") from error
            raise
