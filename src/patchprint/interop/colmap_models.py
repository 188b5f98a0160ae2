"""COLMAP: safe import of pycolmap, keypoint conversion, and reading of models and databases.

pycolmap (4.2.1) must never be the first import that touches zlib: after it, ``zlib.compress``, PNG writing and
``numpy.savez_compressed`` abort the process.
``from patchprint.interop.colmap_models import pycolmap`` (inside a function) is safe.

COLMAP puts the center of the top-left pixel at (0.5, 0.5), half a pixel from ours; scale and angle are as ours. Its keypoints
are stored as N x 2 (positions), N x 4 (with scale and angle) or N x 6 (with the affine frame a11, a12, a21, a22).
"""

import contextlib
import itertools
import signal
import sqlite3
import struct
import sys
import zlib  # noqa: F401  (before pycolmap, see above)
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from patchprint.common.errors import UserError, parsing, require
from patchprint.common.types import Keypoints, Pose

PIXEL_CENTER = 0.5
_LONGEST_SIDE = 1 << 31


def __getattr__(name: str) -> Any:
    if name == "pycolmap":
        loaded = "pycolmap" in sys.modules
        module = require("pycolmap", extra="sfm")
        if not loaded:
            with contextlib.suppress(ValueError):  # not in the main thread
                # pycolmap answers SIGTERM itself, with a stack trace on stderr, whatever was to be done before.
                signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGTERM) or signal.SIG_DFL)
        module.logging.minloglevel = max(module.logging.minloglevel, 2)  # errors: stderr is for our own messages
        return module
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def to_keypoints(matrix: np.ndarray) -> Keypoints:
    """Convert COLMAP's keypoint matrix (N, 2 | 4 | 6) to Keypoints; bare positions get scale 1 and angle 0."""
    rows = np.asarray(matrix, dtype=np.float64)
    if rows.ndim != 2 or rows.shape[1] not in (2, 4, 6):
        raise UserError(f"COLMAP keypoints have 2, 4 or 6 columns, got an array of shape {rows.shape}")
    xy = torch.from_numpy(rows[:, :2] - PIXEL_CENTER)
    if rows.shape[1] == 6:
        affine = torch.from_numpy(rows[:, 2:].reshape(-1, 2, 2)).float()
        scale, angle = torch.hypot(affine[:, 0, 0], affine[:, 1, 0]), torch.atan2(affine[:, 1, 0], affine[:, 0, 0])
        round_frame = Keypoints(xy, scale, angle)
        # Frames are usually similarities; as scale and angle they can be made upright without loss.
        is_round = torch.allclose(round_frame.frames(), affine, rtol=1e-3, atol=1e-3)
        return round_frame if is_round else Keypoints.from_affine(xy, affine)
    if rows.shape[1] == 4:
        return Keypoints(xy, rows[:, 2], rows[:, 3])
    return Keypoints(xy, 1.0)


def from_keypoints(keypoints: Keypoints) -> np.ndarray:
    """Convert Keypoints to COLMAP's matrix with affine frames, float32 (N, 6)."""
    xy = keypoints.xy.cpu().double() + PIXEL_CENTER
    return torch.cat([xy, keypoints.frames().cpu().double().reshape(-1, 4)], 1).float().numpy()


def read_model(folder: str | Path) -> Any:
    """Read a sparse model, binary or text, as ``pycolmap.Reconstruction``; looks in ``sparse/`` and ``sparse/0/`` too."""
    from patchprint.interop.colmap_models import pycolmap

    root = Path(folder)
    for place in (root, root / "sparse", root / "sparse" / "0", root / "0"):
        if any((place / f"cameras{suffix}").is_file() for suffix in (".bin", ".txt")):
            break
    else:
        raise UserError(f"{root} holds no COLMAP model (cameras, images, points3D as .bin or .txt)")
    if (place / "points3D.bin").is_file() and not is_complete(place):
        raise UserError(f"{place} is cut short or damaged; copy the model again")
    with parsing(place, "a complete COLMAP model"):
        model = pycolmap.Reconstruction(place)
        _check_numbers(model)
        return model


def _check_numbers(model: Any) -> None:
    """Raise UserError where cameras, poses or points have numbers without a meaning, which COLMAP reads as they are."""
    cameras, points = model.cameras.items(), model.points3D.items()
    poses = poses_of_model(model).items()  # which fails where images, frames and rigs contradict each other
    for name, numbers in itertools.chain(
        ((f"camera {key}", camera.params) for key, camera in cameras),
        ((f"image {name}", np.append(pose.rotation, pose.center)) for name, pose in poses),
        ((f"point {key}", point.xyz) for key, point in points),
    ):
        if not np.isfinite(numbers).all():
            raise UserError(f"{name} has values that are no numbers: {np.ravel(numbers)}")
    for key, camera in cameras:
        if not (1 <= camera.width < _LONGEST_SIDE and 1 <= camera.height < _LONGEST_SIDE):
            raise UserError(f"camera {key} has images of {camera.width}x{camera.height} pixels")


def poses_of_model(model: Any) -> dict[str, Pose]:
    """Poses of a ``pycolmap.Reconstruction`` by image name."""
    poses = {}
    for image in model.images.values():
        if image.has_pose:
            rotation = np.asarray(image.cam_from_world().rotation.matrix())
            poses[image.name] = Pose(rotation, np.asarray(image.projection_center()))
    return poses


@dataclass(frozen=True)
class DatabaseImage:
    """One image of a COLMAP database: id, name, size (of its camera), keypoints."""

    image_id: int
    name: str
    size: tuple[int, int]
    keypoints: Keypoints


