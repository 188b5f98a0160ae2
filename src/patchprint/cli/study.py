"""``patchprint study NAME --data SET=PATH --out OUT``: a table or figure of a paper, with one command."""

from collections.abc import Callable
from dataclasses import replace
from typing import Annotated

import tyro

from patchprint.cli import Commands, emit
from patchprint.studies import STUDIES, Options, run_study
from patchprint.studies._plan import read_changes, read_sets

# --set a=1 b=2, or --set a=1 --set b=2
Words = tyro.conf.UseAppendAction[tuple[tuple[str, ...], ...]]


def _command(name: str) -> Callable[..., int]:
    study = STUDIES[name]

    def command(
        run: Options,
        data: Annotated[Words, tyro.conf.arg(metavar="SET=PATH")] = (),
        changes: Annotated[Words, tyro.conf.arg(name="set", metavar="SETTING=VALUE")] = (),
    ) -> int:
        sets = read_sets(word for several in data for word in several)
        settings = read_changes(word for several in changes for word in several)
        report = run_study(name, study, replace(run, data=sets, changes=settings))
        emit(report.result, report.table)
        return 1 if report.failed else 0

    sets = "; ".join(f"{title} ({what})" for title, what in study.data.items())
    command.__doc__ = f"""{study.summary}

    Seeds: {" ".join(map(str, study.seeds))}.

    Args:
        data: where a set lies; commas join several stores. Needed: {sets}.
        changes: a setting of all runs, as batch=32 or network_options.width=8.
    """
    return command


COMMANDS = Commands(STUDIES, _command)
