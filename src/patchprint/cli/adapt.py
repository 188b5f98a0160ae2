"""``patchprint adapt``: tune a descriptor to a folder of photos."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro

from patchprint.cli.flags import WEIGHTS
from patchprint.cli.output import emit, say
from patchprint.common import files
from patchprint.common.table import Table
from patchprint.pipelines.adapt_judge import VERDICTS, measured_in
from patchprint.pipelines.adapt_page import page
from patchprint.pipelines.adaptation import AdaptPlan, adapt
from patchprint.report.page import write


def main(
    images: tyro.conf.Positional[Path],
    out: Path,
    model: Annotated[str, tyro.conf.arg(metavar=WEIGHTS)] = "sdgmnet",
    steps: int = 200,
    batch: int = 128,
    lr: float = 0.1,
    held_out: float = 0.1,
    work: Path | None = None,
    strict: bool = False,
    device: str = "auto",
    seed: int = 0,
    force: bool = False,
    json: bool = False,
) -> None:
    """Tune a descriptor to your own photos, and measure what it gained on photos held out; write it if it gained something.

    Args:
        images: folder of overlapping photos, or of a COLMAP model (images/ and sparse/).
        out: weights to write (.safetensors); a report (.html) and the numbers (.json) go beside them.
        model: where to start.
        steps: training steps.
        batch: points in a batch, two photos of each.
        lr: learning rate at the start.
        held_out: part of the photos that training never sees.
        work: folder for reconstruction and training; a run that was stopped goes on from there. Default: OUT.work
        strict: stop at the first photo that cannot be read; by default it is named and left out.
        device: cpu, cuda, mps or auto.
        seed: of everything random.
        force: replace OUT if it exists.
        json: print the result as JSON.
    """
    plan = AdaptPlan(model, steps, batch, lr, held_out, seed, device, strict)
    place = work or out.with_suffix(".work")
    result = adapt(images, out, place, plan, force, report=say)
    files.write_json(out.with_suffix(".json"), result.to_json())
    write(page(result, out, place), out.with_suffix(".html"))
    measures = measured_in(result.scores).items()
    rows = [(name, *(each.shown(score[key]) for key, each in measures)) for name, score in result.scores.items()]
    text = (
        f"{Table(['', *(each.label for _, each in measures)], rows).to_text()}\n\n{VERDICTS[result.model['verdict']]}"
    )
    emit(result.to_json(), json, text)
    say(f"weights: {out}   report: {out.with_suffix('.html')}")
