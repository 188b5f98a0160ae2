"""Every network as ONNX: same descriptors as torch in onnxruntime and in OpenCV, for any number of patches."""

from pathlib import Path

import pytest
import torch

from patchprint.cli.export import measure_parity
from patchprint.interop.onnx import INPUT, OUTPUT, RUNTIMES, export_onnx, run_onnx
from patchprint.networks import create
from support.network_patches import PATCH_NETWORKS, known_options, smooth_patches, trained_looking
from support.slowness import slow_but

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("cv2")


# The others are L2-Net without biases and HyNet: what they add, starting weights and dropout, does not get into the file.
EXPORTED = [name for name in PATCH_NETWORKS if name not in ("hardnet", "doap", "sdgmnet")]


@pytest.mark.parametrize("name", slow_but({"tfeat"}, EXPORTED))
def test_exported_networks_agree_with_torch(name: str, tmp_path: Path) -> None:
    network = trained_looking(name, **known_options(name, width=8))
    export_onnx(network, network.input_size, tmp_path / "net.onnx", {"name": name})
    patches = smooth_patches(5, network.input_size).float() / 255
    with torch.no_grad():
        expected = network(patches)
    for runtime in RUNTIMES:
        for count in (5, 1):
            descriptors = run_onnx(tmp_path / "net.onnx", patches[:count], runtime)
            assert descriptors.shape == (count, network.dim)
            assert (descriptors - expected[:count]).abs().max() < 1e-4, runtime


def test_the_file_says_what_it_is_and_other_weights_are_noticed(tmp_path: Path) -> None:
    network = trained_looking("tfeat", width=4)
    export_onnx(network, 32, tmp_path / "net.onnx", {"name": "tfeat", "patch_scale": "12.0"})
    model = onnx.load(tmp_path / "net.onnx")
    assert {entry.key: entry.value for entry in model.metadata_props} == {"name": "tfeat", "patch_scale": "12.0"}
    (entry,), (result,) = model.graph.input, model.graph.output
    assert (entry.name, result.name) == (INPUT, OUTPUT)
    assert [side.dim_value for side in entry.type.tensor_type.shape.dim] == [0, 1, 32, 32], "0 is a free batch size"
    assert entry.type.tensor_type.elem_type == onnx.TensorProto.FLOAT
    assert str(Path(__file__).parents[2]).encode() not in (tmp_path / "net.onnx").read_bytes()
    assert max(measure_parity(network, tmp_path / "net.onnx").values()) < 1e-4
    assert min(measure_parity(trained_looking("tfeat", width=4, seed=1), tmp_path / "net.onnx").values()) > 1e-2


def test_unknown_runtime() -> None:
    with pytest.raises(ValueError, match="known are onnxruntime, opencv"):
        run_onnx("net.onnx", torch.rand(1, 1, 32, 32), "tensorrt")


@pytest.mark.slow
def test_networks_of_whole_images_are_exported_with_three_channels(tmp_path: Path) -> None:
    network = create("embedding", backbone="resnet18-narrow", dim=16, input_size=32)
    export_onnx(network, 32, tmp_path / "net.onnx", {"name": "embedding"}, network.channels)
    errors = measure_parity(network, tmp_path / "net.onnx")
    assert set(errors) == set(RUNTIMES)
    assert max(errors.values()) < 1e-4
