"""The networks of the detector `learned`: a score of pixels and an angle of keypoints, both unchanged when the image turns.

The score sees rotation-invariant combinations of derivatives alone, the angle is read from circles around the keypoint by a
network that treats all directions alike. So neither has to learn rotation, and a few thousand parameters are enough. All of it
takes batches of images of one size on any device.
"""

import contextlib
import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import Tensor, nn

from patchprint.common.devices import parallel_map
from patchprint.common.errors import UserError, parsing
from patchprint.ops.filters import (
    ACROSS,
    ACROSS_SECOND,
    DIFFERENCE,
    SECOND_DIFFERENCE,
    blur,
    log_,
    read_places,
    resize,
    separable,
    shrink,
)

WEIGHTS = Path(__file__).with_name("learned.safetensors")
INVARIANTS = 17
CONTEXT = 4  # numbers that a level tells the one of twice the resolution about each pixel
DIRECTIONS = 32
FLAT = -1e3  # scores below this are those of uniform areas
_SIGMAS = (1.0, 1.7, 2.9)  # pixels of a level
_FIRST = ((DIFFERENCE, ACROSS), (ACROSS, DIFFERENCE))  # along x and y
_SECOND = ((SECOND_DIFFERENCE, ACROSS_SECOND), (ACROSS_SECOND, SECOND_DIFFERENCE), (DIFFERENCE, DIFFERENCE))
_WINDOWED = 2  # the finest sigmas have the eigenvalues of the structure tensor as well
_DARK = 0.5  # squared contrasts below this (in gray values) are noise
_FAINT = -1.7  # score of Shi and Tomasi below which there is nothing but noise
_AROUND = 2.0  # sigma in pixels over which the context is averaged
RADII = (2.0, 3.5, 5.0)  # of the circles, in pixels of a level
WIDTHS = (24, 16, 24, 16)  # of the layers of the score network, then of the angle network
REACH = 9  # directions that a layer of the angle network sees together
WITHIN = 0.25  # radians within which two directions agree
_CIRCLE_LEVELS = (0, 2, 4)  # levels above that of the keypoint at which circles are read
_FADED = 2.0  # standard deviation (in gray values) around a keypoint below which it is noise
_REACH = 40  # rows beyond a band that its invariants see; a multiple of 4, like the rows of a band
_BAND = 500_000  # pixels
_CHUNK = 32768  # pixels at a time; more of them leave the cache, fewer are mostly calls
_SMALLEST = 32  # pixels along a side of the coarsest level
_KEYPOINTS = 512  # whose angles are found at a time

Work = TypeVar("Work", bound=Callable[..., Any])


def build_pyramid(images: Tensor, most: int | None = None) -> list[Tensor]:
    """Shrink images in steps of the square root of 2, ``most`` levels: uint8 or float (N, H, W) -> float32 (N, h, w) each."""
    levels, (height, width) = [images.float()], images.shape[1:]
    while most is None or len(levels) < most:
        smaller = 2 ** (len(levels) / 2)
        size = (round(height / smaller), round(width / smaller))
        if min(size) < _SMALLEST:
            break
        levels.append(resize(blur(levels[0], 0.6), size) if len(levels) == 1 else shrink(levels[-2], size))
    return levels


