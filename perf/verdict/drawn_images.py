"""Draw the images that the verdict is fitted and tested on, and extract their features.

    python -m perf.verdict.drawn_images --data ../shared/data --cache runs/verdict

Fitted on images that networks may learn from, tested on Oxford's sequences, Strecha's fountain and Herz-Jesu, and two more
scenes: no image is in both. ``town`` keeps apart what may show the same thing from elsewhere: two images are taken for
different places only where their towns differ. (The castle, its entry and the fountain are in one courtyard; the four
landmarks of Oxford are neighbors.)
"""

from __future__ import annotations

import argparse
import functools
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tqdm import tqdm

from patchprint.common.types import Features
from patchprint.detectors import MAX_KEYPOINTS
from patchprint.features import extract, load
from patchprint.features.model import DEFAULT_MODEL
from patchprint.interop.images import list_images
from patchprint.storage import feature_files

# How features are made: each model with its numbers of keypoints. What patchprint does by itself is only tested.
DESCRIBED = {
    "rootsift": (500, 2000, 4096),
    "patchprint.tiny": (500, 2000),
    "patchprint": (1000,),
    "patchprint.bits": (1000,),
}
DEFAULT = (DEFAULT_MODEL, MAX_KEYPOINTS)
SEED = 0


@dataclass(frozen=True)
class Scene:
    """A folder of images of one place; ``count`` of them are drawn."""

    folder: str
    town: str
    count: int

    @property
    def has_model(self) -> bool:
        """Whether a COLMAP model says which images show the same points."""
        return self.folder.startswith("photos/")


FIT = (
    Scene("photos/notredame", "paris", 18),
    Scene("photos/liberty", "new york", 14),
    Scene("photos/oxford-landmarks/radcliffe", "oxford", 12),
    Scene("photos/oxford-landmarks/christchurch", "oxford", 6),
    Scene("photos/oxford-landmarks/allsouls", "oxford", 6),
    Scene("photos/castle", "ettlingen courtyard", 8),
    Scene("photos/sceaux", "sceaux", 6),
)
TEST = (
    *(Scene(f"oxford/{name}", name, 6) for name in ("bikes", "boat", "graf", "leuven", "ubc", "wall")),
    Scene("eth/fountain", "ettlingen courtyard", 11),
    Scene("eth/herzjesu", "ettlingen church", 8),
    Scene("photos/oxford-landmarks/bodleian", "oxford", 8),
    Scene("photos/entry", "ettlingen courtyard", 6),
)
SPLITS = {"fit": FIT, "test": TEST}
_loaded = functools.cache(load)


@dataclass(frozen=True)
class DrawnImage:
    """One image of a scene, by its name in the scene's folder of images."""

    scene: Scene
    name: str

    def path(self, data: Path) -> Path:
        images = data / self.scene.folder / "images"
        return (images if images.is_dir() else data / self.scene.folder) / self.name

    def features(self, data: Path, cache: Path, model: str, keypoints: int) -> Features:
        """Features from ``cache``, or made and kept there."""
        kept = cache / f"{model}-{keypoints}" / self.scene.folder / f"{self.name}.npz"
        if not kept.is_file():
            kept.parent.mkdir(parents=True, exist_ok=True)
            feature_files.save_features(extract(self.path(data), _loaded(model), max_keypoints=keypoints), kept)
        return feature_files.load_features(kept)


def draw(split: str, data: Path) -> list[DrawnImage]:
    """The images of one split; those of large scenes are drawn."""
    photos = []
    for number, scene in enumerate(SPLITS[split]):
        names = list_images(DrawnImage(scene, "").path(data))
        rng = np.random.default_rng([SEED, number])
        photos += [DrawnImage(scene, names[index]) for index in sorted(rng.permutation(len(names))[: scene.count])]
    return photos


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--cache", type=Path, required=True)
    arguments = parser.parse_args()
    photos = {split: draw(split, arguments.data) for split in SPLITS}
    settings = [(model, count) for model, counts in DESCRIBED.items() for count in counts]
    jobs = [(photo, *setting) for setting in settings for split in SPLITS for photo in photos[split]]
    jobs += [(photo, *DEFAULT) for photo in photos["test"]]
    for photo, model, count in tqdm(jobs, unit="photo", disable=None):
        photo.features(arguments.data, arguments.cache, model, count)


if __name__ == "__main__":
    main()
