"""L2-Net's Fig. 3a: without discriminative maps, with learned batch norm, with maps of all layers."""

from typing import Any

from patchprint.studies import Bars, Case, Column, Curves, Measure, Study

CURVES: dict[str, dict[str, Any]] = {
    "A: as published": {},
    "B: no DIF": {"loss_settings": {"e3": False}},
    "C: learned batch norm": {"network_options": {"learned_norm": True}},
    "D: DIF after every layer": {"network_options": {"maps": "all"}},
}

study = Study(
    summary="L2-Net's discriminative maps and its batch norm",
    data={"train": "store to learn from: HPatches", "test": "another one: UBC"},
    cases=tuple(
        Case({"curve": title}, "l2net", learns="train", settings=settings, selects_on=("test",))
        for title, settings in CURVES.items()
    ),
    measures={"test": Measure("ubc", on="test")},
    columns=(Column("ROC area", "test.roc_auc", scale=100, digits=3), Column("FPR95 %", "test.fpr95")),
    baseline=("curve", "A: as published"),
    figures=(Curves("test/fpr95", "FPR95 %", scale=100), Bars("ROC area", bars="curve")),
    notes="The table is of the last step. The paper draws the area under the ROC curve over epochs; here FPR95 is drawn over "
    "steps, and the area is that at the end. Published in a figure only: A is best, C a little below, B and D below.",
)
