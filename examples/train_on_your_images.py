"""Train a descriptor on a folder of images: patches from homographies, a short run, and a comparison with SIFT.

python examples/train_on_your_images.py IMAGES WORK --steps 2000

Images of one scene teach more than warped copies do: with a COLMAP model, use ``patchprint data build colmap`` instead of
the first step; without one, ``patchprint adapt``.
"""

import argparse
from pathlib import Path

import patchprint
from patchprint.data.builders import homographies
from patchprint.training import resolve


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("images", type=Path)
    parser.add_argument("work", type=Path, help="folder for the patches, the run and the weights")
    parser.add_argument("--recipe", default="hardnet")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--batch", type=int, default=256)
    arguments = parser.parse_args()

    store = arguments.work / "patches"
    homographies.build(arguments.images, store, views=4)
    config = resolve(
        arguments.recipe,
        data=(str(store),),
        steps=arguments.steps,
        batch=arguments.batch,
        validate_every=max(1, arguments.steps // 5),
        log_every=max(1, arguments.steps // 20),
        tensorboard=False,
    )
    outcome = patchprint.train(config, source=None, out=arguments.work / "run")
    print(f"held-out FPR95 {100 * outcome.measured['fpr95']:.2f} %")

    weights = arguments.work / "run" / "best.safetensors"
    first, second, *_ = sorted(path for path in arguments.images.iterdir() if path.is_file())
    for model in (weights, "sift"):
        a, b = patchprint.extract(first, str(model)), patchprint.extract(second, str(model))
        matches = patchprint.verify(a, b, patchprint.match(a, b))
        print(f"{Path(model).name}: {len(matches)} matches, {matches.num_inliers} inliers")


if __name__ == "__main__":
    main()
