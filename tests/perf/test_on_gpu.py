"""What is prepared for a lease of a GPU works before the lease begins: kernels by Triton's interpreter, sections on the CPU."""

from pathlib import Path

import numpy as np
import pytest

from patchprint.detectors import detect
from patchprint.pipelines.bench import BenchImages
from perf.speed.contest import save_images
from perf.speed.on_gpu import __main__ as lease, _checks
from perf.speed.on_gpu._common import Lease
from support import compiled, kernels
from support.known_images import texture

STEP = """
from perf.speed.on_gpu import _step_kernels
_step_kernels.check(device, torch.float32, 2, 8, 1e-4)
"""
COMPILED = """
from perf.speed.on_gpu import _step_kernels as step
def made(*shape):
    return torch.zeros(*shape, dtype=torch.bfloat16).contiguous(memory_format=torch.channels_last)
x, kernel, gradient = made(2, 1, 32, 32), made(32, 1, 3, 3), made(2, 32, 32, 32)
step.first_forward(x, kernel), step.first_backward(gradient, x, kernel), step.weight_gradient(gradient, gradient, 1)
one, shift = torch.zeros(1, 32, 1, 1), torch.zeros(32)
step.norm_forward(gradient, shift, one, one, one, shift[:1], 32, 64, 4)
step.norm_backward(gradient, gradient, shift, torch.zeros(2, 32), one, one, one, 32, 64, 4)
"""


@pytest.mark.slow
def test_kernels_of_the_step_equal_the_operations() -> None:
    kernels.run(STEP)


@pytest.mark.slow
def test_kernels_of_the_step_compile(tmp_path: Path) -> None:
    names = "_first_forward _first_input_gradient _first_weight_gradient _weight_gradient _frn_forward _frn_backward"
    assert compiled.compile_kernels(COMPILED, "H200", str(tmp_path)) == set(names.split())


def test_a_section_leaves_a_log_and_its_numbers(tmp_path: Path) -> None:
    image = texture(200, 240)
    save_images(BenchImages("made", [image] * 2, [detect(image, max_keypoints=50)] * 2, 50), tmp_path / "bench.npz")
    np.savez_compressed(tmp_path / "real.npz", allow_pickle=False, texture=image)
    lease.run(tmp_path, tmp_path / "out", 60.0, ["dog"])
    text = (tmp_path / "out" / "on-gpu.log").read_text()
    assert "===== dog: exit code 0" in text and "FAILED" not in text
    assert (tmp_path / "out" / "on-gpu.tar.xz").stat().st_size > 100
    shares = Lease(tmp_path).kept("dog")["texture, dog"]
    assert shares[0] > 100 and min(shares[2:]) > 0.98


def test_all_code_for_kernels_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    names: list[str] = []
    monkeypatch.setattr(_checks, "attempt", lambda name, work: names.append(name))
    _checks.kernels(Lease(tmp_path))
    found = {name.split()[1] for name in names}
    assert {"NEAREST", "PYRAMIDS", "PATCHES", "KERNELS", "KERNEL", "LAYERS"} <= found
