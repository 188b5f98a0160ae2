"""``patchprint study NAME --data SET=PATH --out OUT``: a table or figure of a paper, with one command."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import tyro

from patchprint.cli import emit
from patchprint.networks.engines import EXACT
from patchprint.studies import STUDIES, Options, run_study
from patchprint.studies._plan import read_changes, read_sets

# --set a=1 b=2, or --set a=1 --set b=2
Words = tyro.conf.UseAppendAction[tuple[tuple[str, ...], ...]]


def _command(name: str) -> Callable[..., int]:
    study = STUDIES[name]

    def command(
        out: Path,
        data: Annotated[Words, tyro.conf.arg(metavar="SET=PATH")] = (),
        budget: float = 1.0,
        seeds: tuple[int, ...] = (),
        changes: Annotated[Words, tyro.conf.arg(name="set", metavar="SETTING=VALUE")] = (),
        only: str = "*",
        workers: int = 1,
        device: str = "auto",
        engine: str = EXACT,
        keep: bool = False,
        reuse: tuple[Path, ...] = (),
        json: bool = False,
    ) -> int:
        report = run_study(
            name,
            study,
            Options(
                data=read_sets(word for several in data for word in several),
                out=out,
                budget=budget,
                seeds=seeds,
                changes=read_changes(word for several in changes for word in several),
                only=only,
                workers=workers,
                device=device,
                engine=engine,
                keep=keep,
                reuse=reuse,
            ),
        )
        emit(report.result, json, report.table)
        return 1 if report.failed else 0

    sets = "; ".join(f"{title} ({what})" for title, what in study.data.items())
    command.__doc__ = f"""{study.summary}

    Args:
        out: folder of the study: {name}.html (a report), .json, .md, .svg, and its runs. What is done there is not done again.
        data: where a set lies; commas join several stores. Needed: {sets}.
        budget: factor of the steps of every run; 0.01 tries the whole study out.
        seeds: in place of those of the study ({" ".join(map(str, study.seeds))}).
        changes: a setting of all runs, as batch=32 or network_options.width=8; repeatable.
        only: pattern of the names of runs to do, as 'cub-*-seed0'; the others are shown where they were done before.
        workers: runs at a time, each in its own process.
        device: cpu, cuda, mps or auto.
        engine: how networks are computed where they are measured, as in patchprint eval.
        keep: keep the folders of the training runs, with their weights.
        reuse: output folders or JSON files of other studies; their runs with the same settings and data are taken over.
        json: print the result as JSON.
    """
    return command


COMMANDS = {name: _command(name) for name in STUDIES}
