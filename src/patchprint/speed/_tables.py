"""The numbers of a result as rows of text, for the terminal and for the documents."""

from __future__ import annotations

from typing import Any

Table = tuple[list[str], list[list[str]]]


def stage_table(stage: dict[str, Any]) -> Table:
    """Header and rows of one stage of `bench`, fastest first."""
    contenders = stage["contenders"]
    counted = any("patches_per_second" in score for score in contenders.values())
    header = ["", *(["patches/s"] if counted else []), "ms, best", "ms, median", "times faster than"]
    rows = []
    for name, score in sorted(contenders.items(), key=lambda item: item[1]["best_ms"]):
        speed = [f"{score['patches_per_second']:,}"] if counted else []
        peers = ", ".join(f"{times:.3g} {peer}" for peer, times in score["times_faster"].items())
        rows.append([name, *speed, f"{score['best_ms']:,.4g}", f"{score['median_ms']:,.4g}", peers])
    return header, rows


def growth_table(scores: dict[str, Any]) -> Table:
    """Header and rows of `growth`, a row for each model and count."""
    header = ["", "keypoints", "seconds", "microseconds each", "peak MiB"]
    rows = []
    for model, score in scores.items():
        for row in score["rows"]:
            each = 1e6 * row["seconds"] / row["keypoints"]
            peak = row.get("gpu_peak_mib", row["peak_mib"])
            rows.append([model, f"{row['keypoints']:,}", f"{row['seconds']:.4g}", f"{each:,.4g}", f"{peak:,.0f}"])
    return header, rows
