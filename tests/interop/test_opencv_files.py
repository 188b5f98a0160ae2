"""OpenCV's YAML files: as OpenCV writes them, whole or not at all."""

from pathlib import Path

import cv2

from patchprint.features import extract
from patchprint.interop import opencv_files
from support.known_images import texture


def test_h3_the_yml_is_what_opencv_itself_writes(tmp_path: Path) -> None:
    opencv_files.write_features(tmp_path / "ours.yml", extract(texture(100, 100), "rootsift", max_keypoints=1))
    ours = (tmp_path / "ours.yml").read_text()
    store = cv2.FileStorage(str(tmp_path / "theirs.yml"), cv2.FILE_STORAGE_WRITE)
    read = cv2.FileStorage(str(tmp_path / "ours.yml"), cv2.FILE_STORAGE_READ)
    store.write("descriptors", read.getNode("descriptors").mat())
    store.release()
    theirs = (tmp_path / "theirs.yml").read_text()
    head, _, matrix = theirs.partition("descriptors")
    assert ours.startswith(head) and ours.endswith(matrix)
