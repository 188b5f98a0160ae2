"""Tables of studies: those of their pages, and means over what their runs logged."""

from __future__ import annotations

import json
from pathlib import Path

from tools import study_tables

PAGE = """# toy: two tables

Mean over the seeds 0, 1.

| a | b |
| --- | ---: |
| x | 1 |

Mean over sets:

| a | b |
| --- | ---: |
| y | 2 |

Notes.
"""


def test_a_table_of_a_page_by_its_number(tmp_path: Path) -> None:
    folder = tmp_path / "studies" / "toy"
    folder.mkdir(parents=True)
    (folder / "toy.md").write_text(PAGE, encoding="utf-8")
    assert study_tables.page("toy")(tmp_path) == "| a | b |\n| --- | ---: |\n| x | 1 |\n\nresults/studies/toy/toy.md"
    assert "| y | 2 |" in study_tables.page("toy", 1)(tmp_path)


def test_statistics_are_means_over_runs(tmp_path: Path) -> None:
    names = ("positive", "positive_std", "negative", "negative_std", "relative", "relative_std")
    for value in (1.0, 2.0):
        folder = tmp_path / "studies" / "comparison" / "runs" / f"sdgmnet-{value}"
        folder.mkdir(parents=True)
        lines = [
            {
                "step": step,
                **{f"loss/{name}": value for name in names},
                "loss/power_positive": 100 * value,
                "loss/power_negative": 9,
            }
            for step in range(10, 60, 10)
        ]
        lines.append({"step": 50, "val/fpr95": 0.1})
        (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    rows = [line for line in study_tables.statistics(tmp_path).splitlines() if line.startswith("| ")]
    assert [cell.strip() for cell in rows[2].strip("|").split("|")] == ["10", *["1.500"] * 6, "150", "9"]
    assert len(rows) == 2 + 5
