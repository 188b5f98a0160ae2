"""Find out which correct matches a descriptor misses, by the difference in scale and angle of the keypoints.

    python -m perf.experiments.lost_matches --data ../shared/data/oxford --models rootsift sdgmnet patchprint \
        --out results/experiments/lost-matches.json

Average precision on sequences (`patchprint eval oxford`) calls two keypoints the same where their places agree. Their scales
and angles need not, and a patch that is cut at another scale or angle looks different. Keypoints of both images are joined one
to one, those first whose frames agree; for each class of differences: its part of all pairs, and how many of them every model
finds, that is, whose nearest neighbor lies at the right place.
"""

from __future__ import annotations

import argparse
import itertools
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from patchprint.common import files, provenance
from patchprint.common.progress import progress
from patchprint.common.types import Keypoints
from patchprint.detectors import detect
from patchprint.features import load
from patchprint.interop.sequences import find_sequences
from patchprint.metrics.correspondence import Counterparts, within_pixels
from patchprint.ops.distances import nearest
from patchprint.ops.geometry import transport, wrap_angle

KEYPOINTS, PIXELS = 2000, 4.0  # as `patchprint eval oxford` has them
OCTAVES = (0.0, 0.25, 0.5, 1.0, float("inf"))
DEGREES = (0.0, 10.0, 20.0, 45.0, 181.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of sequences with homographies")
    parser.add_argument("--models", nargs="+", required=True)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    started = time.monotonic()
    models = {name: load(name) for name in arguments.models}
    pairs: list[dict[str, np.ndarray]] = []
    for sequence in progress(find_sequences(arguments.data, ()), "sequences", "sequence"):
        images = {number: sequence.read(number) for number in sequence.paths}
        found = {
            number: detect(image, "dog-published", max_keypoints=KEYPOINTS, spread=False)
            for number, image in images.items()
        }
        described = {
            name: {number: model.describe_keypoints(images[number], found[number]) for number in images}
            for name, model in models.items()
        }
        for number, homography in sequence.homographies.items():
            counterparts = within_pixels(found[1], found[number], homography, PIXELS)
            rows, octaves, degrees = joined(found[1], found[number], homography, counterparts)
            hits = {}
            for name, descriptors in described.items():
                columns = nearest(descriptors[1], descriptors[number], exact=True)[1][:, 0].numpy()
                hits[name] = counterparts.contain(np.arange(len(columns)), columns)[rows]
            pairs.append({"octaves": octaves, "degrees": degrees, **hits})
    together = {name: np.concatenate([pair[name] for pair in pairs]) for name in pairs[0]}
    scores = classes(together, arguments.models)
    for entry in scores["classes"]:
        print(entry, flush=True)
    result = provenance.record(
        "lost-matches",
        settings={"keypoints": KEYPOINTS, "px": PIXELS, "detector": "dog-published"},
        model={"name": "several", "sha256": "", "all": {name: model.info.sha256 for name, model in models.items()}},
        data={"path": str(arguments.data)},
        seed=0,
        scores=scores,
        started=started,
    )
    files.write_json(arguments.out, result.to_json())


def joined(
    a: Keypoints, b: Keypoints, homography: np.ndarray, counterparts: Counterparts
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pairs of one place, each keypoint once, those with the most alike frames first.

    Shape:
        -> rows of a (M,), differences of scale in octaves (M,) and of angle in degrees (M,), both at least 0.
    """
    there = transport(a, homography)
    rows, columns = counterparts.rows, counterparts.columns
    octaves = (torch.log2(b.scale)[columns] - torch.log2(there.scale)[rows]).abs().double().numpy()
    degrees = np.degrees(wrap_angle(b.angle.double()[columns] - there.angle.double()[rows]).abs().numpy())
    taken_a, taken_b = np.zeros(len(a), bool), np.zeros(len(b), bool)
    kept = []
    for position in np.argsort(octaves / 0.5 + degrees / 20, kind="stable"):
        row, column = rows[position], columns[position]
        if not taken_a[row] and not taken_b[column]:
            taken_a[row] = taken_b[column] = True
            kept.append(position)
    return rows[kept], octaves[kept], degrees[kept]


def classes(pairs: dict[str, np.ndarray], models: list[str]) -> dict[str, Any]:
    """The part of the pairs in each class, and the part of the class that each model finds."""
    entries = []
    for (low, high), (narrow, wide) in itertools.product(itertools.pairwise(OCTAVES), itertools.pairwise(DEGREES)):
        inside = (pairs["octaves"] >= low) & (pairs["octaves"] < high)
        inside &= (pairs["degrees"] >= narrow) & (pairs["degrees"] < wide)
        found = {name: round(float(pairs[name][inside].mean()), 4) for name in models} if inside.any() else {}
        entries.append(
            {"octaves": [low, high], "degrees": [narrow, wide], "part": float(inside.mean()), "found": found}
        )
    every = {name: round(float(pairs[name].mean()), 4) for name in models}
    return {"pairs": len(pairs["octaves"]), "found": every, "classes": _finite(entries)}


def _finite(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """JSON has no infinity: an open end is null."""
    return [
        {**entry, "octaves": [None if end == float("inf") else end for end in entry["octaves"]]} for entry in entries
    ]


if __name__ == "__main__":
    main()
