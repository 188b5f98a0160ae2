"""Models and databases of COLMAP, sequences of images, true cameras."""

import contextlib
import sqlite3
from pathlib import Path

import cv2

from fuzz import mutators
from fuzz.mutators import Random
from fuzz.reader import Reader
from fuzz.readers.described import some_features
from patchprint.common.errors import UserError
from patchprint.data.builders import sfm_scene
from patchprint.interop import colmap_database, colmap_models, sequences, strecha
from support.known_images import texture
from support.scenes import write_sequence


def write_database(folder: Path) -> None:
    for number in range(2):
        cv2.imwrite(str(folder / f"{number}.png"), texture(60, 80, number))
    points = {f"{number}.png": some_features().keypoints for number in range(2)}
    colmap_database.write_features(folder / "database.db", folder, points)


def odd_values(data: bytes, random: Random) -> bytes:
    """SQLite keeps any value in any column, and a view in place of a table."""
    connection = sqlite3.connect(":memory:")
    connection.deserialize(data)
    with contextlib.closing(connection):
        table = str(random.choice(["images", "cameras", "keypoints"]))
        columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
        values = [0, -1, 2**62, 1.5, "text", b"", b"\0" * 7, None, "../../x"]
        with contextlib.suppress(sqlite3.Error), connection:
            column, value = columns[random.integers(0, len(columns))], values[random.integers(0, len(values))]
            connection.execute("PRAGMA ignore_check_constraints = 1")
            if random.random() < 0.1:
                connection.execute(f"DROP TABLE {table}")
            connection.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = 1", (value,))
        return connection.serialize()


def write_model(folder: Path, form: str = "binary") -> None:
    options = colmap_models.pycolmap.SyntheticDatasetOptions(
        num_rigs=2, num_cameras_per_rig=2, num_frames_per_rig=2, num_points3D=8
    )
    getattr(colmap_models.pycolmap.synthesize_dataset(options), f"write_{form}")(folder)


def read_model(folder: Path) -> None:
    colmap_models.poses_of_model(colmap_models.read_model(folder))
    scene = sfm_scene.read_scene(folder)
    with contextlib.suppress(UserError):
        sfm_scene.find_images(scene, folder)


def write_sequences(folder: Path) -> None:
    write_sequence(folder / "graf", images=3, side=24)
    identity = "\n".join(["1 0 0", "0 1 0", "0 0 1"])
    (folder / "a.camera").write_text(f"{identity}\n0 0 0\n{identity}\n1 2 3\n640 480\n")
    (folder / "K.txt").write_text("100 0 50\n0 100 40\n0 0 1\n")


def read_sequences(folder: Path) -> None:
    sequences.find_sequences(folder)
    strecha.read_cameras(folder)
    strecha.read_intrinsics(folder / "K.txt")


READERS: dict[str, Reader] = {
    "COLMAP database": Reader(write_database, lambda folder: colmap_models.read_database(folder / "database.db"),
                              {"*.db": (*mutators.BYTES, odd_values, odd_values, odd_values)}),
    "COLMAP model, binary": Reader(write_model, read_model, {"*.bin": mutators.BYTES}),
    "COLMAP model, text": Reader(lambda folder: write_model(folder, "text"), read_model, {"*.txt": mutators.TEXT}),
    "sequences": Reader(write_sequences, read_sequences,
                        {"*/H*": mutators.TEXT, "*.camera": mutators.TEXT, "K.txt": mutators.TEXT}, share=0.5),
}  # fmt: skip
