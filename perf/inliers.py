"""Verified matches of two well-known pairs, by model and by the rule that keeps a match, all on the same keypoints.

    python perf/inliers.py --graf ../shared/data/oxford/graf --out results/inliers.json

Pairs: Oxford graf 1-3 (homography) and scikit-image's stereo pair (fundamental matrix). The ratio test uses the threshold that
``perf/calibrate_ratio.py`` chose for each model (``results/ratio-*.json``), and 0.8, Lowe's, for all. ``possible`` on graf:
keypoints that have a partner within 3 pixels in both pictures, and those whose partner also agrees in scale and angle, as
descriptors cut from it need.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from patchprint import files, provenance
from patchprint.features import describers, extract, match, verify
from patchprint.patches.sources import bundled, homographies
from patchprint.types import Features, Result, wrap_angle

PIXELS = 3.0
MAX_SCALE_RATIO, MAX_ANGLE = 1.5, 0.5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graf", type=Path, required=True)
    parser.add_argument("--models", nargs="+", default=["sift", "rootsift", "sdgmnet", "hardnet.small", "doap-binary"])
    parser.add_argument("--results", type=Path, default=Path("results"))
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    started = time.monotonic()
    stereo = bundled.stereo_pair()
    pairs: dict[str, tuple[Any, Any, Any]] = {
        "graf 1-3": (arguments.graf / "img1.png", arguments.graf / "img3.png", "homography"),
        "stereo": (stereo.left, stereo.right, "fundamental"),
    }
    scores: dict[str, Any] = {}
    for name, (first, second, geometry) in pairs.items():
        scores[name] = {}
        for model in arguments.models:
            describer = describers.create(model)
            a, b = extract(first, describer), extract(second, describer)
            calibrated = calibrated_ratio(arguments.results / f"ratio-{model}.json")
            rules = {"mutual": None, "mutual, ratio 0.8": 0.8}
            if calibrated is not None:
                rules["mutual, calibrated ratio"] = calibrated
            scores[name][model] = {rule: counts(a, b, ratio, geometry) for rule, ratio in rules.items()}
            print(name, model, scores[name][model], flush=True)
        if geometry == "homography":
            scores[name]["possible"] = possible(a, b, np.loadtxt(arguments.graf / "H1to3p"))
            print(name, scores[name]["possible"], flush=True)
    result = Result(
        benchmark="inliers",
        settings={"pixels": PIXELS},
        model={"name": "several", "sha256": ""},
        data={"path": str(arguments.graf)},
        seed=0,
        scores=scores,
        run=provenance.run_info(started),
    )
    files.write_json(arguments.out, result.to_json())


def calibrated_ratio(path: Path) -> float | None:
    return json.loads(path.read_text(encoding="utf-8"))["scores"]["ratio"] if path.exists() else None


def counts(a: Features, b: Features, ratio: float | None, geometry: Any) -> dict[str, Any]:
    found = match(a, b, ratio=ratio)
    return {"matches": len(found), "inliers": verify(a, b, found, geometry).num_inliers, "ratio": ratio}


def possible(a: Features, b: Features, homography: np.ndarray) -> dict[str, int]:
    """Keypoints of a with a partner in b, and with one whose scale and angle are right too."""
    there = homographies.transport(a.keypoints, homography)
    back = homographies.transport(b.keypoints, np.linalg.inv(homography))
    near = (torch.cdist(there.xy, b.keypoints.xy) <= PIXELS) & (torch.cdist(a.keypoints.xy, back.xy) <= PIXELS)
    scale = (b.keypoints.scale.log()[None] - there.scale.log()[:, None]).abs() <= np.log(MAX_SCALE_RATIO)
    turn = wrap_angle(b.keypoints.angle[None] - there.angle[:, None]).abs() <= MAX_ANGLE
    return {"near": int(near.any(1).sum()), "near, same scale and angle": int((near & scale & turn).any(1).sum())}


if __name__ == "__main__":
    main()
