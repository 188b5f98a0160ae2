"""The report of `patchprint.sfm`: how many images were registered, the scene, and what it cost."""

import json
from pathlib import Path
from typing import Any

from patchprint.common.provenance import origin
from patchprint.common.safe_io import read_json
from patchprint.common.table import Table, format_number
from patchprint.pipelines.sfm_folder import SUMMARY
from patchprint.report.page import Code, Page, Part, Section, Text
from patchprint.report.scenes import models_table, name_of, scene_section


def page(out: Path, model: Any) -> Page:
    """A page from ``out/summary.json`` and ``out/model.png``; ``model`` is the ``pycolmap.Reconstruction``."""
    result = read_json(out / SUMMARY, "a summary of patchprint sfm")
    ((descriptor, scores),) = result["scores"].items()
    measured: list[Part] = [models_table(result["scores"])]
    if result["data"]["left_out"]:
        names = ", ".join(result["data"]["left_out"])
        measured.append(Text(f"Left out, since they could not be read: {names}."))
    calls = result["calls"]
    rows = [[call["date"], f"{call['seconds']:,.0f}", format_number(call.get("peak_mib"), ",.0f")] for call in calls]
    if len(calls) > 1:
        peak = max((call["peak_mib"] for call in calls if "peak_mib" in call), default=None)
        rows.append(["all", f"{scores['seconds']:,.0f}", format_number(peak, ",.0f")])
    return Page(
        f"{name_of(Path(result['data']['path']))} in 3D",
        f"{scores['registered']} of {scores['photos']} images were registered, and share {scores['points']:,} points with a "
        f"mean reprojection error of {scores['reprojection_error_px']:.2f} pixels.",
        f"A sparse model by COLMAP from keypoints described with {descriptor}.",
        [
            Section("How much of it", measured),
            scene_section(model, out / "model.png"),
            Section(
                "Cost and commands",
                [
                    Table(
                        ["call ended", "seconds", "peak MiB"],
                        rows,
                        "One line per call: a call that was interrupted is resumed.",
                    ),
                    Code("\n".join(dict.fromkeys(call["command"] for call in calls))),
                    Code(json.dumps(result["settings"], indent=2, ensure_ascii=False), "Settings"),
                ],
            ),
        ],
        origin([result["run"]]),
    )
