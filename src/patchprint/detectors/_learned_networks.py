"""The networks of the detector `learned`: a score of pixels and an angle of keypoints, both unchanged when the image turns.

The score sees rotation-invariant combinations of derivatives alone, the angle is read from circles around the keypoint by a
network that treats all directions alike. So neither has to learn rotation, and a few thousand parameters are enough. All of it
takes batches of images of one size on any device.
"""

import functools
import itertools
import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import Tensor, nn

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
class _Derivatives:
    """Derivatives by sigma, structure tensors of the finest sigmas, and the contrast around, all (N, H, W) or all (M,)."""

    first: list[tuple[Tensor, ...]]
    second: list[tuple[Tensor, ...]]
    structure: list[tuple[Tensor, ...]]
    contrast: Tensor

    @staticmethod
    def of(levels: Tensor) -> "_Derivatives":
        blurred = [blur(levels, _SIGMAS[0])]
        for fine, coarse in itertools.pairwise(_SIGMAS):
            blurred.append(blur(blurred[-1], (coarse**2 - fine**2) ** 0.5))
        first: list[tuple[Tensor, ...]] = []
        second: list[tuple[Tensor, ...]] = []
        for sigma, part in zip(_SIGMAS, blurred, strict=True):
            once, twice = ([sigma * each for each in DIFFERENCE], [sigma**2 * each for each in SECOND_DIFFERENCE])
            first.append((separable(part, once, ACROSS), separable(part, ACROSS, once)))
            along = (separable(part, twice, ACROSS_SECOND), separable(part, ACROSS_SECOND, twice))
            second.append((*along, separable(part, once, once)))
        structure: list[tuple[Tensor, ...]] = [
            tuple(blur(product, 1.5 * sigma) for product in (dx * dx, dy * dy, dx * dy))
            for (dx, dy), sigma in zip(first[:_WINDOWED], _SIGMAS, strict=False)
        ]
        dx, dy = first[1]
        return _Derivatives(first, second, structure, _mean_around((dx * dx).addcmul_(dy, dy)))

    def map(self, work: Callable[[Tensor], Tensor]) -> "_Derivatives":
        def each(planes: list[tuple[Tensor, ...]]) -> list[tuple[Tensor, ...]]:
            return [tuple(map(work, group)) for group in planes]

        return _Derivatives(each(self.first), each(self.second), each(self.structure), work(self.contrast))

    def combine(self) -> tuple[Tensor, Tensor]:
        """Return the invariants, (INVARIANTS, ...), and the score that the network corrects."""
        contrast, place = self.contrast + _DARK, itertools.count()
        found = torch.empty((INVARIANTS, *contrast.shape), device=contrast.device)
        square = 1 / contrast
        single = square.sqrt()
        base = contrast
        for number, ((dx, dy), (xx, yy, xy)) in enumerate(zip(self.first, self.second, strict=True)):
            across, along, product = dx * dx, dy * dy, dx * dy
            log_(torch.add(across, along, out=found[next(place)]).mul_(square).add_(0.02))
            _bound((xx + yy).mul_(single), found[next(place)])
            _bound((xx * yy).addcmul_(xy, xy, value=-1).mul_(square), found[next(place)])
            curvature = across.mul_(yy).addcmul_(product, xy, value=-2).addcmul_(along, xx)
            _bound(curvature.mul_(square).mul_(single), found[next(place)])
            if number < _WINDOWED:
                smaller, larger = _eigenvalues(*self.structure[number])
                log_(torch.mul(smaller, square, out=found[next(place)]).add_(0.01))
                log_(torch.mul(larger, square, out=found[next(place)]).add_(0.01))
                base = base if number else log_(smaller.add_(0.01)).mul_(0.5)
        log_(found[next(place)].copy_(contrast)).mul_(0.3)
        return found, base


def invariants(levels: Tensor) -> tuple[Tensor, Tensor]:
    """What the score network sees of the pixels of a level, and the score that it corrects.

    These are magnitudes of gradients, trace and determinant of the Hessian, curvature of the level lines, and eigenvalues of
    the structure tensor, all in units of the contrast around, and that contrast; the score is the logarithm of the
    smaller eigenvalue (Shi and Tomasi's).

    Shape:
        (N, H, W) -> (INVARIANTS, N, H, W), (N, H, W).
    """
    return _Derivatives.of(levels).combine()


def _bound(values: Tensor, out: Tensor) -> None:
    torch.div(values, torch.abs(values, out=out).add_(1), out=out)


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
        invariants (INVARIANTS, M), base (M,), context (CONTEXT, M) -> score (M,), context for the next level (CONTEXT, M).
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
        # Pixels are the columns: transposed, these products take four times as long.
        weight, split = self.first.weight / self.spread, self.first.out_features
        bias = (self.first.bias - weight @ self.center)[:, None]
        if torch.is_grad_enabled():
            hidden = torch.cat([torch.addmm(bias, weight, found).relu_(), context])
        else:  # without a copy
            hidden = found.new_empty(split + CONTEXT, found.shape[1])
            torch.addmm(bias, weight, found, out=hidden[:split]).relu_()
            hidden[split:] = context
        hidden = torch.addmm(self.second.bias[:, None], self.second.weight, hidden).relu_()
        rows = 1 + CONTEXT if tells else 1
        values = torch.addmm(self.last.bias[:rows, None], self.last.weight[:rows], hidden)
        # Where all pixels are alike, all would be peaks.
        return (values[0] + base).masked_fill(base < _FAINT, 2 * FLAT), values[1:]

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
        """Score the pixels of a level; large ones on a CPU in bands of rows, whose derivatives stay in the cache."""
        rows = max(_REACH, _BAND // level.shape[2] // 4 * 4)
        if level.device.type != "cpu" or rows >= level.shape[1]:
            return self._of_band(_Derivatives.of(level), context, tells)
        parts = []
        for top in range(0, level.shape[1], rows):
            start, end = max(0, top - _REACH), min(level.shape[1], top + rows)
            own = slice(top - start, end - start)
            derivatives = _Derivatives.of(level[:, start : end + _REACH]).map(operator.itemgetter((slice(None), own)))
            parts.append(self._of_band(derivatives, context[:, :, top:end], tells))
        score, told = (torch.cat(part, -2) for part in zip(*parts, strict=True))
        return score, told

    def _of_band(self, derivatives: _Derivatives, context: Tensor, tells: bool) -> tuple[Tensor, Tensor]:
        """Score pixels by their derivatives, on a CPU in chunks that fit into the cache."""
        shape, flat, around = derivatives.contrast.shape, derivatives.map(torch.Tensor.flatten), context.flatten(1)
        pixels = around.shape[1]
        score, told = flat.contrast.new_empty(pixels), flat.contrast.new_empty(CONTEXT if tells else 0, pixels)
        chunk = _CHUNK if around.device.type == "cpu" else pixels
        for first in range(0, pixels, chunk):
            some = slice(first, first + chunk)
            part = flat.map(operator.itemgetter(some))
            score[some], told[:, some] = self(*part.combine(), around[:, some], tells)
        return score.view(shape), told.view(-1, *shape)


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
        return self.read(self.chances(pyramid, image, level, xy))

    def chances(self, pyramid: Sequence[Tensor], image: Tensor, level: Tensor, xy: Tensor) -> Tensor:
        """Return the probability of each of the directions, (N, DIRECTIONS)."""
        values = _read_circles(pyramid, image, level, xy, self.radii).flatten(1, 2)
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
    pixels = torch.cat([blur(each, 1.0).flatten() for each in pyramid])
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
        chosen, pixels = number == each, blur(pyramid[each], 1.0)[0]
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
