"""COLMAP: safe import, models and databases in every state."""

import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from patchprint.common.types import Keypoints
from patchprint.interop import colmap_models
from support.checkout import environment

OLD_SCHEMA = """
CREATE TABLE cameras (camera_id INTEGER PRIMARY KEY, model INTEGER, width INTEGER, height INTEGER, params BLOB,
    prior_focal_length INTEGER);
CREATE TABLE images (image_id INTEGER PRIMARY KEY, name TEXT UNIQUE, camera_id INTEGER, prior_qw REAL, prior_qx REAL,
    prior_qy REAL, prior_qz REAL, prior_tx REAL, prior_ty REAL, prior_tz REAL);
CREATE TABLE keypoints (image_id INTEGER PRIMARY KEY, rows INTEGER, cols INTEGER, data BLOB);
"""


def test_zlib_survives_pycolmap() -> None:
    """Importing pycolmap first would abort the process in zlib; imported by this module it does not."""
    code = "from patchprint.interop.colmap_models import pycolmap; import zlib; print(len(zlib.compress(b'a' * 1000)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="processes are ended in another way there")
@pytest.mark.parametrize("handler", ["signal.SIG_DFL", "lambda *_: os._exit(7)"])
def test_sigterm_does_what_it_did_before_pycolmap_was_imported(handler: str) -> None:
    """It printed a stack trace of C++, and training wrote no checkpoint where pycolmap was imported meanwhile."""
    code = f"import os, signal; signal.signal(signal.SIGTERM, {handler})\nfrom patchprint.interop.colmap_models import pycolmap"
    code += "\nos.kill(os.getpid(), signal.SIGTERM)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment())
    assert (done.returncode, done.stderr) == (7 if "7" in handler else -signal.SIGTERM, "")


def test_an_older_database_is_read_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    with sqlite3.connect(path) as connection:
        connection.executescript(OLD_SCHEMA + "PRAGMA user_version = 3700;")
        connection.execute("INSERT INTO cameras VALUES (1, 2, 640, 480, ?, 0)", (np.zeros(4).tobytes(),))
        connection.execute("INSERT INTO images (image_id, name, camera_id) VALUES (1, 'b.jpg', 1), (2, 'a.jpg', 1)")
        rows = np.array([[10.5, 20.5, 2.0, 0.1]], np.float32)
        connection.execute("INSERT INTO keypoints VALUES (1, 1, 4, ?)", (rows.tobytes(),))
    connection.close()
    before = path.read_bytes()
    images = colmap_models.read_database(path)
    assert [image.name for image in images] == ["a.jpg", "b.jpg"]
    assert images[1].size == (640, 480)
    assert images[1].keypoints.xy.tolist() == [[10.0, 20.0]]
    assert len(images[0].keypoints) == 0
    assert path.read_bytes() == before


def test_bad_databases_are_refused(tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("not a database, but long enough to look at" * 10)
    sqlite3.connect(tmp_path / "other.db").execute("CREATE TABLE x (y)").connection.close()
    for name, words in {
        "text.db": "not a database",
        "other.db": "not a COLMAP database",
        "gone.db": "not there",
    }.items():
        with pytest.raises(ValueError, match=words):
            colmap_models.read_database(tmp_path / name)


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small model that COLMAP makes up, in binary form."""
    pycolmap = colmap_models.pycolmap
    options = pycolmap.SyntheticDatasetOptions(num_rigs=1, num_cameras_per_rig=1, num_frames_per_rig=4, num_points3D=50)
    folder = tmp_path_factory.mktemp("model") / "sparse" / "0"
    folder.mkdir(parents=True)
    pycolmap.synthesize_dataset(options).write_binary(folder)
    return folder


def test_models_are_found_binary_and_text(model_folder: Path, tmp_path: Path) -> None:
    model = colmap_models.read_model(model_folder.parent.parent)
    assert model.num_points3D() == 50
    model.write_text(tmp_path)
    assert colmap_models.read_model(tmp_path).num_images() == model.num_images()
    with pytest.raises(ValueError, match="no COLMAP model"):
        colmap_models.read_model(tmp_path / "nothing")


def test_keypoint_matrices_of_other_widths_are_refused() -> None:
    with pytest.raises(ValueError, match="2, 4 or 6 columns"):
        colmap_models.to_keypoints(np.zeros((3, 5)))
    assert len(colmap_models.to_keypoints(np.zeros((0, 6)))) == 0
    assert torch.equal(colmap_models.to_keypoints(np.zeros((2, 2))).scale, torch.ones(2))


def test_colmap_matrix_round_trip_and_meaning() -> None:
    pycolmap = colmap_models.pycolmap
    keypoints = Keypoints(torch.tensor([[10.0, 20.0]]), torch.tensor([3.0]), torch.tensor([0.7]))
    matrix = colmap_models.from_keypoints(keypoints)
    assert matrix[0, :2].tolist() == [10.5, 20.5]
    theirs = pycolmap.FeatureKeypoint(
        **dict(zip(["x", "y", "a11", "a12", "a21", "a22"], matrix[0].tolist(), strict=True))
    )
    assert theirs.compute_scale() == pytest.approx(3.0, abs=1e-5)
    assert theirs.compute_orientation() == pytest.approx(0.7, abs=1e-5)
    for columns in (matrix, np.array([[10.5, 20.5, 3.0, 0.7]])):
        back = colmap_models.to_keypoints(columns)
        assert torch.allclose(back.xy, keypoints.xy)
        assert torch.allclose(back.frames(), keypoints.frames(), atol=1e-5)
    assert colmap_models.to_keypoints(np.array([[1.5, 2.5]])).xy.tolist() == [[1.0, 2.0]]
    sheared = Keypoints.from_affine(torch.zeros(1, 2), torch.tensor([[[3.0, 1.0], [0.5, 2.0]]]))
    assert torch.allclose(colmap_models.to_keypoints(colmap_models.from_keypoints(sheared)).frames(), sheared.frames())
