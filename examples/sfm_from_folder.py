"""Build a COLMAP model from a folder of images, then read it with pycolmap.

python examples/sfm_from_folder.py IMAGES OUT
"""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path

from patchprint.pipelines.structure_from_motion import SfmPlan, images_to_model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("images", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--model", default="sdgmnet")
    parser.add_argument("--max-keypoints", type=int, default=4096, help="of an image")
    arguments = parser.parse_args()

    plan = SfmPlan()
    settings = dataclasses.replace(plan.describe, model=arguments.model, max_keypoints=arguments.max_keypoints)
    images_to_model(arguments.images, arguments.out, dataclasses.replace(plan, describe=settings))

    import pycolmap

    model = pycolmap.Reconstruction(arguments.out / "model" / "sparse")
    print(f"{model.num_reg_images()} images, {model.num_points3D()} points")
    for image in model.images.values():
        print(image.name, "camera center", image.projection_center().round(3).tolist())


if __name__ == "__main__":
    main()
