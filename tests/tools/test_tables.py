"""Tables in the documents and the numbers of ``patchprint models`` come from results/ and are up to date."""

import json
from pathlib import Path

import pytest

from patchprint.networks.weights import MEASURED
from tools import tables

RESULTS = tables.ROOT / "results"


@pytest.mark.parametrize("file", tables.documents(), ids=lambda file: file.name)
def test_documents_are_up_to_date(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    assert tables.fill(text, RESULTS) == text, "make tables"


def test_every_table_stands_in_a_document() -> None:
    text = "".join(file.read_text(encoding="utf-8") for file in tables.documents())
    assert [name for name in tables.TABLES if f"<!-- begin {name} -->" not in text] == []


def test_numbers_of_the_shipped_models_are_up_to_date() -> None:
    assert json.loads(MEASURED.read_text(encoding="utf-8")) == tables.measured(RESULTS), "make tables"
