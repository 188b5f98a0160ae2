"""Two views of one place with known truth: crops of images, turned, zoomed and tilted, in very different light.

Both crops are of one image, or of two images that show one plane (`planes`): then light, season and camera really differ.
All pairs of a batch are cut at once, on any device.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from patchprint.common import rng
from patchprint.common.errors import UserError
from patchprint.data.augment import change_light
from patchprint.ops.geometry import project, rotation

_FLAT = 8.0  # standard deviation of gray values below which a crop shows nothing
_SMALLEST = 0.45  # times that an image is shrunk at most before it is cut
_TURNED = 0.6  # share of pairs turned by any angle; the others are nearly upright
_RELIT = 0.7  # share of first views in other light
_TRIES = 100
_MIPS = 3  # halved copies of an image from which crops are read


@dataclass(frozen=True, eq=False)
class ImagePair:
    """Two images, uint8 (H, W), the homography (3, 3) from the first to the second, and where it holds in the first."""

    images: tuple[np.ndarray, np.ndarray]
    homography: np.ndarray
    center: np.ndarray | None = None  # (2,); without it the homography holds everywhere
    radius: float = 0.0


@dataclass(frozen=True, eq=False)
class CropPairs:
    """A batch of pairs of crops: the first views, then the second ones.

    Shape:
        views (2 B, S, S) in gray values; homography (B, 3, 3) from the first view to the second; bounds (2 B, 3, 3) and sizes
        (2 B, 2): from a view to its image, and width and height of that; disc (B, 3): center and radius in the first view.
    """

    views: Tensor
    homography: Tensor
    bounds: Tensor
    sizes: Tensor
    disc: Tensor

    def to_other(self) -> Tensor:
        """Return homographies from each view to its partner, (2 B, 3, 3)."""
        return torch.cat([self.homography, torch.linalg.inv(self.homography)])


def draw_crop_pairs(
    draw: Callable[[np.random.Generator], ImagePair],
    seed: Sequence[int],
    count: int,
    side: int,
    device: torch.device | str = "cpu",
) -> CropPairs:
    """Draw pairs of crops of images that are not uniform; ``draw`` returns images."""
    generator = np.random.default_rng(seed)
    placed = [_place(generator, draw, side) for _ in range(count)]
    images = [pair.images[view] for view in (0, 1) for pair, *_ in placed]
    bounds = np.stack([*(place[2] for place in placed), *(place[3] for place in placed)])
    views = _cut(images, bounds, side, device) / 255
    relit = generator.random(count) < _RELIT
    # The light of two photos differs already.
    usual = np.array([0.6 if pair.images[0] is not pair.images[1] else 1.0 for pair, *_ in placed])
    strength = np.concatenate([generator.uniform(0.2, 0.9, count) * relit, generator.uniform(0.3, 1.1, count)])
    strengths = torch.from_numpy(np.tile(usual, 2) * strength).float().to(device)
    key = rng.key(int(generator.integers(1 << 31)), 0, device)
    views = change_light(views[:, None], key, strengths)[:, 0]
    discs = []
    for pair, *_, to_image in placed:
        if pair.center is None:
            discs.append([0.0, 0.0, 1e9])
        else:
            there = project(np.linalg.inv(to_image), pair.center[None])[0]
            discs.append([*there, pair.radius / np.sqrt(abs(np.linalg.det(to_image[:2, :2])))])
    sizes = np.array([image.shape[::-1] for image in images], np.float32)
    homography = np.stack([each for _, each, *_ in placed])
    tensors = (torch.from_numpy(np.asarray(each)).float().to(device) for each in (homography, bounds, sizes, discs))
    return CropPairs((views * 255).round(), *tensors)


def _place(
    generator: np.random.Generator, draw: Callable[[np.random.Generator], ImagePair], side: int
) -> tuple[ImagePair, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Choose images and crops: homography between the crops, and from each crop to its image; the latter once more."""
    for _ in range(_TRIES):
        pair = draw(generator)
        image = pair.images[0]
        # A plane is small and seen at its full resolution, so that it fills much of the crop.
        smallest, largest = (_SMALLEST, 1.0) if pair.center is None else (0.8, 1.25)
        shrink = np.exp(generator.uniform(np.log(smallest), np.log(largest)))
        shrink = max(shrink, (side + 1) / min(image.shape))
        if shrink > 2:
            continue
        reach = side / shrink
        last = np.array([image.shape[1] - reach, image.shape[0] - reach])
        if pair.center is None:
            corner = generator.uniform(0, 1, 2) * last
        else:
            corner = (pair.center + generator.uniform(-0.2, 0.2, 2) * reach - reach / 2).clip(0, last)
        left, top = corner.astype(int)
        if image[top : top + int(reach), left : left + int(reach)].std() > _FLAT:
            break
    else:
        raise UserError(f"the images show nothing in {side} x {side} pixels; give larger ones, or a smaller --side")
    to_image = np.array([[1 / shrink, 0, corner[0]], [0, 1 / shrink, corner[1]], [0, 0, 1.0]])
    homography = _draw_homography(generator, side)
    to_second = pair.homography @ to_image @ np.linalg.inv(homography)
    return pair, homography, to_image, to_second, to_image


