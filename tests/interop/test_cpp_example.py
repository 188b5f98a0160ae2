"""The C++ example compiles against OpenCV's headers and cuts the patches that patchprint's sampler cuts."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from patchprint.patches.sampler import ImagePyramids, keypoint_frames, sample_patches
from patchprint.types import Keypoints

SOURCE = Path(__file__).resolve().parents[2] / "examples" / "cpp" / "describe.cpp"
HEADERS = [path for path in (Path("/usr/include/opencv4"), Path("/usr/local/include/opencv4")) if path.is_dir()]
SIDE, PATCH_SCALE = 32, 12.0


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("g++")
    missing = [] if compiler else ["g++"]
    missing += [] if HEADERS else ["OpenCV's headers (apt: libopencv-dnn-dev libopencv-imgproc-dev)"]
    if missing:
        message = f"needs {' and '.join(missing)}"
        pytest.fail(message) if os.environ.get("CI") == "true" else pytest.skip(message)
    binary = tmp_path_factory.mktemp("cpp") / "describe"
    libraries = ["-lopencv_dnn", "-lopencv_imgproc", "-lopencv_core"]
    command = [str(compiler), "-std=c++17", "-Wall", "-Wextra", "-Werror", str(SOURCE), f"-I{HEADERS[0]}", *libraries]
    done = subprocess.run([*command, "-o", str(binary)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return binary


def write_pixel_network(path: Path) -> None:
    """A "network" whose print is the patch itself; old enough for every OpenCV."""
    onnx = pytest.importorskip("onnx")
    helper = onnx.helper
    entry = helper.make_tensor_value_info("patches", onnx.TensorProto.FLOAT, ["N", 1, SIDE, SIDE])
    result = helper.make_tensor_value_info("descriptors", onnx.TensorProto.FLOAT, ["N", SIDE * SIDE])
    graph = helper.make_graph(
        [helper.make_node("Flatten", ["patches"], ["descriptors"], axis=1)], "pixels", [entry], [result]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=6)
    onnx.save(model, path)


def test_patches_of_the_example_are_those_of_the_sampler(program: Path, tmp_path: Path) -> None:
    noise = torch.rand(1, 1, 9, 12, generator=torch.Generator().manual_seed(0))
    image = (F.interpolate(noise, size=(240, 320), mode="bicubic").clamp(0, 1) * 255).round().to(torch.uint8)[0, 0]
    (tmp_path / "photo.pgm").write_bytes(b"P5\n320 240\n255\n" + image.numpy().tobytes())
    write_pixel_network(tmp_path / "net.onnx")
    # x, y, size (twice sigma), angle in degrees: small, large, turned, over the border
    rows = [(100.0, 80.0, 5.0, 0.0), (160.5, 120.25, 16.0, 30.0), (200.0, 60.0, 8.0, 250.0), (5.0, 230.0, 9.0, 100.0)]
    lines = "\n".join(" ".join(map(str, row)) for row in rows)
    command = [str(program), str(tmp_path / "net.onnx"), str(tmp_path / "photo.pgm"), str(PATCH_SCALE), str(SIDE)]
    done = subprocess.run(command, input=lines, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    theirs = torch.from_numpy(np.loadtxt(done.stdout.splitlines(), dtype=np.float32)).reshape(-1, 1, SIDE, SIDE)

    table = torch.tensor(rows)
    keypoints = Keypoints(table[:, :2], table[:, 2] / 2, torch.deg2rad(table[:, 3]))
    frames = keypoint_frames(keypoints, PATCH_SCALE)
    which = torch.zeros(len(rows), dtype=torch.int64)
    ours = sample_patches(ImagePyramids.build([image]), which, keypoints.xy, frames, SIDE)
    assert (theirs - ours).abs().mean((1, 2, 3)).max() < 0.02
    assert (theirs - ours.flip(0)).abs().mean((1, 2, 3)).min() > 0.1, "other patches would not pass"


@pytest.mark.parametrize(("arguments", "words"), [([], "usage"), (["net", "photo", "12", "32"], "no 8-bit grey PGM")])
def test_wrong_use_is_told(program: Path, tmp_path: Path, arguments: list[str], words: str) -> None:
    done = subprocess.run([str(program), *arguments], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 2
    assert words in done.stderr
