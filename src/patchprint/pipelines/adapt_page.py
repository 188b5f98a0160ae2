"""The report of ``patchprint adapt``: what the tuned descriptor gained, on what, how to use it, and the scene it learned."""

from __future__ import annotations

import shlex
from pathlib import Path

from patchprint.common.provenance import Result
from patchprint.interop.colmap_models import read_model
from patchprint.pipelines.adapt_judge import VERDICTS, measured_in
from patchprint.pipelines.adaptation import reconstruction_in
from patchprint.report.angles import angle_sections
from patchprint.report.example_images import example_sections
from patchprint.report.page import Code, Page, Section
from patchprint.report.reconstruction import draw_model, name_of, scene_section
from patchprint.report.run_cost import cost_sections, origin
from patchprint.report.runs import read_run, run_sections, settings_parts
from patchprint.report.tables import Table, best_of


def page(result: Result, weights: Path, work: Path) -> Page:
    """A page from a Result of ``pipelines.adapt.adapt``, with its tuned ``weights`` and what it left in ``work``."""
    data = result.data
    runs = [read_run(work / "training")]
    return Page(
        f"A descriptor tuned to {name_of(Path(data['path']))}",
        VERDICTS[result.model["verdict"]],
        f"{result.model['start']} tuned on {data['photos'] - data['held_out_photos']} photos of {data['path']}, "
        f"{data['held_out_photos']} photos held out, {data['points']:,} points.",
        [
            Section("What was gained", [_table(result)]),
            Section("Use it", [Code(f"patchprint match A.jpg B.jpg --model {shlex.quote(str(weights))}")]),
            *_scene(Path(data["path"]), work),
            *run_sections(runs),
            *angle_sections(runs),
            *example_sections(runs),
            *cost_sections([], runs, [Code(str(result.run["command"])), *settings_parts(runs)]),
        ],
        f"Seed {result.seed}, {result.run['seconds']:,.0f} seconds in all; {origin([dict(result.run)])}",
    )


def _table(result: Result) -> Table:
    scores, measures = result.scores, measured_in(result.scores)
    rows = [[name, *(each.shown(score[key]) for key, each in measures.items())] for name, score in scores.items()]
    best = {
        best_of(k + 1, [row[k + 1] for row in rows], [score[key] for score in scores.values()], each.lower_is_better)
        for k, (key, each) in enumerate(measures.items())
    }
    return Table(
        ["descriptor", *(each.label for each in measures.values())],
        rows,
        f"All descriptors on the same keypoints, {result.data['pairs']} pairs of photos, of which training never saw at least "
        "one. Matching AP: average precision of the nearest neighbors among all keypoints of the other photo. Verified "
        "matches: those that agree with one geometry, a pair. Confused: points of a region that training never saw to which, "
        f"between two photos, another point's print is nearer than their own; lower is better. {_mapped(result)}",
        frozenset(best),
    )


def _mapped(result: Result) -> str:
    mapped = result.data["mapped"]
    if "left_out" in mapped:
        return str(mapped["left_out"])
    return (
        f"3D model: what COLMAP triangulates from the matches of {mapped['pairs']} pairs of {mapped['photos']} photos; "
        "training never saw at least one photo of each pair. Photos are in it that show at least 30 points."
    )


def _scene(photos: Path, work: Path) -> list[Section]:
    """The reconstruction that the points come from; none where a run went on with points alone."""
    place = reconstruction_in(photos, work)
    if place is None:
        return []
    model = read_model(place)
    draw_model(model, work / "model.png")
    return [scene_section(model, work / "model.png", "The scene it learned from")]