@dataclass(frozen=True, eq=False)
class _Surroundings:
    """What the invariants of pixels are combined from: blurred images, structure tensors, and the contrast around.

    Shape:
        blurred (sigmas, N, H + 2, W), with a row more above and below; structure (3, finest sigmas, N, H, W) xx, yy and xy;
        contrast (N, H, W).
    """

    blurred: Tensor
    structure: Tensor
    contrast: Tensor

    @staticmethod
    def of(levels: Tensor) -> "_Surroundings":
        count, height, width = levels.shape
        blurred, finer, before = levels.new_empty(len(_SIGMAS), count, height + 2, width), levels, 0.0
        for sigma, target in zip(_SIGMAS, blurred[:, :, 1:-1], strict=True):
            finer, before = blur(finer, (sigma**2 - before**2) ** 0.5, target), sigma
        blurred[:, :, 0], blurred[:, :, -1] = blurred[:, :, 2], blurred[:, :, -3]  # mirrored
        dx, dy = (_derive(blurred[:_WINDOWED], *weights) for weights in _FIRST)
        products, structure = levels.new_empty(2, _WINDOWED, 3, *levels.shape)
        for number, (a, b) in enumerate(((dx, dx), (dy, dy), (dx, dy))):
            torch.mul(a, b, out=products[:, number])
        for sigma, product, target in zip(_SIGMAS, products, structure, strict=False):
            blur(product.flatten(0, 1), 1.5 * sigma, target.flatten(0, 1))
        contrast = _mean_around(products[1, 0].add_(products[1, 1])).mul_(_SIGMAS[1] ** 2).add_(_DARK)
        return _Surroundings(blurred, structure.transpose(0, 1), contrast)

    def rows(self, start: int, end: int) -> "_Surroundings":
        """Select rows, ``end`` not among them."""
        blurred = self.blurred[:, :, start : end + 2].contiguous()
        return _Surroundings(blurred, self.structure[..., start:end, :], self.contrast[:, start:end])

    def combine(self) -> tuple[Tensor, Tensor]:
        """Return the invariants and a 1, (INVARIANTS + 1, N, H, W), and the score that the network corrects, (N, H, W)."""
        square = 1 / self.contrast
        sigma = _sigmas(square.device)
        once = square.sqrt() * sigma
        twice = once * sigma
        dx, dy = (_derive(self.blurred, *weights).mul_(once) for weights in _FIRST)
        xx, yy, xy = (_derive(self.blurred, *weights).mul_(twice) for weights in _SECOND)
        product, across, along = dx * dy, dx.square_(), dy.square_()
        # Six for each sigma; the coarsest has no structure tensor, but the contrast and 1 in place of eigenvalues.
        found = square.new_empty(len(_SIGMAS), 6, *square.shape)
        torch.add(across, along, out=found[:, 0]).add_(0.02)
        torch.add(xx, yy, out=found[:, 1])
        torch.mul(xx, yy, out=found[:, 2]).addcmul_(xy, xy, value=-1)
        torch.mul(across, yy, out=found[:, 3]).addcmul_(product, xy, value=-2).addcmul_(along, xx)
        bounded = found[:, 1:4]
        bounded.div_(bounded.abs().add_(1))
        smaller, larger = _eigenvalues(*self.structure)
        torch.mul(smaller, square * sigma[:_WINDOWED].square(), out=found[:_WINDOWED, 4]).add_(0.01)
        torch.mul(larger, square * sigma[:_WINDOWED].square(), out=found[:_WINDOWED, 5]).add_(0.01)
        found[_WINDOWED:, 4] = self.contrast
        log_(found[:, 0])
        log_(found[:, 4])[_WINDOWED:].mul_(0.3)
        log_(found[:_WINDOWED, 5])
        found[_WINDOWED:, 5] = 1
        return found.flatten(0, 1), log_(smaller[0].add_(0.01)).mul_(0.5)


@functools.cache
def _sigmas(device: torch.device) -> Tensor:
    return torch.tensor(_SIGMAS, device=device)[:, None, None, None]


def _derive(blurred: Tensor, along_x: Sequence[float], along_y: Sequence[float]) -> Tensor:
    """Correlate with weights of three pixels, (S, N, H + 2, W) -> (S, N, H, W), as one image whose seams are left out."""
    found = separable(blurred.view(1, -1, blurred.shape[3]), along_x, along_y)
    return found.view(blurred.shape)[:, :, 1:-1]


@contextlib.contextmanager
def without_gradients(work: Work) -> Iterator[Work]:
    """A session of `parallel_map`, whose threads begin with gradients."""
    with torch.no_grad():
        yield work


def invariants(levels: Tensor) -> tuple[Tensor, Tensor]:
    """What the score network sees of the pixels of a level, and the score that it corrects.

    These are magnitudes of gradients, trace and determinant of the Hessian, curvature of the level lines, and eigenvalues of
    the structure tensor, all in units of the contrast around, and that contrast; the score is the logarithm of the
    smaller eigenvalue (Shi and Tomasi's).

    Shape:
        (N, H, W) -> (INVARIANTS + 1, N, H, W), whose last is 1, and (N, H, W).
    """
    return _Surroundings.of(levels).combine()


