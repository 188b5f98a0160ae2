"""Every kernel that a GPU gets compiles for the GPUs in use and fits into their shared memory, shown without one."""

from pathlib import Path

import pytest

from support import compiled

pytest.importorskip("triton")

NEAREST = """
from patchprint.ops.distances_kernel import two_nearest
for dtype, width, both_ways in ((torch.float32, 128, True), (torch.float32, 128, False), (torch.uint8, 16, True)):
    two_nearest(torch.zeros(300, width).to(dtype), torch.zeros(3000, width).to(dtype), both_ways)
"""
PATCHES = """
from patchprint.ops import sampling, sampling_kernel
pyramids = sampling.ImagePyramids.build([torch.zeros(64, 64, dtype=torch.uint8)])
tables = pyramids.offset, pyramids.width, pyramids.height, pyramids.num_levels
for size in (32, 48, 64):
    for image in (0, torch.zeros(5, dtype=torch.int64)):
        sampling_kernel.sample(pyramids.pixels, tables, image, torch.zeros(5, 6), size)
for kind in (torch.uint8, torch.float32):
    sampling_kernel.halve(torch.zeros(64, 64, dtype=kind), torch.zeros(32, 32, dtype=torch.uint8))
"""
KEYPOINTS = """
from patchprint.detectors import _scale_space_kernels as kernels
search = kernels._Search.prepare(256, 512, 0.02, 10.0, 1, torch.device("cpu"))
size = torch.tensor([200, 400], dtype=torch.int32).view(torch.uint8)
search(torch.cat([size, torch.zeros(200 * 400, dtype=torch.uint8)]))
"""
NORMS = """
from patchprint.networks import frn_kernel
for channels, side in ((32, 32), (64, 16), (128, 8)):
    x = torch.zeros(2, channels, side, side, dtype=torch.bfloat16).contiguous(memory_format=torch.channels_last)
    one, shift, eps = torch.zeros(1, channels, 1, 1), torch.zeros(channels), torch.zeros(1)
    _, scale = frn_kernel.frn_tlu(x, shift, one, one, one, eps)
    frn_kernel.frn_tlu_backward(x, x, shift, scale, one, one, one)
"""
LAYERS = """
import os
from patchprint import networks
os.environ["PATCHPRINT_NEW_KERNELS"] = "1"
from patchprint.networks.engines import _cuda_kernels, cuda
_cuda_kernels._shared_memory = lambda device: memory
cuda.supports_triton = lambda device: True
for name, options in (("sdgmnet", {}), ("sdgmnet", dict(input_norm="standard", fovea=3)), ("desdis", dict(fovea=3, size=48))):
    network = networks.create(name, **options).eval()
    raw = cuda.half_precision(network, torch.bfloat16)
    assert isinstance(raw, cuda._Chain), name
    raw(torch.zeros(2, 1, network.input_size, network.input_size))
"""
CASES = {
    "nearest": (NEAREST, "best merging"),
    "patches": (PATCHES, "sampling halving"),
    "keypoints": (KEYPOINTS, "enlarging blurring halving extrema refining direction"),
    "norms": (NORMS, "forward backward"),
    "layers": (LAYERS, "first convolution"),
}
# The T4 has the least memory for a program. The others only get what multiplies matrices, which each generation does in another
# way; layers are in bfloat16, which the T4 has not.
ON = {"T4": "nearest patches keypoints norms", "RTX 4090": "layers", "H200": "nearest layers"}


@pytest.mark.slow
@pytest.mark.parametrize("gpu", ON)
def test_kernels_compile(gpu: str, tmp_path: Path) -> None:
    codes, names = zip(*(CASES[case] for case in ON[gpu].split()), strict=True)
    expected = {f"_{name}_kernel" for name in " ".join(names).split()}
    assert compiled.compile_kernels("".join(codes), gpu, str(tmp_path)) == expected
