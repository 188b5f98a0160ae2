"""Features as OpenCV's YAML: ``keypoints`` as ``cv::KeyPoint``, ``descriptors`` as a matrix, read by ``cv::FileStorage``."""

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

from patchprint.common.errors import UserError, parsing, require
from patchprint.common.files import write_text
from patchprint.common.types import Features, Keypoints, ModelId
from patchprint.interop.opencv import from_keypoints

SUFFIXES = (".yml", ".yaml")
SETTINGS = "settings.json"  # of a folder of features: how they were made


def write_features(path: str | Path, features: Features) -> None:
    """Write ``path`` (.yml): C++ reads it with ``fs["keypoints"] >> keypoints; fs["descriptors"] >> descriptors;``."""
    cv2 = require("cv2", extra="images")
    if Path(path).suffix not in SUFFIXES:
        raise UserError(f"{path}: OpenCV features are written as .yml or .yaml")
    # Made in memory and written by us, since cv2.FileStorage says nothing when the disk is full.
    store = cv2.FileStorage(".yml", cv2.FILE_STORAGE_WRITE | cv2.FILE_STORAGE_MEMORY)
    store.write("model", features.model.name)
    store.write("sha256", features.model.sha256)
    if features.ratio is not None:
        store.write("ratio", features.ratio)
    store.write("image_width", features.image_size[0])
    store.write("image_height", features.image_size[1])
    store.startWriteStruct("keypoints", cv2.FileNode_SEQ)
    for point in from_keypoints(features.keypoints):
        store.startWriteStruct("", cv2.FileNode_SEQ | cv2.FileNode_FLOW)
        for value in (*point.pt, point.size, point.angle, point.response):
            store.write("", float(value))
        store.write("", int(point.octave))
        store.write("", int(point.class_id))
        store.endWriteStruct()
    store.endWriteStruct()
    store.write("descriptors", _matrix(features))
    write_text(path, store.releaseAndGetString())


def read_features(path: str | Path) -> Features:
    """Read features that `write_features` wrote."""
    cv2 = require("cv2", extra="images")
    if not Path(path).is_file():
        raise UserError(f"{path} is not there; expected features in OpenCV's YAML")
    with parsing(path, "a features file in OpenCV's YAML"):
        text = Path(path).read_text("utf-8")  # OpenCV opens no files on Windows whose names need Unicode
        store = cv2.FileStorage(text, cv2.FILE_STORAGE_READ | cv2.FILE_STORAGE_MEMORY)
        nodes = store.getNode("keypoints")
        rows = [[nodes.at(i).at(j).real() for j in range(7)] for i in range(nodes.size())]
        written = store.getNode("descriptors")
        # OpenCV takes the memory that a matrix announces before it reads one number of it.
        if math.prod(int(written.getNode(side).real()) for side in ("rows", "cols")) != written.getNode("data").size():
            raise UserError(f"{path} is cut short or damaged: its descriptors are not as many as it says")
        matrix = written.mat()
        size = (int(store.getNode("image_width").real()), int(store.getNode("image_height").real()))
        model = ModelId(store.getNode("model").string(), store.getNode("sha256").string())
        ratio = None if store.getNode("ratio").empty() else store.getNode("ratio").real()
        store.release()
        points = [cv2.KeyPoint(*row[:5], int(row[5]), int(row[6])) for row in rows]
        keypoints = Keypoints.from_opencv(points)
        return Features(keypoints, torch.from_numpy(matrix)[: len(points)], size, None, model, ratio)


def read_folder(folder: str | Path) -> Iterator[tuple[str, Features]]:
    """Yield the features of a folder of NAME.yml files with the names of the images."""
    files = sorted(path for path in Path(folder).rglob("*.yml"))
    if not files:
        raise UserError(f"{folder} holds no features in OpenCV's YAML (NAME.yml)")
    for path in files:
        yield path.relative_to(folder).as_posix().removesuffix(".yml"), read_features(path)


def _matrix(features: Features) -> np.ndarray:
    """Descriptors as OpenCV stores them: at least one row, since it has no empty matrix; float16 becomes float32."""
    matrix = features.descriptors.cpu().numpy()
    if matrix.dtype == np.float16:
        matrix = matrix.astype(np.float32)
    return matrix if len(matrix) else np.zeros((1, matrix.shape[1]), matrix.dtype)
