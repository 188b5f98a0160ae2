"""Filters: the way of OpenCV on a CPU and that of PyTorch anywhere give the same values, at borders too."""

import pytest
import torch

from patchprint.ops import filters
from support import kernels
from support.known_images import texture

IMAGES = torch.stack([torch.from_numpy(texture(53, 70, seed=seed)).float() for seed in (0, 1)])


def by_pytorch(work, *arguments, images=IMAGES):
    """With a gradient, which OpenCV has none of."""
    return work(images.clone().requires_grad_(), *arguments).detach()


@pytest.mark.parametrize("sigma", [0.6, 1.0, 2.4])
def test_blur(sigma):
    torch.testing.assert_close(by_pytorch(filters.blur, sigma), filters.blur(IMAGES, sigma), atol=2e-3, rtol=0)
    impulse = torch.zeros(1, 31, 31)
    impulse[0, 15, 15] = 1
    assert filters.blur(impulse, sigma)[0, 15].sum() == pytest.approx(
        filters.gaussian(sigma)[len(filters.gaussian(sigma)) // 2], rel=1e-4
    )


def test_an_image_smaller_than_the_filter():
    small = IMAGES[:, :4, :3].contiguous()
    torch.testing.assert_close(by_pytorch(filters.blur, 2.0, images=small), filters.blur(small, 2.0), atol=2e-3, rtol=0)


@pytest.mark.parametrize("weights", [(filters.DIFFERENCE, filters.SAME), (filters.SAME, filters.SECOND_DIFFERENCE)])
def test_derivatives(weights):
    torch.testing.assert_close(
        by_pytorch(filters.separable, *weights), filters.separable(IMAGES, *weights), atol=1e-3, rtol=0
    )
    ramp = torch.arange(20.0).expand(1, 20, 20).contiguous()
    assert (filters.separable(ramp, filters.DIFFERENCE, filters.SAME)[:, :, 1:-1] == 1).all()


@pytest.mark.parametrize("size", [(26, 35), (37, 49), (106, 140)])
def test_resize(size):
    torch.testing.assert_close(by_pytorch(filters.resize, size), filters.resize(IMAGES, size), atol=2e-3, rtol=0)


@pytest.mark.parametrize("size", [(26, 35), (27, 35), (37, 49)])
def test_shrink(size):
    torch.testing.assert_close(by_pytorch(filters.shrink, size), filters.shrink(IMAGES, size), atol=2e-3, rtol=0)
    assert filters.shrink(IMAGES, size).mean() == pytest.approx(float(IMAGES.mean()), rel=1e-5)


@pytest.mark.parametrize("radius", [1, 2, 4])
def test_highest_near(radius):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(filters, "_is_for_opencv", lambda images: False)
        everywhere = filters.highest_near(IMAGES, radius)
    assert torch.equal(everywhere, filters.highest_near(IMAGES, radius))
    turned = filters.highest_near(IMAGES.rot90(1, (1, 2)).contiguous(), radius)
    assert torch.equal(turned, everywhere.rot90(1, (1, 2)))


def test_places_between_pixels_and_beyond_the_border():
    y, x = torch.rand(40, 6) * 56 - 2, torch.rand(40, 6) * 73 - 2
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(filters, "_is_for_opencv", lambda images: False)
        expected = filters.read_places(IMAGES[0], x, y)
    torch.testing.assert_close(filters.read_places(IMAGES[0], x, y), expected, atol=0.01, rtol=0)
    ramp = torch.arange(20.0).expand(20, 20).contiguous()
    assert filters.read_places(ramp, torch.tensor([[3.25, -2.0]]), torch.tensor([[4.0, 4.0]])).tolist() == [[3.25, 2.0]]


def test_logarithm():
    values = torch.linspace(0.001, 90, 77)
    torch.testing.assert_close(filters.log_(values.clone()), values.log())


def test_the_kernel_does_the_same():
    pytest.importorskip("triton")
    kernels.run("""
from patchprint.ops import filters, filters_kernel
images = 255 * torch.rand(2, 19, 150)
for weights in ((filters.gaussian(1.0),) * 2, (filters.gaussian(2.4),) * 2, (filters.DIFFERENCE, filters.ACROSS)):
    expected = filters.separable(images, *weights)
    found = filters_kernel.separable(images.to(device), *weights)
    torch.testing.assert_close(found.cpu(), expected, atol=2e-3, rtol=0)
    place = torch.zeros(2, 21, 150, device=device)
    filters_kernel.separable(images.to(device), *weights, place[:, 1:-1])
    assert torch.equal(place[:, 1:-1], found) and not place[:, ::20].any()
""")
