"""One table as text, Markdown and HTML."""

from patchprint.common.table import Table, best_cells

TABLE = Table(["model", "mAP"], [["<sift>", "0.47"], ["ours", 1]], "a caption", frozenset({(1, "1")}))


def test_markdown_has_the_caption_below() -> None:
    lines = TABLE.to_markdown().split("\n")
    assert lines[:2] == ["| model | mAP |", "| --- | ---: |"] and lines[-2:] == ["", "a caption"]
    assert "| --- | --- |" in TABLE.to_markdown(numeric=False)


def test_html_is_escaped_and_marks_the_best() -> None:
    html = TABLE.to_html()
    assert "&lt;sift&gt;" in html and "<sift>" not in html
    assert '<td class="best">1</td>' in html and "<td>0.47</td>" in html
    assert '<th scope="col" class="text">model</th><th scope="col">mAP</th>' in html, "words stand to the left"


def test_the_best_is_the_smallest_or_the_largest() -> None:
    rows, values = [["a", "2.0"], ["b", "–"], ["c", "1.0"]], [2.0, None, 1.0]
    assert best_cells(1, rows, values, lower_is_better=True) == {(1, "1.0")}
    assert best_cells(1, rows, values, lower_is_better=False) == {(1, "2.0")}
    assert best_cells(1, rows[:2], values[:2], lower_is_better=True) == frozenset()
