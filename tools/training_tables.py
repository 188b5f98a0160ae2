"""Tables of training by several processes, measured and on paper."""

from __future__ import annotations

from pathlib import Path

from tools.markdown import Rows, read, table


def divided(results: Path) -> str:
    """Memory of each process and the losses beside those of one."""
    result = read(results / "scale" / "divided-training.json")
    settings = result["settings"]
    rows: Rows = []
    for run in result["scores"]["runs"]:
        each = run["each"]
        held, peak = (max(process[name] for process in each) for name in ("photos_mib", "peak_mib"))
        how = "all on each" if not run["divided"] else "divided" if run["processes"] > 1 else "all"
        row = [str(run["processes"]), how, f"{held:.0f}", f"{peak:.0f}", f"{run['losses'][-1]:.6f}"]
        apart = f"{run['largest_difference']:.1e}" if run["largest_difference"] else "0"
        rows.append([*row, apart if rows else ""])
    imported = max(process["imported_mib"] for run in result["scores"]["runs"] for process in run["each"])
    header = ["processes", "photos", "MiB of photos each", "peak MiB each", "last loss", "largest difference of a loss"]
    done = f"{settings['steps']} steps of {settings['batch']} pairs"
    caption = f"Imports alone take {imported:.0f} MiB; {done}: results/scale/divided-training.json."
    return table(header, rows, caption)


def on_paper(results: Path) -> str:
    """What more GPUs cost."""
    result = read(results / "speed" / "scaling.json")
    rows = [
        [
            str(way["gpus"]),
            "" if way["gpus"] == 1 else "split by anchors" if way["split"] else "whole on each",
            f"{way['received_megabytes']:.1f}",
            f"{way['exchange_milliseconds'] + way['latency_milliseconds']:.2f}",
            f"{way['mining_milliseconds']:.2f}",
            f"{way['distance_matrix_gigabytes']:.2f}",
            f"{way['step_milliseconds']:.2f}",
            f"{way['patches_per_second'] / 1e6:.2f}",
            f"{way['minutes_for_one_pass']:.1f}",
            f"{way['dollars_for_one_pass']:.2f}",
        ]
        for way in result["scores"]["ways"]
    ]
    header = [
        "GPUs",
        "loss",
        "MB received",
        "exchange ms",
        "mining ms more",
        "table GB",
        "step ms",
        "M patches/s",
        "minutes",
    ]
    return table([*header, "dollars"], rows, "One pass over 10^9 patches, on paper: results/speed/scaling.json.")