def read_database(path: str | Path) -> list[DatabaseImage]:
    """Read the images of a COLMAP database with their keypoints, ordered by name; of any COLMAP version.

    Read with SQLite itself and read-only, because pycolmap upgrades the file of an older COLMAP in place on opening.
    """
    query = (
        "SELECT images.image_id, images.name, cameras.width, cameras.height, keypoints.rows, keypoints.cols, keypoints.data "
        "FROM images JOIN cameras USING (camera_id) LEFT JOIN keypoints USING (image_id) ORDER BY images.name"
    )
    with _open_read_only(Path(path)) as connection, parsing(path, "a COLMAP database"):
        # Views are refused: computing one may never end, and COLMAP writes none.
        listing = "SELECT name FROM sqlite_master WHERE type = 'table' AND sql LIKE 'CREATE TABLE%'"
        missing = {"images", "cameras", "keypoints"} - {name for (name,) in connection.execute(listing)}
        if missing:
            raise UserError(f"{path} is not a COLMAP database: it has no table {min(missing)}")
        records = connection.execute(query).fetchall()
    with parsing(path, "a COLMAP database"):
        return [_database_image(*record) for record in records]


def _database_image(
    image_id: int, name: str, width: int, height: int, rows: int | None, columns: int, data: bytes
) -> DatabaseImage:
    """Check the types, since SQLite keeps a value of any type in any column."""
    numbers = (image_id, width, height)
    if not isinstance(name, str) or not all(isinstance(n, int) for n in numbers) or min(width, height) < 1:
        raise UserError(f"image {str(name)[:80]!r} in it has no name, number or size")
    if not rows:
        return DatabaseImage(image_id, name, (width, height), Keypoints.empty())
    if not isinstance(data, bytes) or len(data) != rows * columns * 4:
        raise UserError(f"it is damaged: the keypoints of {name} are not the bytes of {rows} rows")
    keypoints = to_keypoints(np.frombuffer(data, np.float32).reshape(rows, columns))
    return DatabaseImage(image_id, name, (width, height), Keypoints.validate(keypoints))


@contextlib.contextmanager
def _open_read_only(path: Path) -> Iterator[sqlite3.Connection]:
    if not path.is_file():
        raise UserError(f"{path} is not there; expected a COLMAP database")
    uri = path.resolve().as_uri()
    connection = sqlite3.connect(f"{uri}?mode=ro", uri=True)
    try:
        try:
            connection.execute("SELECT 1 FROM sqlite_master").fetchone()
        except sqlite3.OperationalError:
            # A write-ahead-log database in a folder where SQLite may not create its side files.
            connection.close()
            connection = sqlite3.connect(f"{uri}?mode=ro&immutable=1", uri=True)
        except (sqlite3.DatabaseError, UnicodeDecodeError):  # the latter from the text of SQLite's own error
            raise UserError(f"{path} is not a database") from None
        yield connection
    finally:
        connection.close()


def is_complete(place: Path) -> bool:
    """Whether the counts in a binary model fit the lengths of its files.

    Where they do not, pycolmap fills all memory, never returns, or reads wrong numbers. COLMAP before 3.12 wrote no rigs and
    frames.
    """
    after_record = {"cameras": _after_camera, "images": _after_image, "points3D": _after_point}
    if (place / "rigs.bin").exists() or (place / "frames.bin").exists():
        after_record |= {"rigs": _after_rig, "frames": _after_frame}
    try:
        return all(_ends_exactly(place / f"{name}.bin", after) for name, after in after_record.items())
    except (OSError, struct.error, ValueError):
        return False


def _ends_exactly(path: Path, after_record: Callable[[bytes, int], int]) -> bool:
    data = path.read_bytes()
    position, (count,) = 8, struct.unpack_from("<Q", data)
    for _ in range(count):
        position = after_record(data, position)
        if position > len(data):
            return False
    return position == len(data)


def _after_camera(data: bytes, position: int) -> int:
    # id, model, width, height, then the parameters of that model
    from patchprint.interop.colmap_models import pycolmap

    model = pycolmap.CameraModelId(struct.unpack_from("<i", data, position + 4)[0])
    return position + 24 + 8 * len(pycolmap.Camera.create_from_model_id(0, model, 1.0, 1, 1).params)


def _after_rig(data: bytes, position: int) -> int:
    # id, count, the reference sensor (kind, id), then (kind, id, whether a pose follows, pose) of each further one
    (count,) = struct.unpack_from("<I", data, position + 4)
    position += 8 + (8 if count else 0)
    for _ in range(count - 1):
        position += 9 + 56 * struct.unpack_from("<?", data, position + 8)[0]
    return position


def _after_frame(data: bytes, position: int) -> int:
    # id, rig id, quaternion, translation, count, then (kind of sensor, id, id of its data) each
    return position + 68 + 16 * struct.unpack_from("<I", data, position + 64)[0]


def _after_image(data: bytes, position: int) -> int:
    # id, quaternion, translation, camera id, name ending with a zero byte, count, then (x, y, point id) each
    name_end = data.index(b"\0", position + 4 + 32 + 24 + 4)
    return name_end + 9 + 24 * struct.unpack_from("<Q", data, name_end + 1)[0]


def _after_point(data: bytes, position: int) -> int:
    # id, position, color, error, count, then (image id, index) each
    return position + 51 + 8 * struct.unpack_from("<Q", data, position + 43)[0]
