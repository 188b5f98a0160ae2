"""GPU kernels of ops agree with PyTorch's operations."""

import pytest

from support import kernels

NEAREST = """
from patchprint.ops import distances
for count, total, dim in ((70, 300, 128), (5, 2, 32), (64, 129, 40), (1, 500, 64)):
    queries, base = torch.randn(count, dim, device=device) * 300, torch.randn(total, dim, device=device) * 300
    for k in (1, 2):
        expected = distances.nearest(queries.cpu(), base.cpu(), k)
        found = distances._with_kernel(queries, base, k)
        assert torch.equal(found[1].cpu(), expected[1]), (count, total, dim, k)
        assert torch.allclose(found[0].cpu(), expected[0], rtol=1e-3)
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
pyramids = sampler.ImagePyramids.build(images)
count = 150
keypoints = Keypoints(torch.rand(count, 2) * 100 - 10, torch.exp(torch.randn(count)), torch.rand(count) * 6)
image = torch.randint(0, 3, (count,))
for size in (16, 32):
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
