"""Tables about prints in use, made from ``results/``: 3D models, compression, tuning to one's own photos."""

from __future__ import annotations

from pathlib import Path

from patchprint.adapt import MEASURES
from patchprint.report.markdown import read, source_of, table


def sfm(results: Path) -> str:
    """``patchprint sfm`` on fountain beside RootSIFT on the same keypoints and COLMAP's own SIFT."""
    path = results / "sfm-fountain.json"
    result = read(path)
    rows = []
    for name, score in result["scores"].items():
        against = score.get("against_true_cameras", {})
        position = against.get("position", {}).get("median")
        rows.append(
            [
                name,
                f"{score['registered']} of {score['photos']}",
                f"{score['points']:,}",
                f"{score['observations']:,}",
                f"{score['track_length']:.2f}",
                f"{score['reprojection_error_px']:.2f}",
                "" if position is None else f"{position:.4f}",
            ]
        )
    header = [
        "prints",
        "photos",
        "points",
        "observations",
        "track length",
        "reprojection px",
        "camera position, median error",
    ]
    return table(header, rows, source_of(result, path))


def inliers(results: Path) -> str:
    """Verified matches of two pairs, by model and rule."""
    path = results / "inliers.json"
    result = read(path)
    rules = ("mutual", "mutual, ratio 0.8", "mutual, calibrated ratio")
    pairs = result["scores"]
    models = [name for name in next(iter(pairs.values())) if name != "possible"]
    rows = [
        [model, *(str(pairs[pair][model].get(rule, {}).get("inliers", "")) for pair in pairs for rule in rules)]
        for model in models
    ]
    return table(["", *(f"{pair}: {rule}" for pair in pairs for rule in rules)], rows, source_of(result, path))


def compression(results: Path) -> str:
    """What each compression costs on Oxford."""
    path = results / "compression.json"
    result = read(path)
    rows = [
        [f"`{name}`", str(score["bytes"]), f"{score['map']:.3f}", f"{score['loss']:.3f}"]
        for name, score in sorted(result["scores"].items(), key=lambda item: -item[1]["bytes"])
    ]
    return table([f"`{result['model']['name']}`", "bytes a print", "Oxford mAP", "loss"], rows, source_of(result, path))


def adapted(results: Path) -> str:
    """``patchprint adapt`` on a scene that the start model has not seen."""
    path = results / "adapt.json"
    result = read(path)
    rows = [[name, *(f"{100 * score[key]:.2f} %" for key in MEASURES)] for name, score in result["scores"].items()]
    minutes = f" {result['run']['seconds'] / 60:.0f} minutes, reconstruction included."
    return table(["", *MEASURES.values()], rows, source_of(result, path) + minutes)
