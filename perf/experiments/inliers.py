"""Count verified matches by model and matching rule on the same keypoints, and those found by chance.

    python -m perf.experiments.inliers --oxford ../shared/data/oxford --out results/experiments/inliers.json

Pairs: Oxford graf 1-3 (homography) and scikit-image's stereo pair (fundamental matrix). ``unrelated`` are the fifteen pairs of
the first images of six Oxford sequences, which show different places: the most inliers that any of them has by chance. The
ratio test uses the threshold that was calibrated for each model (``results/ratio/MODEL.json``), and 0.8, Lowe's, for all.
``possible`` on graf: keypoints that have a partner within 3 pixels in both images, and those whose partner also agrees in
scale and angle, as descriptors cut from it need.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from patchprint.common import files, provenance
from patchprint.common.types import Features
from patchprint.data.builders import bundled_images
from patchprint.features import extract, load
from patchprint.matching import match
from patchprint.matching.two_view_geometry import Geometry, estimate_geometry
from patchprint.ops.geometry import transport, wrap_angle

SEQUENCES = ("bikes", "boat", "graf", "leuven", "ubc", "wall")
PIXELS = 3.0
MAX_SCALE_RATIO, MAX_ANGLE = 1.5, 0.5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--oxford", type=Path, required=True)
    parser.add_argument(
        "--models", nargs="+", default=["sift", "rootsift", "patchprint", "patchprint.tiny", "patchprint.bits"]
    )
    parser.add_argument("--results", type=Path, default=Path("results"))
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    started = time.monotonic()
    graf, stereo = arguments.oxford / "graf", bundled_images.stereo_pair()
    images = [next((arguments.oxford / name).glob("img1.*")) for name in SEQUENCES]
    scores: dict[str, Any] = {"graf 1-3": {}, "stereo": {}, "unrelated, at most": {}}
    for name in arguments.models:
        model = load(name)
        calibrated = calibrated_ratio(arguments.results / f"ratio/{name}.json")
        rules = {"mutual": None, "mutual, ratio 0.8": 0.8}
        if calibrated is not None:
            rules["mutual, calibrated ratio"] = calibrated
        a, b = extract(graf / "img1.png", model), extract(graf / "img3.png", model)
        scores["graf 1-3"][name] = {rule: counts(a, b, ratio, "homography") for rule, ratio in rules.items()}
        left, right = extract(stereo.left, model), extract(stereo.right, model)
        scores["stereo"][name] = {rule: counts(left, right, ratio, "fundamental") for rule, ratio in rules.items()}
        different = [extract(image, model) for image in images]
        scores["unrelated, at most"][name] = {rule: by_chance(different, ratio) for rule, ratio in rules.items()}
        print(name, *(f"{pair}: {found[name]}" for pair, found in scores.items()), sep="\n  ", flush=True)
    scores["graf 1-3"]["possible"] = possible(a, b, np.loadtxt(graf / "H1to3p"))
    print(scores["graf 1-3"]["possible"])
    result = provenance.record(
        "inliers",
        settings={"pixels": PIXELS},
        model={"name": "several", "sha256": ""},
        data={"path": str(arguments.oxford)},
        seed=0,
        scores=scores,
        started=started,
    )
    files.write_json(arguments.out, result.to_json())


def calibrated_ratio(path: Path) -> float | None:
    return json.loads(path.read_text(encoding="utf-8"))["scores"]["ratio"] if path.exists() else None


def counts(a: Features, b: Features, ratio: float | None, geometry: Geometry) -> dict[str, Any]:
    found = match(a, b, "mutual" if ratio is None else "mutual+ratio", ratio=ratio)
    return {"matches": len(found), "inliers": estimate_geometry(a, b, found, geometry).num_inliers, "ratio": ratio}


def by_chance(images: list[Features], ratio: float | None) -> dict[str, Any]:
    """The largest counts over all pairs of images that show different places."""
    found = [counts(a, b, ratio, "fundamental") for a, b in itertools.combinations(images, 2)]
    return {**{key: max(entry[key] or 0 for entry in found) for key in ("matches", "inliers")}, "ratio": ratio}


def possible(a: Features, b: Features, homography: np.ndarray) -> dict[str, int]:
    """Keypoints of a with a partner in b, and with one whose scale and angle are right too."""
    there = transport(a.keypoints, homography)
    back = transport(b.keypoints, np.linalg.inv(homography))
    near = (torch.cdist(there.xy, b.keypoints.xy) <= PIXELS) & (torch.cdist(a.keypoints.xy, back.xy) <= PIXELS)
    scale = (b.keypoints.scale.log()[None] - there.scale.log()[:, None]).abs() <= np.log(MAX_SCALE_RATIO)
    turn = wrap_angle(b.keypoints.angle[None] - there.angle[:, None]).abs() <= MAX_ANGLE
    return {"near": int(near.any(1).sum()), "near, same scale and angle": int((near & scale & turn).any(1).sum())}


if __name__ == "__main__":
    main()
