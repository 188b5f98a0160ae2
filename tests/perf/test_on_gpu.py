"""What is prepared for a lease of a GPU works before the lease begins: kernels by Triton's interpreter, sections on the CPU."""

from pathlib import Path

import numpy as np
import pytest

from patchprint.detectors import detect
from patchprint.pipelines.bench import BenchImages
from perf.speed.contest import save_images
from perf.speed.on_gpu import __main__ as lease, _checks
from perf.speed.on_gpu._common import Lease
from support.known_images import texture


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
    assert {"NEAREST", "PYRAMIDS", "PATCHES", "KERNELS", "KERNEL", "CONVOLUTIONS", "SWAPPED", "LAYERS"} <= found
