"""``patchprint report SOURCES... --out page.html``: one page that can be sent by mail."""

from pathlib import Path
from typing import Annotated

import tyro

from patchprint.cli import emit
from patchprint.common.errors import UserError
from patchprint.common.files import check_output_file
from patchprint.report.embedded_images import SUFFIXES
from patchprint.report.full_report import whole_page
from patchprint.report.page import write
from patchprint.report.result_comparison import read_results
from patchprint.report.runs import read_runs


def main(
    sources: Annotated[tuple[Path, ...], tyro.conf.Positional],
    out: Path = Path("report.html"),
    title: str = "",
    force: bool = False,
) -> None:
    """Write one HTML page of results, training runs and images; comparable results share tables and charts.

    Args:
        sources: result files of patchprint eval, folders of patchprint train, and images (.png, .jpg), such as those of
            patchprint match.
        out: the page; it needs no other file and no network.
        title: its heading; by default what it shows.
        force: replace a page that exists.
    """
    if not sources:
        raise UserError("nothing to report on; name result files (results/oxford/*.json) or folders of runs")
    for source in sources:
        if not source.exists():
            raise UserError(f"there is no {source}; name result files or folders of runs")
    check_output_file(out, force)
    runs = read_runs([source for source in sources if source.is_dir()])
    images = [source for source in sources if source.suffix.lower() in SUFFIXES and not source.is_dir()]
    files = [source for source in sources if not source.is_dir() and source not in images]
    write(whole_page(read_results(files) if files else [], runs, images, title), out)
    counts = {"results": len(files), "runs": len(runs), "images": len(images)}
    emit({"out": str(out), **counts}, f"wrote {out}")
