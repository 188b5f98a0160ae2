"""Tables of ``results/studies/``: as the study itself wrote them, and what its runs logged."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from statistics import fmean

from patchprint.training.run_folder import read_metrics
from tools.markdown import table


def page(study: str, number: int = 0) -> Callable[[Path], str]:
    """The table of that number in the page of a study."""

    def found(results: Path) -> str:
        text = (results / "studies" / study / f"{study}.md").read_text(encoding="utf-8")
        tables = [part for part in text.split("\n\n") if part.startswith("|")]
        return f"{tables[number].strip()}\n\nresults/studies/{study}/{study}.md"

    return found


def statistics(results: Path) -> str:
    """SDGMNet's running statistics over training (its Tables II to IV), mean over the runs of the comparison."""
    lines_of: dict[int, list[dict[str, float]]] = defaultdict(list)
    for log in sorted((results / "studies" / "comparison" / "runs").glob("sdgmnet-*/metrics.jsonl")):
        for line in read_metrics(log):
            if "loss/relative" in line:
                lines_of[int(line["step"])].append(line)
    names = ("positive", "positive_std", "negative", "negative_std", "relative", "relative_std")
    rows = [
        [
            str(step),
            *(f"{fmean(line[f'loss/{name}'] for line in lines):.3f}" for name in names),
            *(f"{fmean(line[f'loss/power_{sign}'] for line in lines):.0f}" for sign in ("positive", "negative")),
        ]
        for step, lines in sorted(lines_of.items())
        if step % (max(lines_of) // 5) == 0
    ]
    header = ["step", "theta+", "std", "theta-", "std", "theta+ - theta-", "std", "power+", "power-"]
    return table(
        header, rows, "`sdgmnet` in training, mean over three sets and two seeds: results/studies/comparison/runs/."
    )
