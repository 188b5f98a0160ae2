"""``patchprint report RESULTS... --out page.html``: one page that can be sent by mail."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro

from patchprint.commands.output import emit
from patchprint.errors import UserError
from patchprint.files import refuse_file
from patchprint.report.comparison import read_results
from patchprint.report.page import write
from patchprint.report.results_page import results_page
from patchprint.report.runs import read_run, run_sections


def main(
    sources: Annotated[tuple[Path, ...], tyro.conf.Positional],
    out: Path = Path("report.html"),
    title: str = "Benchmark results",
    force: bool = False,
    json: bool = False,
) -> None:
    """One HTML page from results and training runs, several of which share their figures.

    Args:
        sources: result files of patchprint eval, and folders of patchprint train.
        out: the page.
        title: its heading.
        force: replace a page that exists.
        json: print the name of the page and what it holds as JSON.
    """
    if not sources:
        raise UserError("nothing to report on; name result files (results/oxford/*.json) or folders of runs")
    for source in sources:
        if not source.exists():
            raise UserError(f"there is no {source}; name result files or folders of runs")
    refuse_file(out, force)
    runs = [read_run(source) for source in sources if source.is_dir()]
    files = [source for source in sources if not source.is_dir()]
    page = results_page(read_results(files) if files else [], run_sections(runs), title)
    write(page, out)
    emit({"out": str(out), "results": len(files), "runs": len(runs)}, json, f"wrote {out}")