def _eigenvalues(xx: Tensor, yy: Tensor, xy: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues of the structure tensor at each pixel, the smaller first."""
    middle, half = (xx + yy).mul_(0.5), (xx - yy).mul_(0.5)
    half.square_().addcmul_(xy, xy).sqrt_()
    larger = middle + half
    return middle.sub_(half).clamp_(min=0), larger


def _mean_around(values: Tensor) -> Tensor:
    """Mean over a window of sigma 6, at a quarter of the resolution."""
    height, width = values.shape[1:]
    below, right = -height % 4, -width % 4
    # Squares of four pixels, so that a band of rows sees what the whole does.
    padded = F.pad(values[:, None], (0, right, 0, below), mode="replicate")[:, 0] if below or right else values
    rows, columns = height + below, width + right
    quarter = resize(resize(padded, (rows // 2, columns // 2)), (rows // 4, columns // 4))
    return resize(blur(quarter, 1.5), (rows, columns))[:, :height, :width].contiguous()


class ScoreNetwork(nn.Module):
    """How likely a corner is found again: a correction of the logarithm of Shi and Tomasi's score, pixel by pixel.

    It sees the invariants of a pixel and what the level of half the resolution tells about its surroundings, which in turn
    knows those of the next, up to the whole image. ``center`` and ``spread`` are those of the invariants in training images.

    Shape:
        invariants (INVARIANTS + 1, M), base (M,), context (CONTEXT, M) -> score (M,), context for the next level (CONTEXT, M).
    """

    center: Tensor
    spread: Tensor

    def __init__(self, width: int, second: int) -> None:
        super().__init__()
        self.register_buffer("center", torch.zeros(INVARIANTS))
        self.register_buffer("spread", torch.ones(INVARIANTS))
        self.first = nn.Linear(INVARIANTS, width)
        self.second = nn.Linear(width + CONTEXT, second)
        self.last = nn.Linear(second, 1 + CONTEXT)
        nn.init.normal_(self.last.weight, std=0.3)
        nn.init.zeros_(self.last.bias)
        with torch.no_grad():
            self.last.weight[0] = 0

    def forward(self, found: Tensor, base: Tensor, context: Tensor, tells: bool = True) -> tuple[Tensor, Tensor]:
        # Pixels are the columns: transposed, these products take four times as long. The biases are columns of the weights.
        weight, split = self.first.weight / self.spread, self.first.out_features
        weight = torch.cat([weight, (self.first.bias - weight @ self.center)[:, None]], 1)
        one = context.new_ones(1, 1).expand(1, context.shape[1])
        if torch.is_grad_enabled():
            hidden = torch.cat([(weight @ found).relu_(), context, one])
        else:  # without a copy
            hidden = found.new_empty(split + CONTEXT + 1, found.shape[1])
            torch.mm(weight, found, out=hidden[:split]).relu_()
            hidden[split:-1], hidden[-1:] = context, one
        hidden = (torch.cat([self.second.weight, self.second.bias[:, None]], 1) @ hidden).relu_()
        rows = 1 + CONTEXT if tells else 1
        values = torch.addmm(self.last.bias[:rows, None], self.last.weight[:rows], hidden)
        # Where all pixels are alike, all would be peaks.
        return F.threshold(base, _FAINT, 3 * FLAT).add_(values[0]).clamp_(min=2 * FLAT), values[1:]

    def of_pyramid(
        self, pyramid: Sequence[Tensor], looks: Sequence[tuple[Tensor, Tensor]] | None = None
    ) -> list[Tensor]:
        """Score each pixel of all levels, (N, h, w) each; ``looks`` are the invariants of the levels where they are known."""
        scores, told = list(pyramid), dict[int, Tensor]()
        for number, level in reversed(list(enumerate(pyramid))):
            count, height, width = level.shape
            context = level.new_zeros(CONTEXT, count, height, width)
            if number + 2 in told:
                context = resize(told.pop(number + 2).flatten(0, 1), (height, width)).view_as(context)
            if looks is not None:
                found, base = looks[number]
                score, tells = self(found.flatten(1), base.flatten(), context.flatten(1))
                scores[number], tells = score.view_as(level), tells.view_as(context)
            else:
                scores[number], tells = self._of_level(level, context, number >= 2)
            if number >= 2:
                told[number] = blur(tells.flatten(0, 1), _AROUND).view_as(context)
        return scores

    def _of_level(self, level: Tensor, context: Tensor, tells: bool) -> tuple[Tensor, Tensor]:
        """Score the pixels of a level; on a CPU in bands of rows, one for each core or more."""
        height, width = level.shape[1:]
        score, told = torch.empty_like(level), level.new_empty(CONTEXT if tells else 0, *level.shape)
        if level.device.type != "cpu":
            self._of_rows(_Surroundings.of(level), context, score, told)
            return score, told
        bands = max(torch.get_num_threads(), level[0].numel() // _BAND)
        rows = max(_REACH, -(-height // bands) + 3 & -4)
        size = max(1, _CHUNK // width)

        def work(top: int) -> None:
            start = max(0, top - _REACH)
            around = _Surroundings.of(level[:, start : top + rows + _REACH])
            for first in range(top, min(height, top + rows), size):
                own = slice(first, min(height, top + rows, first + size))
                some = around.rows(own.start - start, own.stop - start)
                self._of_rows(some, context[:, :, own], score[:, own], told[:, :, own])

        parallel_map(lambda: without_gradients(work), range(0, height, rows))
        return score, told

    def _of_rows(self, around: _Surroundings, context: Tensor, score: Tensor, told: Tensor) -> None:
        """Write the score of pixels, and what they tell the next level."""
        found, base = around.combine()
        values, tells = self(found.flatten(1), base.flatten(), context.flatten(1), len(told) > 0)
        score.copy_(values.view_as(score))
        told.copy_(tells.view_as(told))


class AngleNetwork(nn.Module):
    """Direction of keypoints from circles around them, by convolutions along the circles.

    A turn of the image moves the values along the circles, and the direction turns with them. The length of the direction,
    at most 1, says how certain it is.

    Shape:
        pyramid (B, h, w) each, image (N,) int64, level (N,) int64, xy (N, 2) in pixels of the images -> directions (N, 2).
    """

    directions: Tensor
    radii: Tensor

    def __init__(self, width: int, second: int, radii: Sequence[float] = RADII, reach: int = REACH) -> None:
        super().__init__()
        around = {"kernel_size": reach, "padding": reach // 2, "padding_mode": "circular"}
        options: dict[str, Any] = around
        self.first = nn.Conv1d(len(radii) * len(_CIRCLE_LEVELS), width, **options)
        self.second = nn.Conv1d(width, second, **options)
        self.last = nn.Conv1d(second, 1, **options)
        angle = torch.arange(DIRECTIONS) * (2 * torch.pi / DIRECTIONS)
        self.register_buffer("directions", torch.stack([angle.cos(), angle.sin()], 1), persistent=False)
        self.register_buffer("radii", torch.tensor(radii))

    def forward(self, pyramid: Sequence[Tensor], image: Tensor, level: Tensor, xy: Tensor) -> Tensor:
        blurred = [blur(each, 1.0) for each in pyramid]
        if xy.device.type != "cpu" or torch.is_grad_enabled():
            return self.read(self._chances(blurred, image, level, xy))
        parts = [each.split(_KEYPOINTS) for each in (image, level, xy)]
        return torch.cat(
            parallel_map(
                lambda: without_gradients(lambda part: self.read(self._chances(blurred, *part))),
                list(zip(*parts, strict=True)),
            )
        )

    def chances(self, pyramid: Sequence[Tensor], image: Tensor, level: Tensor, xy: Tensor) -> Tensor:
        """Return the probability of each of the directions, (N, DIRECTIONS)."""
        return self._chances([blur(each, 1.0) for each in pyramid], image, level, xy)

    def _chances(self, blurred: Sequence[Tensor], image: Tensor, level: Tensor, xy: Tensor) -> Tensor:
        values = _read_circles(blurred, image, level, xy, self.radii).flatten(1, 2)
        values = values - values.mean((1, 2), keepdim=True)
        values = values / (values.square().mean((1, 2), keepdim=True).sqrt() + _FADED)
        return self.last(F.relu(self.second(F.relu(self.first(values)))))[:, 0].softmax(1)

    def read(self, chances: Tensor) -> Tensor:
        """Return the mean direction around the most likely one, (N, 2): between two likely ones lies none."""
        cosine = self.directions @ self.directions.T
        best = (chances @ nearness(cosine, WITHIN)).argmax(1)
        return (chances * nearness(cosine, 1.4 * WITHIN)[best]) @ self.directions


def _read_circles(pyramid: Sequence[Tensor], image: Tensor, level: Tensor, xy: Tensor, radii: Tensor) -> Tensor:
    """Read images on circles around keypoints, in several levels: (N, levels, radii, DIRECTIONS) gray values."""
    device, (height, width) = xy.device, pyramid[0].shape[1:]
    angle = torch.arange(DIRECTIONS, device=device) * (2 * math.pi / DIRECTIONS)
    wanted = level[:, None] + torch.tensor(_CIRCLE_LEVELS).to(device)
    number = wanted.clamp(max=len(pyramid) - 1)
    missing = torch.exp2((wanted - number) / 2)  # beyond the coarsest level
    radius = missing[:, :, None] * radii
    if device.type == "cpu" and len(pyramid[0]) == 1:
        return _read_circles_of_image(pyramid, number, xy, radius, angle)
    # All levels in one buffer, so that the circles of all keypoints are read at once.
    pixels = torch.cat([each.flatten() for each in pyramid])
    sizes = torch.tensor([each.shape[1:] for each in pyramid])
    starts = torch.tensor([0, *itertools.accumulate(each.numel() for each in pyramid)][:-1])
    table = torch.cat([starts[:, None], sizes], 1).to(device)
    start, rows, columns = table[number].unbind(2)
    corner, parts = start + image[:, None] * rows * columns, []
    for axis, turned, size, whole in ((0, angle.cos(), columns, width), (1, angle.sin(), rows, height)):
        center = (xy[:, axis, None] + 0.5) * (size / whole) - 0.5
        place = center[:, :, None, None] + radius[..., None] * turned
        last = (size - 1)[:, :, None, None]
        place = place.abs()
        parts.append(torch.minimum(torch.minimum(place, 2 * last - place).clamp(min=0), last - 1e-3))
    x, y = parts
    left, top = x.floor(), y.floor()
    dx, dy = x - left, y - top
    stride = columns[:, :, None, None]
    first = corner[:, :, None, None] + top.long() * stride + left.long()
    above = torch.lerp(pixels[first], pixels[first + 1], dx)
    below = torch.lerp(pixels[first + stride], pixels[first + stride + 1], dx)
    return torch.lerp(above, below, dy)


def _read_circles_of_image(
    pyramid: Sequence[Tensor], number: Tensor, xy: Tensor, radius: Tensor, angle: Tensor
) -> Tensor:
    """The same of a single image, level by level; OpenCV reads it many times faster."""
    (height, width), found = pyramid[0].shape[1:], radius.new_empty(*radius.shape, len(angle))
    for each in number.unique().tolist():
        chosen, pixels = number == each, pyramid[each][0]
        rows, around = chosen.nonzero()[:, 0], radius[chosen]
        x = (xy[rows, 0] + 0.5) * (pixels.shape[1] / width) - 0.5
        y = (xy[rows, 1] + 0.5) * (pixels.shape[0] / height) - 0.5
        x = x[:, None, None] + around[..., None] * angle.cos()
        y = y[:, None, None] + around[..., None] * angle.sin()
        found[chosen] = read_places(pixels, x.flatten(1), y.flatten(1)).view_as(x)
    return found


def nearness(cosine: Tensor, within: float) -> Tensor:
    """How near directions are to each other, in (0, 1], from the cosine between them; ``within`` radians are near."""
    return torch.exp((cosine - 1) / within**2)


class KeypointNetworks(nn.Module):
    """What the detector `learned` has learned: a score of pixels and an angle of keypoints."""

    def __init__(self, widths: Sequence[int] = WIDTHS, radii: Sequence[float] = RADII, reach: int = REACH) -> None:
        super().__init__()
        self.score = ScoreNetwork(widths[0], widths[1])
        self.angle = AngleNetwork(widths[2], widths[3], radii, reach)


@functools.cache
def load_networks(path: str | Path = WEIGHTS, device: torch.device | str = "cpu") -> KeypointNetworks:
    """Load networks of any widths that ``patchprint train detector`` wrote; by default those of the package."""
    if not Path(path).is_file():
        raise UserError(f"{path} is not there; give weights that patchprint train detector wrote")
    with parsing(path, "weights of a detector"):
        state = load_file(path)
        widths = [len(state[f"{part}.{layer}.bias"]) for part in ("score", "angle") for layer in ("first", "second")]
        networks = KeypointNetworks(widths, state["angle.radii"].tolist(), state["angle.first.weight"].shape[2])
        networks.load_state_dict(state)
    return networks.eval().requires_grad_(False).to(device)