def _draw_homography(generator: np.random.Generator, side: int) -> np.ndarray:
    turn = generator.uniform(-np.pi, np.pi) if generator.random() < _TURNED else generator.normal(0, 0.2)
    zoom, stretch = np.exp(generator.uniform(-0.6, 0.6)), np.exp(generator.uniform(-0.35, 0.35))
    direction = generator.uniform(0, np.pi)
    homography = np.eye(3)
    homography[:2, :2] = (
        zoom * rotation(turn) @ rotation(direction) @ np.diag([stretch, 1 / stretch]) @ rotation(-direction)
    )
    homography[2, :2] = generator.uniform(-0.4, 0.4, 2) / side
    to_center, shift = np.eye(3), np.eye(3)
    to_center[:2, 2] = (side - 1) / 2
    shift[:2, 2] = generator.uniform(-0.06, 0.06, 2) * side
    return to_center @ shift @ homography @ np.linalg.inv(to_center)


def _cut(images: Sequence[np.ndarray], to_image: np.ndarray, side: int, device: torch.device | str) -> Tensor:
    """Read crops (N, S, S) by homographies (N, 3, 3) from their pixels to the image's, which repeats its border."""
    height, width = (max(image.shape[axis] for image in images) for axis in (0, 1))
    canvas = torch.zeros(len(images), height, width, dtype=torch.uint8)
    for place, image in zip(canvas, images, strict=True):
        place[: image.shape[0], : image.shape[1]] = torch.from_numpy(image)
    mips = [canvas.to(device).float()[:, None]]
    for _ in range(_MIPS - 1):
        mips.append(F.avg_pool2d(mips[-1], 2))
    pixel = torch.arange(side, device=device, dtype=torch.float32)
    points = torch.stack([pixel[None].expand(side, side), pixel[:, None].expand(side, side)], -1).flatten(0, 1)
    maps = torch.from_numpy(to_image).float().to(device)
    last = torch.tensor([[image.shape[1] - 1, image.shape[0] - 1] for image in images]).float().to(device)
    xy = apply(maps, points.expand(len(images), -1, -1)).clamp(min=0).minimum(last[:, None])
    # Pixels of the image for each of the crop.
    shrunk = linear_part(maps, points.new_full((len(images), 1, 2), (side - 1) / 2))[:, 0].det().abs().sqrt()
    mip = torch.log2(shrunk.clamp(min=1e-3)).round().clamp(0, _MIPS - 1)
    made = torch.zeros(len(images), side, side, device=device)
    for number, pixels in enumerate(mips):
        size = xy.new_tensor([pixels.shape[3], pixels.shape[2]])
        grid = ((xy + 0.5) / 2**number) * 2 / size - 1
        read = F.grid_sample(pixels, grid.view(-1, side, side, 2), padding_mode="border", align_corners=False)[:, 0]
        made = torch.where((mip == number)[:, None, None], read, made)
    return made


def apply(homography: Tensor, xy: Tensor) -> Tensor:
    """Map points by homographies, those beyond the horizon far away: (B, 3, 3), (B, N, 2) -> (B, N, 2)."""
    points = xy @ homography[:, :2, :2].mT + homography[:, None, :2, 2]
    depth = (xy * homography[:, None, 2, :2]).sum(-1, keepdim=True) + homography[:, None, 2, 2:]
    return torch.where(depth > 1e-6, points / depth.clamp(min=1e-6), 1e6)


def linear_part(homography: Tensor, xy: Tensor) -> Tensor:
    """Derivatives of homographies at points: (B, 3, 3), (B, N, 2) -> (B, N, 2, 2)."""
    depth = (xy * homography[:, None, 2, :2]).sum(-1)[..., None, None] + homography[:, None, 2:, 2:]
    ahead = apply(homography, xy)
    return (homography[:, None, :2, :2] - ahead[..., None] * homography[:, None, 2:, :2]) / depth.clamp(min=1e-6)
