"""Tables of cells as aligned text, Markdown or HTML, and the format of the numbers in them."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

MISSING = "–"


def format_number(value: object, spec: str = "") -> str:
    """Format a number for a cell; what is not a number becomes a dash.

    Args:
        value: the number.
        spec: a format specification such as ``,.1f``; by default four decimals, none for whole numbers.
    """
    if not isinstance(value, int | float):
        return MISSING
    if not spec:
        spec = ".0f" if float(value).is_integer() or abs(value) >= 1000 else ".4f"
    return format(value, spec)


@dataclass(frozen=True)
class Table:
    """Rows of cells under a header; the first cell or cells name the row.

    Args:
        header: names of the columns.
        rows: cells, converted with ``str``; each row is as long as the header.
        caption: a line below the table.
        best: (column, cell) pairs to emphasize in HTML.
        quiet: first cells of the rows to show in a muted color in HTML.
        wide: whether the table takes a full row of a report page.
        labels: number of columns that name the row, aligned to the left in Markdown.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[object]]
    caption: str = ""
    best: frozenset[tuple[int, str]] = frozenset()
    quiet: frozenset[str] = frozenset()
    wide: bool = True
    labels: int = 1

    def to_text(self) -> str:
        """Return columns aligned with spaces: the first to the left, the others to the right."""
        cells = [[str(cell) for cell in row] for row in (self.header, *self.rows)]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = []
        for first, *others in cells:
            right = (cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True))
            lines.append("  ".join([first.ljust(widths[0]), *right]).rstrip())
        return "\n".join(lines)

    def to_markdown(self, numeric: bool = True) -> str:
        """Return a Markdown table with its caption below it.

        Args:
            numeric: align all columns but the labels to the right.
        """
        rule = ["---"] * self.labels + ["---:" if numeric else "---"] * (len(self.header) - self.labels)
        cells = ([str(cell).replace("|", "\\|") for cell in line] for line in (self.header, rule, *self.rows))
        lines = [f"| {' | '.join(line)} |" for line in cells]
        return "\n".join(lines) + (f"\n\n{self.caption}" if self.caption else "")

    def to_html(self) -> str:
        """Return a table that ``sort.js`` of a report page makes sortable; all text is escaped."""
        words = self._text_columns()
        head = "".join(
            f'<th scope="col"{_css("text" if column in words else "")}>{escape(name)}</th>'
            for column, name in enumerate(self.header)
        )
        label = escape(self.caption or "Table")
        parts = [
            f'<div class="scroll" tabindex="0" role="region" aria-label="{label}"><table class="sortable">',
            f"<thead><tr>{head}</tr></thead>",
            "<tbody>",
            *(self._html_row(row, words) for row in self.rows),
            "</tbody>",
            "</table></div>",
        ]
        parts += [f'<p class="caption">{escape(self.caption)}</p>'] if self.caption else []
        return "\n".join(parts)

    def _html_row(self, row: Sequence[object], words: set[int]) -> str:
        first, *others = map(str, row)
        cells = []
        for column, cell in enumerate(others, start=1):
            kind = "best" if (column, cell) in self.best else "text" if column in words else ""
            cells.append(f"<td{_css(kind)}>{escape(cell)}</td>")
        quiet = _css("quiet" if first in self.quiet else "")
        return f'<tr{quiet}><th scope="row">{escape(first)}</th>{"".join(cells)}</tr>'

    def _text_columns(self) -> set[int]:
        """Return the columns that hold words; those are aligned to the left."""
        return {
            column
            for column in range(len(self.header))
            if not any(str(row[column])[:1].isdigit() or str(row[column])[:1] in "-–." for row in self.rows)
        }


def _css(name: str) -> str:
    return f' class="{name}"' if name else ""


def best_cells(
    column: int, rows: Sequence[Sequence[str]], values: Sequence[float | None], lower_is_better: bool
) -> frozenset[tuple[int, str]]:
    """Return the part of ``Table.best`` for one column, whose cells show ``values``; none where there are not two of them."""
    known = [(value, row[column]) for value, row in zip(values, rows, strict=True) if value is not None]
    choose = min if lower_is_better else max
    return frozenset({(column, choose(known, key=lambda each: each[0])[1])} if len(known) > 1 else ())
