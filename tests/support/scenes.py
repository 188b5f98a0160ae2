"""Photos of made-up scenes: a textured plane under known homographies, and the corner of a room seen by known cameras."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np

from patchprint.common.types import Features, Pose
from support.known_images import texture

HOMOGRAPHY = np.array([[0.95, 0.12, 8.0], [-0.1, 0.97, 14.0], [1e-4, -5e-5, 1.0]])
MatchedViews = tuple[Path, dict[str, Features], dict[tuple[str, str], np.ndarray]]
"""A folder of photos, their features by name, and matches by pairs of names."""

LAYOUTS = {"oxford": ("img{}.png", "H1to{}p"), "hpatches": ("{}.ppm", "H_1_{}")}


def write_sequence(folder: Path, images: int = 3, seed: int = 0, side: int = 160, layout: str = "oxford") -> None:
    """The first image is a texture, the others are warped by growing powers of one homography."""
    folder.mkdir(parents=True)
    name, homography_name = LAYOUTS[layout]
    image = texture(side, side + 20, seed)
    if layout == "hpatches":  # PPM is a format of color images
        image = cv2.merge([image] * 3)
    cv2.imwrite(str(folder / name.format(1)), image)
    for number in range(2, images + 1):
        homography = np.linalg.matrix_power(HOMOGRAPHY, number - 1)
        warped = cv2.warpPerspective(image, homography, (side + 20, side), flags=cv2.INTER_CUBIC)
        cv2.imwrite(str(folder / name.format(number)), warped)
        np.savetxt(folder / homography_name.format(number), homography)


@dataclass(frozen=True)
class Room:
    """The corner of a room, z = 5 - |x| / 2, with other wallpaper on each side; photographed along an arc."""

    views: int = 4
    height: int = 240
    width: int = 320
    focal: float = 280.0

    @property
    def intrinsics(self) -> np.ndarray:
        return np.array([[self.focal, 0, (self.width - 1) / 2], [0, self.focal, (self.height - 1) / 2], [0, 0, 1.0]])

    def photos(self) -> Iterator[tuple[np.ndarray, Pose]]:
        """Every photo with its camera."""
        walls = [texture(1000, 1000, seed=side) for side in (1, 2)]
        pixels = np.stack(np.meshgrid(np.arange(self.width), np.arange(self.height), indexing="xy"), -1)
        rays = np.concatenate([pixels, np.ones((self.height, self.width, 1))], -1) @ np.linalg.inv(self.intrinsics).T
        for view in range(self.views):
            turn = cv2.Rodrigues(np.array([0.01 * view, -0.05 * (view - 1.5), 0.02 * view]))[0]  # camera to world
            center = np.array([0.35 * (view - 1.5), 0.1 * (view % 2), 0.05 * view])
            yield _render_corner(rays @ turn.T, center, walls), Pose(turn.T, center)

    def write(self, folder: Path, pattern: str = "view-{}.png") -> list[str]:
        """The photos alone; returns their names."""
        folder.mkdir(parents=True, exist_ok=True)
        names = [pattern.format(view) for view in range(self.views)]
        for name, (image, _) in zip(names, self.photos(), strict=True):
            cv2.imwrite(str(folder / name), image)
        return names

    def write_with_cameras(self, folder: Path) -> None:
        """The photos with files of the true cameras, as Strecha et al. publish them."""
        (folder / "images").mkdir(parents=True)
        (folder / "gt_dense_cameras").mkdir()
        np.savetxt(folder / "K.txt", self.intrinsics)
        for view, (image, pose) in enumerate(self.photos()):
            name = f"{view:04d}.png"
            cv2.imwrite(str(folder / "images" / name), image)
            rows = [*self.intrinsics, [0, 0, 0], *pose.rotation.T, pose.center, [self.width, self.height]]
            text = "\n".join(" ".join(repr(float(value)) for value in row) for row in rows)
            (folder / "gt_dense_cameras" / f"{name}.camera").write_text(text)


def _render_corner(directions: np.ndarray, center: np.ndarray, walls: list[np.ndarray]) -> np.ndarray:
    depths, colors = [], []
    for side, wall in zip((-1.0, 1.0), walls, strict=True):
        # Along center + t * direction the wall z + side * x / 2 = 5 is met at:
        t = (5 - center[2] - side * center[0] / 2) / (directions[..., 2] + side * directions[..., 0] / 2)
        point = center + t[..., None] * directions
        uv = (point[..., :2] * 90 + 500).astype(np.float32)
        depths.append(t)
        colors.append(cv2.remap(wall, uv[..., 0], uv[..., 1], cv2.INTER_CUBIC, borderMode=cv2.BORDER_REFLECT))
    return np.where(depths[0] < depths[1], *colors)


THREE_VIEWS = Room(views=3, height=360, width=480, focal=430.0)
"""Large enough for COLMAP to start from any two of its photos."""
