"""Photos of a made-up scene with depth: textured walls at right angles, seen by pinhole cameras."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np

from support.known_images import texture

WIDTH, HEIGHT, FOCAL = 480, 360, 430.0


def write_views(folder: Path, count: int = 3, pattern: str = "view {}.png") -> list[str]:
    """``count`` photos of a floor and two walls as PNG; returns their names."""
    folder.mkdir(parents=True, exist_ok=True)
    # Each wall: a corner and two edges in the world; x to the right, y down, z away from the cameras.
    walls = [
        ((-3, -1.5, 6), (4, 0, 2), (0, 3, 0)),
        ((1, -1.5, 8), (3, 0, -3), (0, 3, 0)),
        ((-3, 1.5, 3), (7, 0, 0), (0, 0, 5)),
    ]
    names = []
    for number in range(count):
        turn = 0.14 * (number - (count - 1) / 2)
        rotation = cv2.Rodrigues(np.array([0.0, turn, 0.0]))[0]
        center = np.array([0.9 * (number - (count - 1) / 2), 0.1 * (number % 2), 0.1 * number])
        image = np.full((HEIGHT, WIDTH), 128, np.uint8)
        for seed, (corner, across, down) in enumerate(walls):
            paint = texture(480, 640, seed)
            corners = [
                np.add(corner, s * np.array(across) + t * np.array(down)) for s, t in ((0, 0), (1, 0), (1, 1), (0, 1))
            ]
            seen = (np.array(corners) - center) @ rotation.T
            pixels = seen[:, :2] / seen[:, 2:] * FOCAL + [WIDTH / 2 - 0.5, HEIGHT / 2 - 0.5]
            source = np.float32([[0, 0], [639, 0], [639, 479], [0, 479]])
            warp = cv2.getPerspectiveTransform(source, pixels.astype(np.float32))
            painted = cv2.warpPerspective(paint, warp, (WIDTH, HEIGHT), flags=cv2.INTER_AREA)
            mask = cv2.warpPerspective(np.full_like(paint, 255), warp, (WIDTH, HEIGHT))
            image[mask > 250] = painted[mask > 250]
        names.append(pattern.format(number))
        cv2.imwrite(str(folder / names[-1]), image)
    return names
