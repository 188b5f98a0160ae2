"""``patchprint localize IMAGE MODEL``: the camera pose of an image in a model of ``patchprint sfm``."""

from pathlib import Path

import tyro

from patchprint.cli import emit
from patchprint.pipelines.localization import NEIGHBORS, localize


def main(
    image: tyro.conf.Positional[Path],
    model: tyro.conf.Positional[Path],
    neighbors: int = NEIGHBORS,
    device: str = "auto",
    seed: int = 0,
) -> int:
    """Estimate the camera pose of an image in a model of patchprint sfm. Nothing is written.

    Args:
        image: the image
        model: output folder of patchprint sfm
        neighbors: number of most similar images of the model to match it with
        device: auto, cpu, cuda or mps
        seed: seed of everything random
    """
    found = localize(image, model, neighbors=neighbors, device=device, seed=seed)
    result = found.to_json()
    center, quaternion = (" ".join(f"{value:.4f}" for value in result[key]) for key in ("center", "quaternion_wxyz"))
    text = (
        f"{image}: camera at ({center}), quaternion w x y z ({quaternion}), world to camera; "
        f"{found.inliers} of {found.matches} matches with points of the model agree"
    )
    emit(result, text)
    return 0
