"""Ask for the verdict on images and copies of them that are tilted and re-lit far more than any pair that it was fitted on.

    python -m perf.verdict.extreme --data ../shared/data --out results/verdict-extreme.json

``same``: pairs that are said to show the same place, ``right`` those of them whose inliers agree with the true homography
(`perf.verdict.pairs`); ``unsure``: pairs of which it says that it cannot tell.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import torch

import patchprint
from patchprint.common import files, provenance
from patchprint.data.builders.homographies import render_views
from patchprint.interop.images import limit_size, list_images, read_gray
from patchprint.ops.geometry import project
from perf.verdict.pairs import PIXELS, RIGHT_SHARE

FOLDERS = ("notredame/images", "liberty/images", "oxford-landmarks/radcliffe/images", "sceaux/images")
STRENGTHS = (1.6, 2.5)  # of the warp and the light; copies in training have at most 1
LONGEST = 800  # pixels


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--model", default="patchprint.tiny")
    parser.add_argument("--images", type=int, default=5, help="of each of four sets")
    parser.add_argument("--max-keypoints", type=int, default=1000)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    started, model = time.monotonic(), patchprint.load(arguments.model)
    scores: dict[str, dict[str, Any]] = {}
    for strength in STRENGTHS:
        rows = []
        for folder in FOLDERS:
            names = list_images(arguments.data / "photos" / folder)
            for number, name in enumerate(names[:: len(names) // arguments.images][: arguments.images]):
                image = limit_size(read_gray(arguments.data / "photos" / folder / name), LONGEST)
                rows.append(judge(model, image, number, strength, arguments.max_keypoints))
        scores[f"strength {strength}"] = {
            "pairs": len(rows),
            "same": sum(answer == "same" for answer, _ in rows),
            "right": sum(answer == "same" and is_right for answer, is_right in rows),
            "unsure": sum(answer == "unsure" for answer, _ in rows),
        }
        print(strength, scores[f"strength {strength}"], flush=True)
    result = provenance.record(
        "verdict-extreme",
        settings={"images": arguments.images, "max_keypoints": arguments.max_keypoints, "longest_side": LONGEST},
        model={"name": model.id.name, "sha256": model.id.sha256},
        data={"path": str(arguments.data), "folders": FOLDERS},
        scores=scores,
        seed=0,
        started=started,
    )
    files.write_json(arguments.out, result.to_json())


def judge(model: Any, image: Any, seed: int, strength: float, max_keypoints: int) -> tuple[str, bool]:
    """The answer, and whether the inliers agree with the truth."""
    original, copy = render_views(image, 1, seed, strength)
    a, b = (patchprint.extract(view.image, model, max_keypoints=max_keypoints) for view in (original, copy))
    found = patchprint.verify(a, b, patchprint.match(a, b))
    assert found.verdict is not None
    if not found.num_inliers:
        return found.verdict.answer, False
    first, second = found.indices[found.inliers].T
    there = project(copy.homography, a.keypoints.xy[first].double().numpy())
    errors = (torch.as_tensor(there) - b.keypoints.xy[second]).norm(dim=1)
    return found.verdict.answer, bool((errors <= PIXELS).double().mean() >= RIGHT_SHARE)


if __name__ == "__main__":
    main()
