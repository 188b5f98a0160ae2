"""The C++ examples build with CMake, cut the patches that patchprint's sampler cuts, and describe them as the model does."""

import importlib.util
import json
import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from patchprint.common.types import Keypoints
from patchprint.features import load
from patchprint.interop.onnx import export_onnx
from patchprint.ops.sampling import ImagePyramids, keypoint_frames, sample_patches

SOURCES = Path(__file__).resolve().parents[2] / "examples" / "cpp"
INCLUDES = [Path("/usr/include"), Path("/usr/local/include")]
SIDE, PATCH_SCALE = 32, 12.0
# x, y, size (twice sigma), angle in degrees: small, large, turned, over the border
ROWS = [(100.0, 80.0, 5.0, 0.0), (160.5, 120.25, 16.0, 30.0), (200.0, 60.0, 8.0, 250.0), (5.0, 230.0, 9.0, 100.0)]
PROGRAMS = pytest.mark.parametrize("program", ["describe_opencv", "describe_onnxruntime"])


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the programs. ONNX Runtime's library is that of the Python wheel, under the name that it asks for."""
    spec = importlib.util.find_spec("onnxruntime")
    libraries = list(Path(str(spec.origin)).parent.glob("capi/libonnxruntime.so.*")) if spec else []
    headers = [path / "onnxruntime" for path in INCLUDES if (path / "onnxruntime" / "onnxruntime_cxx_api.h").is_file()]
    here = {
        "cmake": shutil.which("cmake"),
        "g++": shutil.which("g++"),
        "OpenCV's headers (apt: libopencv-dnn-dev)": any((path / "opencv4").is_dir() for path in INCLUDES),
        "ONNX Runtime's headers (apt: libonnxruntime-dev; .ci/run fetches them)": headers,
        "ONNX Runtime's library (pip: onnxruntime)": libraries,
    }
    missing = [name for name, there in here.items() if not there]
    if missing:
        message = f"needs {' and '.join(missing)}"
        pytest.fail(message) if os.environ.get("CI") == "true" else pytest.skip(message)
    folder = tmp_path_factory.mktemp("cpp")
    library = folder / "libonnxruntime.so.1"
    library.symlink_to(libraries[0])
    flags = [f"-DONNXRUNTIME_INCLUDE={headers[0]}", f"-DONNXRUNTIME_LIBRARY={library}"]
    run(["cmake", "-S", str(SOURCES), "-B", str(folder), "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Werror", *flags])
    run(["cmake", "--build", str(folder)])
    return folder


