"""A declaration that contradicts itself is refused when it is read, not after hours of training."""

import dataclasses
from typing import Any

import pytest

from patchprint.studies import Case, Column, Measure
from support.toy_studies import toy_study


def test_a_case_is_named_by_its_labels() -> None:
    labels = {"set": "CUB", "norms": "L2 penalty", "head": "BN+SEC", "eta": "0.005"}
    assert Case(labels, "hardnet", learns="cub").name == "cub-l2-penalty-bn+sec-0.005"


CASE = toy_study().cases[0]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cases": (CASE, CASE)}, "a name of its own"),
        ({"cases": (CASE, dataclasses.replace(CASE, labels={"recipe": "x"}))}, "needs the labels"),
        ({"cases": (dataclasses.replace(CASE, published={"mAP": 1.0}),)}, "published values for {'mAP'}"),
        ({"cases": (dataclasses.replace(CASE, published_gain={"mAP": 1.0}),)}, "published values for {'mAP'}"),
        ({"cases": (dataclasses.replace(CASE, starts_from="hynet-sec"),)}, "is not an earlier case"),
        ({"cases": (dataclasses.replace(CASE, selects_on=("rome",)),)}, "name the sets"),
        ({"data": {"train": "a store"}}, "name the sets"),
        ({"measures": {"test": Measure("ubc")}}, "name the sets"),
        ({"columns": (*toy_study().columns, Column("R@1", "retrieval.R@1"))}, "retrieval"),
        ({"columns": (*toy_study().columns, Column("both", ("test.fpr95", "other.fpr95")))}, "other"),
    ],
)
def test_contradictions_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        toy_study(**changes)


def test_series_are_those_of_figures_and_columns() -> None:
    assert toy_study().series == ("norm/*", "norm/variance")
