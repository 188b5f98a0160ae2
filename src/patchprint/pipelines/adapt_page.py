"""The report of ``patchprint adapt``: what the tuned descriptor gained, how to use it, and the training run."""

import dataclasses
import shlex
from pathlib import Path

from patchprint.common.provenance import Result
from patchprint.common.table import Table, best_cells
from patchprint.pipelines.adapt_judge import conclusion
from patchprint.report.page import Code, Page, Section
from patchprint.report.runs import read_run
from patchprint.report.scenes import name_of
from patchprint.report.training_page import training_page


def page(result: Result, weights: Path, work: Path) -> Page:
    """Make the page of a Result of ``pipelines.adapt``, its tuned ``weights`` and its ``work`` folder."""
    data = result.data
    what = result.settings["tune"]
    training = training_page([read_run(work / ("matcher" if what == "matcher" else "training"))])
    model = result.model["start"] if what == "matcher" else str(weights)
    matcher = weights.with_name(f"{weights.stem}-matcher.safetensors") if what == "both" else weights
    use = f"patchprint match A.jpg B.jpg --model {shlex.quote(model)}"
    if what != "descriptor":
        use += f" --matcher {shlex.quote(str(matcher))}"
    return dataclasses.replace(
        training,
        title=f"A {'descriptor and a matcher' if what == 'both' else what} tuned to {name_of(Path(data['path']))}",
        verdict=conclusion(result.model),
        lead=f"{result.model['start']} tuned on {data['images'] - data['held_out_images']} images of {data['path']}, "
        f"{data['held_out_images']} images held out, {data['points']:,} points.",
        sections=[
            Section("What was gained", [_table(result)]),
            Section("Use it", [Code(use)]),
            *training.sections,
            Section("Command", [Code(str(result.run["command"]))]),
        ],
    )


def _table(result: Result) -> Table:
    values = [score["inliers"] for score in result.scores.values()]
    rows = [[name, f"{value:.1f}"] for name, value in zip(result.scores, values, strict=True)]
    return Table(
        ["descriptor", "verified matches, held-out images"],
        rows,
        f"Matches a pair that agree with one geometry, on the same keypoints for all descriptors, in {result.data['pairs']} "
        "pairs of images, of which training never saw at least one.",
        best_cells(1, rows, values, lower_is_better=False),
    )
