"""Tables about trained weights, made from ``results/``: what is shipped, how it scores, what was tried, how methods compare."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from statistics import fmean
from typing import Any

from patchprint.benchmarks import ubc
from patchprint.networks import weights
from tools.markdown import read, table

# Published counterparts of the recipes, for the order of the methods; the sets are others.
_PUBLISHED = {
    "l2net": "L2-Net+",
    "tfeat": "TFeat",
    "doap": "DOAP+",
    "hardnet": "HardNet+ (lr 10)",
    "cdf": "CDF",
    "sosnet": "SOSNet",
    "hynet": "HyNet",
    "hardnet-frn": "HardNet+FRN",
    "sdgmnet": "SDGMNet (best test epoch)",
}


def shipped(results: Path) -> str:
    """The weights in the package with their size and their score on Oxford."""
    rows = []
    for info in weights.list_weights():
        file = weights.WEIGHTS_FOLDER / f"{info.name}.safetensors"
        size = f"{info.dim} bits" if info.kind == "binary" else f"{info.dim} floats"
        score = read(results / "oxford" / f"{info.name}.json")["scores"]["map"]
        megabytes = f"{file.stat().st_size / 1e6:.1f} MB"
        made_by = info.training.summary()
        if info.options.get("input_norm") == "standard":
            made_by += ", patches standardized before FRN"
        rows.append([f"`{info.name}`", size, f"{info.patch_scale:g} sigma", megabytes, f"{score:.3f}", made_by])
    header = ["weights", "print", "patch", "file", "Oxford mAP", "made by"]
    return table(header, rows, "Size, run and mAP on the six Oxford sequences: results/oxford/.")


def hpatches(results: Path) -> str:
    """Verification, matching and retrieval by strength."""
    rows = []
    for result in map(read, sorted((results / "hpatches").glob("oxford-*.json"))):
        scores = (result["scores"][task] for task in ("verification", "matching", "retrieval"))
        each = [f"{task[level]['python']:.3f}" for task in scores for level in ("easy", "hard", "tough")]
        rows.append([result["model"]["name"], *each])
    rows.sort(key=lambda row: row[5])
    header = ["", *(f"{task} {level}" for task in ("verif.", "match.", "retr.") for level in ("easy", "hard", "tough"))]
    return table(header, rows, "AP by task and strength of jitter: results/hpatches/.")


def eth(results: Path) -> str:
    """Sparse models on COLMAP's keypoints, without and with the ratio test, COLMAP's own SIFT below."""
    rows = []
    for scene in ("fountain", "herzjesu"):
        found = [read(path) for path in sorted((results / "eth").glob(f"{scene}-*.json"))]
        for result in sorted(found, key=lambda r: (r["settings"]["ratio"] is not None, r["scores"]["observations"])):
            ratio = result["settings"]["ratio"]
            rows.append(
                [f"{scene}, {result['model']['name']}", f"{ratio:g}" if ratio else "none", *_sparse(result["scores"])]
            )
        rows.append([f"{scene}, COLMAP's own SIFT", "0.8", *_sparse(found[0]["scores"]["colmap_sift"])])
    header = ["", "ratio test", "photos", "points", "observations", "track length", "reprojection px"]
    return table(header, rows, "Sparse models of two scenes, by model and ratio test: results/eth/.")


def comparison(results: Path) -> str:
    """FPR95 in percent, train > test, mean over seeds; beside it the mean that the papers print for UBC."""
    files = sorted((results / "experiments").glob("comparison*.json"), key=lambda path: path.stem)
    runs = [run for path in files for run in read(path)["scores"]["runs"]]
    columns = sorted({(run["train"], test) for run in runs for test in run["fpr95"]}, key=lambda c: (c[1], c[0]))
    rows = []
    for recipe in dict.fromkeys(run["recipe"] for run in runs):
        mine = [run for run in runs if run["recipe"] == recipe]
        for label, kind in ((f"`{recipe}`", "fpr95"), (f"`{recipe}`, signs", "fpr95_of_signs")):
            scores = _by_column(mine, kind)
            if all(scores.get(column) for column in columns):
                published = ubc.PUBLISHED.get(_PUBLISHED.get(recipe, ""), ()) if kind == "fpr95" else ()
                rows.append(
                    [
                        label,
                        *(_mean_and_spread(scores[column]) for column in columns),
                        f"{fmean(fmean(scores[column]) for column in columns):.3f}",
                        f"{fmean(published):.2f}" if published else "",
                    ]
                )
    header = ["", *(f"{train} > {test}" for train, test in columns), "mean", "published mean (UBC)"]
    return table(header, rows, "FPR95 in percent, train > test, mean over seeds: results/experiments/comparison*.json.")


def statistics(results: Path) -> str:
    """SDGMNet's running statistics over training (its Tables II to IV), mean over the training sets."""
    result = read(results / "experiments" / "comparison.json")
    curves: dict[int, list[dict[str, float]]] = defaultdict(list)
    for run in result["scores"]["runs"]:
        for line in run.get("statistics", ()) if run["recipe"] == "sdgmnet" else ():
            curves[line["step"]].append(line)
    names = ("positive", "positive_std", "negative", "negative_std", "relative", "relative_std")
    rows = [
        [
            str(step),
            *(f"{fmean(line[f'loss/{name}'] for line in lines):.3f}" for name in names),
            *(f"{fmean(line[f'loss/power_{sign}'] for line in lines):.0f}" for sign in ("positive", "negative")),
        ]
        for step, lines in sorted(curves.items())
        if step % (max(curves) // 5) == 0
    ]
    header = ["step", "theta+", "std", "theta-", "std", "theta+ - theta-", "std", "power+", "power-"]
    return table(header, rows, "`sdgmnet` in training, mean over three sets: results/experiments/comparison.json.")


def tries(results: Path) -> str:
    """What was tried first, judged on validation data alone."""
    return _choices(results / "experiments" / "choice-tries.json")


def tries_neighbors(results: Path) -> str:
    """What was tried next: batches of neighbours, wider augmentation, larger patches."""
    return _choices(results / "experiments" / "choice-neighbours.json")


def tries_long(results: Path) -> str:
    """The two best of those trained for long, beside the weights that were shipped before."""
    return _choices(results / "experiments" / "choice-long.json")


def tries_groups(results: Path) -> str:
    """Whole groups for the binary model, beside the weights before, which had learned on two patches of each."""
    return _choices(results / "experiments" / "choice-doap-groups.json")


def chosen_scales(results: Path) -> str:
    """Validation scores of the shipped weights by patch scale."""
    return _choices(results / "experiments" / "choice-shipped.json")


def _choices(path: Path) -> str:
    result = read(path)
    rows = []
    for model, scales in result["scores"].items():
        file = Path(model)
        name = file.parent.name if file.stem == "best" else file.stem
        for scale, score in scales.items():
            depth = fmean(score["depth"].values())
            rows.append([f"`{name}`", f"{scale} sigma", f"{depth:.4f}", f"{score['flat']:.4f}", f"{score['mean']:.4f}"])
    caption = f"Validation scores by patch scale: results/experiments/{path.name}."
    return table(["", "patch at test", "depth: accuracy", "flat: AP", "mean"], rows, caption)


def _by_column(runs: Iterable[dict[str, Any]], kind: str) -> dict[tuple[str, str], list[float]]:
    scores: dict[tuple[str, str], list[float]] = defaultdict(list)
    for run in runs:
        for test, value in run.get(kind, {}).items():
            scores[run["train"], test].append(value)
    return scores


def _mean_and_spread(values: list[float]) -> str:
    spread = f" ± {(max(values) - min(values)) / 2:.3f}" if len(values) > 1 else ""
    return f"{fmean(values):.3f}{spread}"


def _sparse(scores: dict[str, Any]) -> list[str]:
    counts = [f"{scores['registered']} of {scores['photos']}", f"{scores['points']:,}", f"{scores['observations']:,}"]
    return [*counts, f"{scores['track_length']:.2f}", f"{scores['reprojection_error_px']:.2f}"]
