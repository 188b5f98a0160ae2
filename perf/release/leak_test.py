"""Look for test images among the training images: copies by a perceptual hash, other images of the same place by retrieval.

    python -m perf.release.leak_test --train ../shared/data/photos data/wild data/scenes --test ../shared/data/oxford \
        ../shared/data/eth --out results/training/leaks.json

The hash (signs of the 63 lowest frequencies of the image as 32 x 32 pixels) survives scaling, light and compression. What is
cut or seen from elsewhere is found as patchprint finds it: of each test image, the ``--neighbors`` training images whose
vectors are most alike are matched and verified. Suspicious are pairs whose hashes differ in at most ``--bits`` bits, and pairs
that show the same place by the verdict of ``patchprint match``.
"""

from __future__ import annotations

import argparse
import hashlib
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

import patchprint
from patchprint.common import files, provenance
from patchprint.common.errors import require
from patchprint.common.progress import progress
from patchprint.common.types import Features
from patchprint.interop.images import limit_size, list_images, read_gray
from patchprint.ops import pooling

MODEL, MAX_SIZE, KEYPOINTS = "patchprint.tiny", 400, 400
BITS, NEIGHBORS = 10, 5
_SIDE, _LOW = 32, 8


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", nargs="+", type=Path, required=True)
    parser.add_argument("--test", nargs="+", type=Path, required=True)
    parser.add_argument("--bits", type=int, default=BITS)
    parser.add_argument("--neighbors", type=int, default=NEIGHBORS)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    started = time.monotonic()
    train, test = read_images(arguments.train), read_images(arguments.test)
    scores = compare(train, test, arguments.bits, arguments.neighbors)
    scores["images"] = {
        kind: {folder.name: len(list_images(folder)) for folder in getattr(arguments, kind)}
        for kind in ("train", "test")
    }
    settings = {"model": MODEL, "max_size": MAX_SIZE, "keypoints": KEYPOINTS, "bits": arguments.bits}
    settings["neighbors"] = arguments.neighbors
    data = {kind: fingerprint(images) for kind, images in (("train", train), ("test", test))}
    result = provenance.record("leaks", settings=settings, scores=scores, data=data, started=started)
    files.write_json(arguments.out, result.to_json())
    print(f"{len(train)} training and {len(test)} test images: {len(scores['suspicious'])} suspicious pairs")


def read_images(folders: Sequence[Path]) -> dict[str, np.ndarray]:
    """Read the images of folders in gray and small, by folder and name."""
    names = [(folder, name) for folder in folders for name in list_images(folder)]
    return {
        f"{folder.name}/{name}": limit_size(read_gray(folder / name), MAX_SIZE)
        for folder, name in progress(names, "reading", "image")
    }


def compare(
    train: Mapping[str, np.ndarray], test: Mapping[str, np.ndarray], bits: int = BITS, neighbors: int = NEIGHBORS
) -> dict[str, Any]:
    """Return the suspicious pairs, and how near the others come."""
    distance = hash_distances(train, test)
    place = distance.argmin(0)
    names = list(train)
    suspicious = [
        {"train": names[row], "test": name, "by": "hash", "bits": int(distance[row, column])}
        for column, name in enumerate(test)
        for row in np.flatnonzero(distance[:, column] <= bits)
    ]
    most = 0
    for name, other, found in alike(train, test, neighbors):
        if found.verdict is not None and found.verdict.answer == "same":
            facts = {"inliers": found.num_inliers, "probability": round(found.verdict.probability, 3)}
            suspicious.append({"train": other, "test": name, "by": "retrieval", **facts})
        else:
            most = max(most, found.num_inliers or 0)
    return {
        "suspicious": suspicious,
        "nearest_hash": int(distance.min()) if distance.size else None,
        "nearest_hashes": {name: int(distance[place[column], column]) for column, name in enumerate(test)},
        "most_inliers_of_others": most,
        "pairs_hashed": int(distance.size),
        "pairs_matched": len(test) * min(neighbors, len(train)),
    }


def hash_distances(train: Mapping[str, np.ndarray], test: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return in how many bits the hashes of all images differ, (train, test) int."""
    a, b = (np.stack([perceptual_hash(image) for image in images.values()]) for images in (train, test))
    return (a[:, None] != b[None]).sum(-1)


def perceptual_hash(image: np.ndarray) -> np.ndarray:
    """Return the signs of the lowest frequencies but the mean, (63,) bool, against their median."""
    cv2 = require("cv2", extra="images")
    small = cv2.resize(image, (_SIDE, _SIDE), interpolation=cv2.INTER_AREA).astype(np.float32)
    low = cv2.dct(small)[:_LOW, :_LOW].ravel()[1:]
    return np.asarray(low > np.median(low))


def alike(
    train: Mapping[str, np.ndarray], test: Mapping[str, np.ndarray], neighbors: int
) -> list[tuple[str, str, patchprint.Matches]]:
    """Match each test image with the training images whose vectors are most like its own."""
    features = {name: describe(image) for name, image in progress({**train, **test}.items(), "describing", "image")}

    def read(name: str) -> torch.Tensor:
        return features[name].descriptors

    names = list(train)
    pool = pooling.learn_pooling(names, read)
    vectors = pooling.pool_images(names, read, pool)
    found = []
    for name in progress(list(test), "matching", "image"):
        near = (vectors @ pool(read(name))).topk(min(neighbors, len(names))).indices.tolist()
        found += [(name, names[row], patchprint.match_and_verify(features[name], features[names[row]])) for row in near]
    return found


def describe(image: np.ndarray) -> Features:
    return patchprint.extract(image, MODEL, max_keypoints=KEYPOINTS, engine="float32")


def fingerprint(images: Mapping[str, np.ndarray]) -> str:
    """Return the SHA-256 of the hashes of all images, in the order of their names."""
    return hashlib.sha256(
        b"".join(np.packbits(perceptual_hash(images[name])).tobytes() for name in sorted(images))
    ).hexdigest()


if __name__ == "__main__":
    main()
