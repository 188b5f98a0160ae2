"""Build a COLMAP model from a folder of images, then read its cameras.

python examples/sfm_from_folder.py IMAGES OUT
"""

import argparse
from pathlib import Path

import patchprint


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("images", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--model", default="patchprint")
    parser.add_argument("--max-keypoints", type=int, default=4096, help="of an image")
    arguments = parser.parse_args()

    describe = patchprint.DescribeSettings(
        detector="colmap", model=arguments.model, max_keypoints=arguments.max_keypoints
    )
    model = patchprint.sfm(arguments.images, arguments.out, patchprint.SfmSettings(describe=describe)).model
    print(f"{model.num_reg_images()} images, {model.num_points3D()} points")
    for image in model.images.values():
        print(image.name, "camera center", image.projection_center().round(3).tolist())


if __name__ == "__main__":
    main()
