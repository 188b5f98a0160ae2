"""Small benchmark data made on the spot: textured pictures, sequences with homographies, patch stores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cv2
import numpy as np

from patchprint.benchmarks import BENCHMARKS, PredictionCache, Run
from patchprint.features.model import ModelLike, load
from patchprint.patches import PatchStore

HOMOGRAPHY = np.array([[0.95, 0.12, 8.0], [-0.1, 0.97, 14.0], [1e-4, -5e-5, 1.0]])


def run_of(
    benchmark: str,
    model: ModelLike,
    *data: Path,
    cache: PredictionCache | None = None,
    skip_bad: bool = False,
    **settings: Any,
) -> Run:
    """One model on one data set, with settings given by name."""
    chosen = BENCHMARKS[benchmark]()
    kept = cache or PredictionCache(None)
    return Run(chosen, chosen.settings(**settings), load(model), data, cache=kept, skip_bad=skip_bad)


def scores_of(benchmark: str, model: ModelLike, *data: Path, **settings: Any) -> dict[str, Any]:
    """The scores of `run_of`."""
    run = run_of(benchmark, model, *data, **settings)
    return run.benchmark.evaluate(run, run.settings)


def texture(height: int, width: int, seed: int = 0) -> np.ndarray:
    """Noise at three scales, uint8 (H, W): full of blobs."""
    rng = np.random.default_rng(seed)
    total = np.zeros((height, width))
    for sigma in (2, 4, 8):
        layer = cv2.GaussianBlur(rng.normal(size=(height, width)), (0, 0), sigma)
        total += layer / layer.std()
    return np.clip(128 + 40 * total, 0, 255).astype(np.uint8)


def write_sequence(folder: Path, images: int = 3, seed: int = 0, side: int = 160) -> None:
    """An Oxford-style folder: img1.png is a texture, the others are warped by growing powers of one homography."""
    folder.mkdir(parents=True)
    image = texture(side, side + 20, seed)
    cv2.imwrite(str(folder / "img1.png"), image)
    for number in range(2, images + 1):
        homography = np.linalg.matrix_power(HOMOGRAPHY, number - 1)
        warped = cv2.warpPerspective(image, homography, image.shape[::-1], flags=cv2.INTER_CUBIC)
        cv2.imwrite(str(folder / f"img{number}.png"), warped)
        np.savetxt(folder / f"H1to{number}p", homography)


def write_store(
    folder: Path, scenes: int = 2, points: int = 30, views: int = 4, size: int = 32, noise: float = 12.0
) -> None:
    """A PatchStore whose views of a point differ by noise alone; scenes are called i_0, v_1, i_2 ..."""
    rng = np.random.default_rng(0)
    clean = np.stack([texture(size, size, seed) for seed in range(scenes * points)])
    noisy = clean[:, None] + rng.normal(0, noise, (scenes * points, views, size, size))
    patches = np.clip(noisy, 0, 255).astype(np.uint8).reshape(-1, size, size)
    point = np.repeat(np.arange(scenes * points), views)
    names = [f"{'iv'[scene % 2]}_{scene}" for scene in range(scenes)]
    PatchStore.write(folder, [patches], point, point // points, names, patch_scale=12.0)


def write_room(folder: Path, views: int = 4, height: int = 240, width: int = 320, focal: float = 280.0) -> None:
    """Photos of the corner of a room, z = 5 - |x| / 2, with Strecha-style files of the true cameras."""
    (folder / "images").mkdir(parents=True)
    (folder / "gt_dense_cameras").mkdir()
    walls = [texture(1000, 1000, seed=side) for side in (1, 2)]
    intrinsics = np.array([[focal, 0, (width - 1) / 2], [0, focal, (height - 1) / 2], [0, 0, 1.0]])
    np.savetxt(folder / "K.txt", intrinsics)
    pixels = np.stack(np.meshgrid(np.arange(width), np.arange(height), indexing="xy"), -1)
    rays = np.concatenate([pixels, np.ones((height, width, 1))], -1) @ np.linalg.inv(intrinsics).T
    for view in range(views):
        turn = cv2.Rodrigues(np.array([0.01 * view, -0.05 * (view - 1.5), 0.02 * view]))[0]  # camera to world
        center = np.array([0.35 * (view - 1.5), 0.1 * (view % 2), 0.05 * view])
        name = f"{view:04d}.png"
        cv2.imwrite(str(folder / "images" / name), _render_corner(rays @ turn.T, center, walls))
        rows = [*intrinsics, [0, 0, 0], *turn, center, [width, height]]
        text = "\n".join(" ".join(repr(float(value)) for value in row) for row in rows)
        (folder / "gt_dense_cameras" / f"{name}.camera").write_text(text)


def _render_corner(directions: np.ndarray, center: np.ndarray, walls: list[np.ndarray]) -> np.ndarray:
    depths, colors = [], []
    for side, wall in zip((-1.0, 1.0), walls, strict=True):
        # Along centre + t * direction the wall z + side * x / 2 = 5 is met at:
        t = (5 - center[2] - side * center[0] / 2) / (directions[..., 2] + side * directions[..., 0] / 2)
        point = center + t[..., None] * directions
        uv = (point[..., :2] * 90 + 500).astype(np.float32)
        depths.append(t)
        colors.append(cv2.remap(wall, uv[..., 0], uv[..., 1], cv2.INTER_CUBIC, borderMode=cv2.BORDER_REFLECT))
    return np.where(depths[0] < depths[1], *colors)
