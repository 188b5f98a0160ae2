"""The report of ``patchprint sfm``: how much of the photos became a model, the scene to turn, and how it was made."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from patchprint.common.table import Table
from patchprint.interop.colmap_models import read_model
from patchprint.pipelines.sfm_folder import MODEL
from patchprint.report.page import Code, Page, Part, Section, Text
from patchprint.report.reconstruction import models_table, name_of, scene_section
from patchprint.report.run_cost import origin


def page(result: dict[str, Any], out: Path) -> Page:
    """A page from the result that stands in ``out/summary.json``, with the model and the picture in ``out``."""
    scores, run = result["scores"], result["run"]
    own, numbers = next(iter(scores.items()))
    measured: list[Part] = [models_table(scores)]
    if "against_true_cameras" in numbers:
        measured.append(_against_truth(scores))
    if result["data"]["left_out"]:
        names = ", ".join(result["data"]["left_out"])
        measured.append(Text(f"Left out, since they could not be read: {names}."))
    settings = json.dumps(result["settings"], indent=2, ensure_ascii=False)
    return Page(
        f"{name_of(Path(result['data']['path']))} in 3D",
        f"{numbers['registered']} of {numbers['photos']} photos found their place, and share {numbers['points']:,} points with "
        f"a mean error of {numbers['reprojection_error_px']:.2f} pixels.",
        f"A sparse model by COLMAP out of keypoints described with {own}.",
        [
            Section("How much of it", measured),
            scene_section(read_model(out / MODEL / "sparse"), out / "model.png"),
            Section(
                "Cost and commands",
                [
                    Text(f"{run['seconds']:,.0f} seconds, at most {run['peak_mib']:,.0f} MiB."),
                    Code(run["command"]),
                    Code(settings, "Settings"),
                ],
            ),
        ],
        origin([run]),
    )


def _against_truth(scores: dict[str, dict[str, Any]]) -> Table:
    """Errors of camera positions and directions; a dash where too few cameras can be compared."""
    header = ["prints", "cameras", "rotation, median (degrees)", "largest", "position, median", "largest"]
    rows = []
    for name, numbers in scores.items():
        found = numbers["against_true_cameras"]
        parts = [found.get(what, {}) for what in ("rotation_degrees", "position")]
        errors = [part.get(which) for part in parts for which in ("median", "max")]
        rows.append([name, str(found["cameras"]), *("–" if error is None else f"{error:g}" for error in errors)])
    return Table(header, rows, "Positions in the units of the truth.", title="Against the true cameras")
