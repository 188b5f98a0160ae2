"""Write the conformance corpus: images with the keypoints, patches and descriptors that every implementation must find.

python -m tools.conformance            write docs/conformance/, which docs/conventions.md describes
"""

import json
from pathlib import Path

import cv2
import numpy as np
import torch

import patchprint
from patchprint.common.files import write_json, write_text
from patchprint.common.types import Keypoints
from patchprint.detectors import detect
from patchprint.features import load
from patchprint.ops.sampling import ImagePyramids, cut_patches

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "conformance"
MODEL, KEYPOINTS, SEED = "patchprint.tiny", 12, 0
LARGEST = 65535  # of the 16-bit pixels that patches are stored in
# What may be off: pixels, parts of the scale, radians, gray values in [0, 1] (mean of a patch), components of unit vectors; an
# implementation that rounds patches to 8 bits has descriptors with at least this cosine to the expected ones.
TOLERANCES = {
    "position": 0.01,
    "scale": 0.01,
    "angle": 0.01,
    "patch": 0.005,
    "descriptor": 0.002,
    "cosine_8_bit": 0.995,
}


def main() -> None:
    model = load(MODEL, engine="float32")
    FOLDER.mkdir(exist_ok=True)
    for name, image in images().items():
        keypoints = detect(image, "dog", max_keypoints=KEYPOINTS)
        patches = cut_patches(ImagePyramids.build([image]), 0, keypoints, model.patch_scale, model.input_size)
        write_pgm(FOLDER / f"{name}.pgm", image)
        write_pgm(FOLDER / f"{name}.patches.pgm", (patches.flatten(0, 2).numpy() * LARGEST).round().astype(np.uint16))
        write_text(FOLDER / f"{name}.keypoints.csv", keypoint_table(keypoints))
        write_text(FOLDER / f"{name}.descriptors.csv", table(model.describe_patches(patches)))
    about = {
        "model": {"name": model.info.name, "sha256": model.info.sha256},
        "patch_scale": model.patch_scale,
        "input_size": model.input_size,
        "detector": {"name": "dog", "max_keypoints": KEYPOINTS},
        "images": list(images()),
        "tolerances": TOLERANCES,
        "made": {"command": "python -m tools.conformance", "version": patchprint.__version__, "seed": SEED},
    }
    write_json(FOLDER / "corpus.json", about)


def images() -> dict[str, np.ndarray]:
    """Create the images, uint8 (H, W): blobs between pixels, a texture, and the texture turned by 30 degrees."""
    rows, columns = np.mgrid[:160, :200].astype(float)
    blobs = 110 + 0.15 * columns
    for x, y, sigma, height, degrees in (
        (40.25, 40.5, 2.5, 80, 20),
        (120.5, 50.75, 5, -80, 110),
        (70, 115.3, 8, 80, 200),
        (160.6, 110, 3.5, 80, 290),
        (25.1, 130.2, 3, -80, 75),
    ):
        dx, dy, turn = columns - x, rows - y, np.radians(degrees)
        square, ramp = (dx**2 + dy**2) / sigma**2, (np.cos(turn) * dx + np.sin(turn) * dy) / sigma
        blobs += height * (np.exp(-square / 2) + 0.25 * ramp * np.exp(-square / 18))  # the ramp gives it an angle
    rng = np.random.default_rng(SEED)
    layers = [cv2.GaussianBlur(rng.normal(size=(160, 200)), (0, 0), sigma) for sigma in (2, 4, 8)]
    texture = np.clip(128 + 40 * sum(layer / layer.std() for layer in layers), 0, 255).astype(np.uint8)
    matrix = cv2.getRotationMatrix2D((99.5, 79.5), -30, 1)  # OpenCV turns from x towards -y
    turned = cv2.warpAffine(texture, matrix, (200, 160), flags=cv2.INTER_CUBIC, borderValue=128.0)
    return {"blobs": np.rint(np.clip(blobs, 0, 255)).astype(np.uint8), "texture": texture, "turned": turned}


def read_corpus(name: str) -> tuple[np.ndarray, Keypoints, torch.Tensor, torch.Tensor]:
    """Read an image, its keypoints, patches (N, 1, S, S) in [0, 1] and descriptors (N, D)."""
    about = json.loads((FOLDER / "corpus.json").read_text(encoding="utf-8"))
    x, y, scale, angle, score = np.loadtxt(FOLDER / f"{name}.keypoints.csv", delimiter=",", skiprows=1).T
    pixels = cv2.imread(str(FOLDER / f"{name}.patches.pgm"), cv2.IMREAD_UNCHANGED)
    image = cv2.imread(str(FOLDER / f"{name}.pgm"), cv2.IMREAD_UNCHANGED)
    assert pixels is not None
    assert image is not None
    patches = torch.from_numpy(pixels.astype(np.float32) / LARGEST)
    descriptors = np.loadtxt(FOLDER / f"{name}.descriptors.csv", delimiter=",", dtype=np.float32)
    size = about["input_size"]
    keypoints = Keypoints(np.stack([x, y], 1), scale, angle, score)
    return image, keypoints, patches.view(-1, 1, size, size), torch.from_numpy(descriptors)


def keypoint_table(keypoints: Keypoints) -> str:
    """A table of keypoints in the order of their scores."""
    assert keypoints.score is not None
    values = torch.cat([keypoints.xy, torch.stack([keypoints.scale, keypoints.angle, keypoints.score], 1)], 1)
    return "x,y,scale,angle,score\n" + table(values)


def table(values: torch.Tensor) -> str:
    """Rows of numbers with seven digits behind the point."""
    return "".join(",".join(f"{number:.7f}" for number in row) + "\n" for row in values.tolist())


def write_pgm(path: Path, pixels: np.ndarray) -> None:
    done, data = cv2.imencode(".pgm", pixels)
    assert done
    path.write_bytes(data.tobytes())


if __name__ == "__main__":
    main()