def run(command: list[str], keypoints: str = "") -> str:
    done = subprocess.run(command, input=keypoints, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def describe(program: Path, network: Path, photo: Path, rows: Iterable[Iterable[float]] = ROWS) -> torch.Tensor:
    lines = "\n".join(" ".join(map(str, row)) for row in rows)
    printed = run([str(program), str(network), str(photo)], lines)
    return torch.from_numpy(np.loadtxt(printed.splitlines(), dtype=np.float32))


@pytest.fixture
def image(tmp_path: Path) -> torch.Tensor:
    """Smooth noise (240, 320), also in photo.pgm."""
    noise = torch.rand(1, 1, 9, 12, generator=torch.Generator().manual_seed(0))
    image = (F.interpolate(noise, size=(240, 320), mode="bicubic").clamp(0, 1) * 255).round().to(torch.uint8)[0, 0]
    (tmp_path / "photo.pgm").write_bytes(b"P5\n320 240\n255\n" + image.numpy().tobytes())
    return image


@pytest.fixture
def keypoints() -> Keypoints:
    table = torch.tensor(ROWS)
    return Keypoints(table[:, :2], table[:, 2] / 2, torch.deg2rad(table[:, 3]))


def write_pixel_network(path: Path, side: int = SIDE, **metadata: str) -> None:
    """A "network" whose print is the patch itself; old enough for every OpenCV."""
    onnx = pytest.importorskip("onnx")
    helper = onnx.helper
    entry = helper.make_tensor_value_info("patches", onnx.TensorProto.FLOAT, ["N", 1, side, side])
    result = helper.make_tensor_value_info("descriptors", onnx.TensorProto.FLOAT, ["N", side * side])
    graph = helper.make_graph(
        [helper.make_node("Flatten", ["patches"], ["descriptors"], axis=1)], "pixels", [entry], [result]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=6)
    helper.set_model_props(model, metadata)
    onnx.save(model, path)


@PROGRAMS
def test_patches_are_those_of_the_sampler(
    program: str, built: Path, image: torch.Tensor, keypoints: Keypoints, tmp_path: Path
) -> None:
    write_pixel_network(tmp_path / "net.onnx", name="pixels", patch_scale=str(PATCH_SCALE), input_size=str(SIDE))
    theirs = describe(built / program, tmp_path / "net.onnx", tmp_path / "photo.pgm").reshape(-1, 1, SIDE, SIDE)
    which = torch.zeros(len(ROWS), dtype=torch.int64)
    frames = keypoint_frames(keypoints, PATCH_SCALE)
    ours = sample_patches(ImagePyramids.build([image]), which, keypoints.xy, frames, SIDE)
    assert (theirs - ours).abs().mean((1, 2, 3)).max() < 0.005
    assert (theirs - ours.flip(0)).abs().mean((1, 2, 3)).min() > 0.1, "other patches would not pass"


@pytest.mark.slow
def test_a_shipped_network_describes_as_in_python(
    built: Path, image: torch.Tensor, keypoints: Keypoints, tmp_path: Path
) -> None:
    """In ONNX Runtime alone: the OpenCV of Debian 12 cannot read the networks."""
    model = load("patchprint.tiny", engine="float32")
    metadata = {"patch_scale": str(model.patch_scale), "input_size": str(model.input_size)}
    export_onnx(model.network, model.input_size, tmp_path / "net.onnx", metadata)
    theirs = describe(built / "describe_onnxruntime", tmp_path / "net.onnx", tmp_path / "photo.pgm")
    ours = model.describe_keypoints(image.numpy(), keypoints)
    assert ((theirs * ours).sum(1) > 0.995).all()
    assert ((theirs * ours.flip(0)).sum(1) < 0.9).all()


@pytest.mark.parametrize("name", ["blobs", "texture", "turned"])
def test_conformance_corpus(name: str, built: Path, tmp_path: Path) -> None:
    """Patches in both programs, descriptors in ONNX Runtime alone, as above."""
    conformance = pytest.importorskip("tools.conformance")
    if not conformance.FOLDER.is_dir():
        pytest.skip("docs/ is not in this copy of the repository")
    about = json.loads((conformance.FOLDER / "corpus.json").read_text())
    _, points, patches, descriptors = conformance.read_corpus(name)
    photo, allowed = conformance.FOLDER / f"{name}.pgm", about["tolerances"]
    rows = torch.cat([points.xy, torch.stack([2 * points.scale, torch.rad2deg(points.angle)], 1)], 1).tolist()
    metadata = {"patch_scale": str(about["patch_scale"]), "input_size": str(about["input_size"])}
    write_pixel_network(tmp_path / "pixels.onnx", about["input_size"], name="pixels", **metadata)
    for program in ("describe_opencv", "describe_onnxruntime"):
        cut = describe(built / program, tmp_path / "pixels.onnx", photo, rows).reshape(patches.shape)
        assert (cut - patches).abs().mean((1, 2, 3)).max() < allowed["patch"]
    network = load(about["model"]["name"], engine="float32").network
    export_onnx(network, network.input_size, tmp_path / "net.onnx", metadata)
    theirs = describe(built / "describe_onnxruntime", tmp_path / "net.onnx", photo, rows)
    assert ((theirs * descriptors).sum(1) > allowed["cosine_8_bit"]).all()


@PROGRAMS
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "usage"),
        (["net.onnx", "photo"], "photo is no 8-bit grey PGM"),
        (["net.onnx", "cut.pgm"], "cut.pgm is cut short"),
        (["net.onnx", "photo.pgm"], "net.onnx does not tell its patch_scale; write it with patchprint export"),
    ],
)
def test_wrong_use_is_told(
    program: str, arguments: list[str], words: str, built: Path, image: torch.Tensor, tmp_path: Path
) -> None:
    (tmp_path / "cut.pgm").write_bytes((tmp_path / "photo.pgm").read_bytes()[:-5])
    write_pixel_network(tmp_path / "net.onnx")
    command = [str(built / program), *arguments]
    done = subprocess.run(command, input="9 9 9 0", capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 2
    assert words in done.stderr
