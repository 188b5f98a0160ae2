"""GPU kernels of ops agree with PyTorch's operations."""

import pytest

from support import kernels

NEAREST = """
from patchprint.ops import distances, distances_kernel
distances_kernel._PROGRAMS = 5  # so that columns are divided among programs, and a program has several blocks
part = 1
if device.type == "cpu":  # the interpreter takes long for each query: a quarter of them, and of a block
    part, distances_kernel._QUERIES, distances_kernel._BASE = 4, 16, 16
def check(queries, base, rtol=1e-5):
    exact = distances.distance_matrix(queries, base).nan_to_num(torch.inf, posinf=torch.inf)
    found = distances._with_kernel(queries.to(device), base.to(device), 2, both_ways=True)
    for k in (1, 2):
        one_way = distances._with_kernel(queries.to(device), base.to(device), k)
        assert one_way[2] is None
        assert torch.equal(one_way[0], found[0][:, :k]) and torch.equal(one_way[1], found[1][:, :k])
    padded = torch.nn.functional.pad(exact, (0, 2), value=torch.inf)
    nearest = padded.topk(2, largest=False).values
    assert torch.equal(found[1] < 0, nearest.isinf())
    chosen = padded.gather(1, torch.where(found[1] < 0, len(base), found[1]))
    for values in (chosen, found[0].double()):
        apart = (values - nearest).abs()[found[1] >= 0]
        assert torch.equal(values.isinf(), nearest.isinf()) and (apart <= rtol * nearest[found[1] >= 0]).all(), apart.max()
    back = exact.min(0).values
    assert torch.equal(found[2] < 0, back.isinf())
    chosen = exact[found[2].clamp(min=0), torch.arange(len(base))]
    assert ((chosen - back).abs() <= rtol * back)[found[2] >= 0].all()
for count, total, dim in ((70, 300, 128), (5, 2, 32), (64, 129, 40), (1, 500, 64), (90, 140, 200), (3, 1, 8)):
    check(torch.randn(-(-count // part), dim) * 300, torch.randn(-(-total // part), dim) * 300)
near = torch.randn(80 // part, 128)
check(near, near + 0.01 * torch.randn(80 // part, 128))
few, more = 40 // part, 150 // part
check(torch.randint(-127, 128, (few, 64)).to(torch.int8), torch.randint(-127, 128, (more, 64)).to(torch.int8))
check(torch.randint(0, 256, (few, 16)).to(torch.uint8), torch.randint(0, 256, (more, 16)).to(torch.uint8))
check(torch.randn(few, 64).half(), torch.randn(more, 64).half())
# NaN and infinity have no neighbors and are nobody's.
queries, base = torch.randn(72 // part, 32), torch.randn(200 // part, 32)
queries[3, 5] = base[7, 0] = torch.nan
queries[68 // part], base[150 // part] = torch.inf, -torch.inf
base[9] = queries[3]
check(queries, base)
check(queries[3:4], base)
check(queries, base[7:8])
"""


def test_the_kernel_finds_the_two_nearest() -> None:
    kernels.run(NEAREST)


PYRAMIDS = """
from patchprint.ops import sampling as sampler
# Few rows, each of which takes the interpreter long; the row of 600 is more than one program halves.
sizes = ((37, 83), (20, 37), (16, 16), (15, 200), (70, 90), (16, 600))
images = [torch.randint(0, 256, size, dtype=torch.uint8) for size in sizes]
expected = sampler.ImagePyramids.build(images)
sampler.supports_triton = lambda device: True
found = sampler.ImagePyramids.build(images, device)
for name in ("offset", "width", "height", "num_levels"):
    assert torch.equal(getattr(found, name).cpu(), getattr(expected, name)), name
apart = (found.pixels.cpu().int() - expected.pixels.int()).abs()
assert apart.max() <= 1 and (apart > 0).float().mean() < 1e-3, apart.max()  # sums of floats in another order
if device.type == "cuda":  # one image is recorded, and its recording serves those of the same size
    for image in (images[0], images[0].flip(0), images[4], images[0]):
        alone, plain = sampler.ImagePyramids.build([image], device), sampler.ImagePyramids.build([image, image], device)
        assert torch.equal(alone.pixels, plain.pixels[: len(alone.pixels)])
        assert torch.equal(alone.offset, plain.offset[:1]) and torch.equal(alone.num_levels, plain.num_levels[:1])
"""

PATCHES = """
from patchprint.ops import sampling as sampler
from patchprint.common.types import Keypoints
images = [torch.randint(0, 256, size, dtype=torch.uint8) for size in ((61, 83), (40, 37), (16, 16))]
sampler.supports_triton = lambda device: False
pyramids = sampler.ImagePyramids.build(images)
count = 60
keypoints = Keypoints(torch.rand(count, 2) * 100 - 10, torch.exp(torch.randn(count)), torch.rand(count) * 6)
image = torch.randint(0, 3, (count,))
for size in (16, 32, 24, 35):
    sampler.supports_triton = lambda device: False
    expected = sampler.cut_patches(pyramids, image, keypoints, 12.0, size)
    sampler.supports_triton = lambda device: True
    found = sampler.cut_patches(pyramids.to(device), image.to(device), keypoints, 12.0, size).cpu()
    assert torch.allclose(found, expected, atol=1e-4), (found - expected).abs().max()
    alone = sampler.cut_patches(pyramids.to(device), int(image[7]), keypoints[7:8], 12.0, size).cpu()
    assert torch.equal(alone, found[7:8])
    assert sampler.cut_patches(pyramids.to(device), 0, keypoints[:0], 12.0, size).shape == (0, 1, size, size)
"""


@pytest.mark.parametrize("code", [PYRAMIDS, PATCHES], ids=["pyramids", "patches"])
def test_kernels_equal_the_operations(code: str) -> None:
    kernels.run(code)
