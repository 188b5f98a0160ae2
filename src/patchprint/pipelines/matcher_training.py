"""Train the graph matcher into a folder, with a report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from patchprint.matching.matcher_training import RECIPE, MatcherSettings, MatcherTask
from patchprint.pipelines.training_run import resumed_config, train_task
from patchprint.training import Outcome


def train_matcher(
    data: Sequence[str | Path] = (),
    *,
    out: str | Path,
    settings: MatcherSettings | None = None,
    resume: bool = False,
    force: bool = False,
) -> Outcome:
    """Train a matcher into the folder ``out``, and write a report; ``best.safetensors`` is then a ``--matcher``.

    Args:
        data: stores of images with tracks (``patchprint data build``). Stores without a model give warped pairs alone.
        out: folder of the run.
        settings: how to train.
        resume: go on from the last checkpoint in ``out``, with the settings and the data of that run.
        force: replace a run that is in ``out`` already.
    """
    config = resumed_config(out, RECIPE, data) if resume else (settings or MatcherSettings()).config(data)
    return train_task(MatcherTask(config), out=out, resume=resume, force=force)
