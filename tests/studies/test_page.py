"""A study as a page: its tables can be sorted, its drawing is in it."""

from __future__ import annotations

from pathlib import Path

from patchprint.common.table import Table
from patchprint.report.embedded_images import EmbeddedImage
from patchprint.report.page import Text, render
from patchprint.studies import _tables
from patchprint.studies._page import page
from support.made_runs import made_cost

DOCUMENT = """# toy: norms of a toy

Best weights of every run, seed 0.

**The steps of every run are scaled by 0.1.**

| recipe | FPR95 % |
|---|---|
| hardnet | 1.00 ± 0.10 (2.00) |
| <b> | failed |

* failed: toy-a: no data
"""


def test_blocks_become_parts(tmp_path: Path) -> None:
    (tmp_path / "toy.svg").write_text('<svg viewBox="0 0 30 60"></svg>')
    made = page(DOCUMENT, tmp_path / "toy.svg", {"run": made_cost("patchprint study toy")})
    assert made.title == "Norms of a toy" and made.lead == "patchprint study toy"
    results, drawing, _ = made.sections
    assert [type(part) for part in results.parts] == [Text, Text, Table, Text]
    table = results.parts[2]
    assert isinstance(table, Table)
    assert table.header == ["recipe", "FPR95 %"] and table.rows[0] == ["hardnet", "1.00 ± 0.10 (2.00)"]
    (picture,) = drawing.parts
    assert isinstance(picture, EmbeddedImage) and picture.size == (40, 80)
    assert "<b>" not in render(made) and "patchprint study toy" in render(made)
    assert len(page(DOCUMENT, None, {"run": made_cost("x")}).sections) == 2


def test_a_bar_within_a_cell_is_no_border(tmp_path: Path) -> None:
    line = _tables._markdown(["method", "largest |mean|"], [["toy", "0.5"]], 1)
    made = page(f"# toy: a toy\n\n{line}\n", None, {"run": made_cost("x")})
    (table,) = made.sections[0].parts
    assert isinstance(table, Table)
    assert (table.header, table.rows) == (["method", "largest |mean|"], [["toy", "0.5"]])
