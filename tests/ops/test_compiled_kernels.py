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
FILTERS = """
from patchprint.ops import filters, filters_kernel
for sigma in (1.0, 2.55):
    filters_kernel.separable(torch.zeros(3, 40, 200), filters.gaussian(sigma), filters.gaussian(sigma))
filters_kernel.separable(torch.zeros(1, 40, 200), filters.DIFFERENCE, filters.ACROSS)
"""
NORMS = """
from patchprint.networks import frn_kernel
for channels, side in ((32, 32), (64, 16), (128, 8)):
    x = torch.zeros(2, channels, side, side, dtype=torch.bfloat16).contiguous(memory_format=torch.channels_last)
    one, shift, eps = torch.zeros(1, channels, 1, 1), torch.zeros(channels), torch.zeros(1)
    _, scale = frn_kernel.frn_tlu(x, shift, one, one, one, eps)
    frn_kernel.frn_tlu_backward(x, x, shift, scale, one, one, one)
"""
CONVOLUTIONS = """
from patchprint.networks import convolution_kernels as kernels
for side, channels in ((32, 32), (16, 16)):
    x, maps = (torch.zeros(2, count, side, side, dtype=torch.bfloat16) for count in (1, channels))
    maps, kernel = maps.contiguous(memory_format=torch.channels_last), torch.zeros(channels, 1, 3, 3, dtype=torch.bfloat16)
    kernels.first(x, kernel), kernels.first_backward(maps, x, kernel), kernels.weight_gradient(maps, maps)
"""
LAYERS = """
from patchprint import networks
from patchprint.networks.engines import _cuda_kernels, cuda
_cuda_kernels._shared_memory = lambda device: memory
cuda.supports_triton = lambda device: True
for name, options in (("sdgmnet", {}), ("sdgmnet", dict(input_norm="standard", fovea=3)), ("desdis", dict(fovea=3, size=48))):
    network = networks.create(name, **options).eval()
    raw = cuda.half_precision(network, torch.bfloat16)
    assert isinstance(raw, cuda._Chain), name
    raw(torch.zeros(2, 1, network.input_size, network.input_size))
"""
GRAPH = """
from patchprint.matching.candidate_graph import Frames, GraphNetwork
from patchprint.matching.candidate_graph_kernels import match_pair
for dtype, width in ((torch.float32, 128), (torch.uint8, 16)):
    a, b = (Frames(torch.rand(n, 2), torch.ones(n), torch.zeros(n), torch.zeros(n, width).to(dtype)) for n in (300, 500))
    match_pair(GraphNetwork(), a, b, 0.1, 2.0)
"""
CASES = {
    "nearest": (NEAREST, "best merging"),
    "patches": (PATCHES, "sampling halving"),
    "keypoints": (KEYPOINTS, "enlarging blurring halving extrema refining direction"),
    "graph": (GRAPH, "several several_merging places image edges starting round matching errors"),
    "filters": (FILTERS, "correlating"),
    "norms": (NORMS, "forward backward"),
    "convolutions": (CONVOLUTIONS, "first first_input first_weight weight"),
    "layers": (LAYERS, "first convolution"),
}
# The T4 has the least memory for a program. The others only get what multiplies matrices, which each generation does in another
# way; convolutions and layers are in bfloat16, which the T4 has not.
ON = {
    "T4": "nearest patches keypoints graph filters norms",
    "RTX 4090": "convolutions layers",
    "H200": "nearest graph convolutions layers",
}


@pytest.mark.slow
@pytest.mark.parametrize("gpu", ON)
def test_kernels_compile(gpu: str, tmp_path: Path) -> None:
    codes, names = zip(*(CASES[case] for case in ON[gpu].split()), strict=True)
    expected = [{f"_{name}_kernel" for name in each.split()} for each in names]
    assert compiled.compile_kernels(codes, gpu, str(tmp_path)) == expected
