"""Tables about prints in use, made from ``results/``: 3D models, verdicts, compression, tuning to one's own photos."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from patchprint.pipelines.adapt_judge import measured_in
from tools.markdown import read, table


def sfm(results: Path) -> str:
    """``patchprint sfm`` on fountain beside RootSIFT on the same keypoints and COLMAP's own SIFT."""
    result = read(results / "experiments" / "sfm-fountain.json")
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
    caption = "Strecha's fountain: results/experiments/sfm-fountain.json."
    return table(header, rows, caption)


def inliers(results: Path) -> str:
    """Verified matches of two pairs, by model and rule."""
    result = read(results / "experiments" / "inliers.json")
    rules = ("mutual", "mutual, ratio 0.8", "mutual, calibrated ratio")
    pairs = result["scores"]
    models = [name for name in next(iter(pairs.values())) if name != "possible"]
    rows = [
        [model, *(str(pairs[pair][model].get(rule, {}).get("inliers", "")) for pair in pairs for rule in rules)]
        for model in models
    ]
    caption = "Verified matches of two pairs, and the most by chance: results/experiments/inliers.json."
    return table(["", *(f"{pair}: {rule}" for pair in pairs for rule in rules)], rows, caption)


def verdict(results: Path) -> str:
    """False models of different places, and right ones kept, by group of pairs and way of matching."""
    result = read(results / "verdict.json")
    rows = []
    for way, scores in result["scores"].items():
        for group, score in scores["different"].items():
            found = f"{score['models_without_verdict']} models before, {score['false_models']} now"
            rows.append([way, f"different: {group}", str(score["pairs"]), "", found])
        for group, score in scores["same"].items():
            kept = f"{score['kept']} kept ({100 * score['kept_share']:.1f} %), {score['kept_right']} right"
            rows.append([way, f"same: {group}", str(score["pairs"]), str(score["recovered"]), kept])
    header = ["matched", "pairs", "number", "recovered", "returned"]
    return table(header, rows, "The verdict on photos that it was not fitted on: results/verdict.json.")


def compression(results: Path) -> str:
    """What each compression costs on Oxford."""
    result = read(results / "experiments" / "compression.json")
    rows = [
        [f"`{name}`", str(score["bytes"]), f"{score['map']:.3f}", f"{score['loss']:.3f}"]
        for name, score in sorted(result["scores"].items(), key=lambda item: -item[1]["bytes"])
    ]
    caption = "mAP on the six Oxford sequences by compression: results/experiments/compression.json."
    return table([f"`{result['model']['name']}`", "bytes a print", "Oxford mAP", "loss"], rows, caption)


def adapted(name: str, photos: str) -> Callable[[Path], str]:
    """``patchprint adapt`` on photos that the start model has not seen."""

    def adapted_to(results: Path) -> str:
        result = read(results / "experiments" / name)
        measures = measured_in(result["scores"]).items()
        rows = [
            [model, *(each.shown(score[key]) for key, each in measures)] for model, score in result["scores"].items()
        ]
        caption = f"`patchprint adapt` on {photos}, verdict: {result['model']['verdict']}: results/experiments/{name}."
        return table(["", *(each.label for _, each in measures)], rows, caption)

    return adapted_to
