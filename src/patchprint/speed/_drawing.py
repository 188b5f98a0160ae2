"""A picture of a result: bars for stages, lines for growth."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from patchprint.common.files import atomic_file
from patchprint.common.optional import require
from patchprint.common.provenance import Result

_WIDTH = 9.0  # inches
_BAR = 0.26
_COLORS = {"patchprint": "C0", "kornia": "C1", "OpenCV": "C2", "COLMAP": "C4", "FAISS": "C5"}
_OTHER = "0.6"


def draw(result: Result, path: str | Path) -> None:
    """Write the picture of what `bench` or `growth` measured; the suffix of ``path`` says in which format."""
    figure = _stages(result) if result.benchmark == "speed" else _growth(result)
    machine = result.run["machine"]
    place = machine["gpu"] if result.settings["device"] == "cuda" else f"{machine['cores']} cores, {machine['cpu']}"
    busy = result.settings.get("busy_cores", 0)
    figure.suptitle(place + (f", {busy} of them kept busy" if busy else ""), fontsize="medium")
    with atomic_file(path) as temporary:
        figure.savefig(temporary, format=Path(path).suffix[1:])


def _stages(result: Result) -> Any:
    """A strip for each stage, a bar for each contender; shorter is faster."""
    stages = {name: stage for name, stage in result.scores.items() if name != "left_out"}
    heights = [_BAR * (len(stage["contenders"]) + 3) for stage in stages.values()]
    figure = _figure(sum(heights))
    all_axes = figure.subplots(len(stages), 1, squeeze=False, height_ratios=heights)[:, 0]
    for axes, (name, stage) in zip(all_axes, stages.items(), strict=True):
        ordered = sorted(stage["contenders"].items(), key=lambda item: -item[1]["best_ms"])
        best = [score["best_ms"] for _, score in ordered]
        spread = [score["median_ms"] - score["best_ms"] for _, score in ordered]
        colors = [next((c for start, c in _COLORS.items() if each.startswith(start)), _OTHER) for each, _ in ordered]
        bars = axes.barh([each for each, _ in ordered], best, color=colors, xerr=[[0] * len(best), spread])
        axes.bar_label(bars, [f" {value:.4g}" for value in best], fontsize="small")
        axes.set_title(f"{name}: {stage['title']} (ms, best; line to the median)", fontsize="small", loc="left")
        axes.margins(x=0.12)
        axes.spines[["top", "right"]].set_visible(False)
    return figure


def _growth(result: Result) -> Any:
    """Seconds and memory over keypoints, with the line of proportion through the last point."""
    figure = _figure(3.6)
    left, right = figure.subplots(1, 2)
    for number, (model, score) in enumerate(result.scores.items()):
        counts, seconds = ([row[key] for row in score["rows"]] for key in ("keypoints", "seconds"))
        left.loglog(
            counts, seconds, marker="o", color=f"C{number}", label=f"{model}: power {score['power_of_time']:.2f}"
        )
        left.loglog(counts, [seconds[-1] * count / counts[-1] for count in counts], color=f"C{number}", linestyle=":")
        peaks = [row.get("gpu_peak_mib", row["peak_mib"]) for row in score["rows"]]
        right.semilogx(counts, peaks, marker="o", color=f"C{number}", label=model)
    left.set(xlabel="keypoints", ylabel="seconds (dotted: in proportion)")
    right.set(xlabel="keypoints", ylabel="peak memory, MiB", ylim=(0, None))
    left.legend(frameon=False, fontsize="small")
    return figure


def _figure(height: float) -> Any:
    return require("matplotlib.figure", extra="images").Figure(figsize=(_WIDTH, height + 0.6), layout="constrained")
