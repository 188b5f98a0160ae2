"""Tables of a page, which a reader sorts by a click on a heading."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class Table:
    """Cells as strings; ``best`` holds (column, cell) pairs to emphasise, ``quiet`` the first cells of rows that stand back."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""
    best: frozenset[tuple[int, str]] = frozenset()
    quiet: frozenset[str] = frozenset()
    title: str = ""
    wide: bool = True

    template: ClassVar[str] = "table.html"
    scripts: ClassVar[tuple[str, ...]] = ("sort.js",)
    styles: ClassVar[tuple[str, ...]] = ()

    def text_columns(self) -> set[int]:
        """Columns that hold words, which stand to the left; numbers stand below each other to the right."""
        return {
            column
            for column in range(len(self.header))
            if not any(row[column][:1].isdigit() or row[column][:1] in "-–." for row in self.rows)
        }


def best_of(column: int, cells: Sequence[str], values: Sequence[float], lower_is_better: bool) -> tuple[int, str]:
    """The entry for ``Table.best`` of one column."""
    choose = min if lower_is_better else max
    return column, cells[values.index(choose(values))]
