"""``patchprint calibrate WEIGHTS``: choose the threshold of the ratio test for a model and write it into its weights."""

import dataclasses
from pathlib import Path

import tyro

from patchprint.cli import emit
from patchprint.common.provenance import record
from patchprint.features import load
from patchprint.interop.images import read_gray, readable_images
from patchprint.matching import calibration


def main(
    model: tyro.conf.Positional[str],
    data: Path | None = None,
    views: int = calibration.VIEWS,
    keypoints: int = calibration.KEYPOINTS,
    seed: int = calibration.SEED,
    write: bool = False,
    strict: bool = False,
    device: str = "auto",
) -> int:
    """Choose the ratio-test threshold that best separates right from wrong matches.

    Args:
        model: a weight file; shipped weights and baselines can be measured, but not written to
        data: folder of images, which are matched with warped copies; default: images of scikit-image
        views: warped copies of each image
        keypoints: per image
        seed: of warps and light
        write: store the threshold in the weight file; weights and checksum do not change
        strict: stop at the first image that cannot be read; by default it is named and left out
        device: auto, cpu, cuda or mps
    """
    if write:
        calibration.refuse_ratio(model)
    settings = {"views": views, "keypoints": keypoints, "seed": seed}
    images = None if data is None else [read_gray(data / name) for name in readable_images(data, strict)]
    used = load(model, device)
    choice = calibration.calibrate(used, images, **settings)
    if write:
        calibration.write_ratio(Path(model), choice.ratio)
    result = record(
        "ratio calibration",
        settings={**settings, "rule": "mutual neighbors, largest right - wrong"},
        model=dataclasses.asdict(used.id),
        data={"path": "scikit-image" if data is None else str(data)},
        seed=seed,
        scores=dataclasses.asdict(choice),
    )
    kept = (
        f"keeps {100 * choice.right_kept:.1f} % of the right and {100 * choice.wrong_kept:.1f} % of the wrong matches"
    )
    emit(result.to_json(), f"{used.info.name}: ratio {choice.ratio:.2f} {kept}")
    return 0
