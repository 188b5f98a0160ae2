"""The image of the README: a stereo pair whose second image is turned and tilted, matched by SIFT and by our default model.

    python -m perf.experiments.hard_pair --out results/experiments/hard-pair.json --drawing docs/hard-pair.jpg

The images are scikit-image's ``stereo_motorcycle`` (Middlebury 2014), whose true disparities and the known warp say which
matches are correct. Both descriptors describe the same keypoints and are matched with the defaults of ``patchprint match``.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from patchprint.common import provenance
from patchprint.common.errors import require
from patchprint.common.files import write_json
from patchprint.features.extract import extract
from patchprint.matching import match

MODELS = ("sift", "patchprint")
TURN, TILT, SCALE = 150.0, 65.0, 0.9  # degrees, degrees, pixels a pixel
CAMERA_DISTANCE = 1400.0  # pixels from the tilted plane
TOLERANCE = 3.0  # pixels
CORRECT, WRONG = (80, 190, 60), (60, 70, 210)  # BGR


def tilted_view(image: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The image as a plane seen at an angle, turned in the image plane; and its homography (3, 3)."""
    height, width = image.shape[:2]
    turn, tilt = np.deg2rad(TURN), np.deg2rad(TILT)
    center = np.array([[1, 0, -width / 2], [0, 1, -height / 2], [0, 0, 1]])
    slant = np.diag([SCALE, SCALE * np.cos(tilt), 1])
    slant[2, 1] = SCALE * np.sin(tilt) / CAMERA_DISTANCE
    rotation = np.array([[np.cos(turn), -np.sin(turn), 0], [np.sin(turn), np.cos(turn), 0], [0, 0, 1]])
    homography = rotation @ slant @ center
    corners = cv2.perspectiveTransform(
        np.array([[[0, 0], [width, 0], [width, height], [0, height]]], float), homography
    )
    low, high = corners[0].min(axis=0), corners[0].max(axis=0)
    homography = np.array([[1, 0, -low[0]], [0, 1, -low[1]], [0, 0, 1]]) @ homography
    size = (int(np.ceil(high[0] - low[0])), int(np.ceil(high[1] - low[1])))
    return cv2.warpPerspective(image, homography, size, flags=cv2.INTER_AREA), homography


def are_correct(in_a: np.ndarray, in_b: np.ndarray, disparity: np.ndarray, homography: np.ndarray) -> np.ndarray:
    """Which matches (M, 2), (M, 2) agree with the true geometry; points without a disparity do not."""
    column, row = in_a.round().astype(int).T
    shifted = in_a - np.stack([disparity[row, column], np.zeros(len(in_a))], axis=1)
    expected = cv2.perspectiveTransform(shifted[None].astype(float), homography)[0] if len(in_a) else in_b
    return np.linalg.norm(expected - in_b, axis=1) < TOLERANCE


def match_and_draw(images: tuple[np.ndarray, np.ndarray], model: str, judge: Any) -> tuple[dict[str, int], np.ndarray]:
    """Counts of matches, and both images with a line for each match, wrong ones below."""
    a, b = (extract(image, model) for image in images)
    indices = match(a, b).indices
    in_a, in_b = a.keypoints.xy[indices[:, 0]].numpy(), b.keypoints.xy[indices[:, 1]].numpy()
    correct = judge(in_a, in_b)
    height = max(image.shape[0] for image in images)
    canvas = np.hstack(
        [cv2.copyMakeBorder(image[..., ::-1], 0, height - len(image), 0, 0, cv2.BORDER_CONSTANT) for image in images]
    )
    offset = np.array([images[0].shape[1], 0])
    for i in np.argsort(correct):
        start, end = (np.round(point).astype(int).tolist() for point in (in_a[i], in_b[i] + offset))
        cv2.line(canvas, start, end, CORRECT if correct[i] else WRONG, 1, cv2.LINE_AA)
    counts = {"matches": len(indices), "correct": int(correct.sum()), "keypoints": min(len(a), len(b))}
    text = f"{model}: {counts['correct']} of {counts['matches']} matches correct"
    cv2.rectangle(canvas, (0, 0), (30 + 17 * len(text), 44), (0, 0, 0), -1)
    cv2.putText(canvas, text, (14, 31), cv2.FONT_HERSHEY_SIMPLEX, 0.9, (255, 255, 255), 2, cv2.LINE_AA)
    return counts, canvas


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="file of numbers (.json)")
    parser.add_argument("--drawing", type=Path, required=True, help="drawing of the matches (.jpg)")
    arguments = parser.parse_args()
    left, right, disparity = require("skimage.data", extra="eval").stereo_motorcycle()
    turned, homography = tilted_view(right)
    scores, panels = {}, []
    for model in MODELS:
        scores[model], panel = match_and_draw(
            (left, turned), model, lambda in_a, in_b: are_correct(in_a, in_b, disparity, homography)
        )
        panels.append(panel)
    result = provenance.record(
        "hard-pair",
        settings={"turn": TURN, "tilt": TILT, "scale": SCALE, "tolerance_px": TOLERANCE},
        data={"name": "scikit-image stereo_motorcycle"},
        scores=scores,
    )
    write_json(arguments.out, result.to_json())
    picture = cv2.resize(np.vstack(panels), None, fx=0.75, fy=0.75, interpolation=cv2.INTER_AREA)
    arguments.drawing.write_bytes(cv2.imencode(".jpg", picture, [cv2.IMWRITE_JPEG_QUALITY, 82])[1].tobytes())
    print(scores)


if __name__ == "__main__":
    main()
