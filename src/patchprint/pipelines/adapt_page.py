"""The report of ``patchprint adapt``: what the tuned descriptor gained, on what, and how to use it."""

from __future__ import annotations

import shlex
from pathlib import Path

from patchprint.pipelines.adapt import MEASURES, VERDICTS
from patchprint.report.page import Page, Section, Table, best_of
from patchprint.types import Result


def page(result: Result, weights: Path) -> Page:
    """A page from a Result of ``pipelines.adapt.adapt``, whose tuned weights lie in ``weights``."""
    rows = [[name, *(f"{100 * score[place]:.2f} %" for place in MEASURES)] for name, score in result.scores.items()]
    best = {
        best_of(k + 1, [row[k + 1] for row in rows], [s[place] for s in result.scores.values()], lower_is_better=True)
        for k, place in enumerate(MEASURES)
    }
    data, run, verdict = result.data, result.run, result.model["verdict"]
    table = Table(
        ["descriptor", *MEASURES.values()],
        rows,
        "False positive rate at 95 % recall, lower is better; all descriptors on the same keypoints. Held-out points lie in a "
        "region of the scene that training never saw; held-out photos show known points in pictures that it never saw. "
        "Confused: points to which, between two photos, another point's print is nearer than their own.",
        frozenset(best),
    )
    return Page(
        f"A descriptor tuned to {data['path']}",
        f"{result.model['start']} tuned on {data['photos'] - data['held_out_photos']} photos, "
        f"{data['held_out_photos']} photos held out, {data['points']} points.",
        [
            Section(f"Verdict: {verdict}", [VERDICTS[verdict]], [table]),
            Section("Use it", code=f"patchprint match A.jpg B.jpg --model {shlex.quote(str(weights))}"),
        ],
        f"{run['command']}, seed {result.seed}, patchprint {run['version']}, {run['date']}, {run['seconds']:.0f} s",
    )
