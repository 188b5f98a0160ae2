"""L2-Net: Tables 1 and 2, Fig. 3, its progressive sampling, the threshold of its bits."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from patchprint.benchmarks.ubc import PUBLISHED_FROM_ELSEWHERE
from patchprint.studies import Bars, Case, Column, Curves, Measure, Profiles, Study
from patchprint.studies._measures import FPR95, MEAN, UBC, UBC_SETS, published_fpr95

_SETS = {"train": "store to learn from: HPatches", "test": "another one: UBC"}
_DIF: dict[str, dict[str, Any]] = {
    "A: as published": {},
    "B: no DIF": {"loss_settings": {"e3": False}},
    "C: learned batch norm": {"network_options": {"learned_norm": True}},
    "D: DIF after every layer": {"network_options": {"maps": "all"}},
    "no E2": {"loss_settings": {"e2": False}},
}
_SIGNS = "mean FPR95 % of signs"


def _table(sets: Iterable[str], published: Callable[[str, str], dict[str, float]]) -> Iterator[Case]:
    """One tower comes first: center-surround starts from its weights."""
    for plus, augmentation in (("", "none"), ("+", "l2net")):
        for learned in sets:
            tower = None
            for prefix, suffix, recipe in (("", "", "l2net"), ("CS ", " CS", "l2net-cs")):
                signs = published(f"L2-Net{suffix} binary{plus}", learned)
                case = Case(
                    {"method": f"{prefix}L2-Net{plus}", "trained on": learned},
                    recipe,
                    learned,
                    {"hold_out": False, "augmentation": augmentation},
                    published={**published(f"L2-Net{suffix}{plus}", learned), _SIGNS: signs[MEAN]},
                    starts_from=tower,
                )
                tower = case.name
                yield case


def _published_table2(method: str, learned: str) -> dict[str, float]:
    """Return the FPR95 of a network that was trained on HPatches by column title."""
    values = PUBLISHED_FROM_ELSEWHERE[f"{method} (hpatches)"]
    titles = [*(f"{name} FPR95 %" for name in UBC_SETS), MEAN]
    return dict(zip(titles, [*values, sum(values) / len(values)], strict=True))


_TABLE = partial(
    Study,
    measures=UBC | {f"{name} signs": Measure("ubc", on=name, signs=True) for name in UBC_SETS},
    columns=(*FPR95, Column(_SIGNS, tuple(f"{name} signs.fpr95" for name in UBC_SETS))),
    figures=tuple(Bars(title, bars="trained on", groups=("method",)) for title in (MEAN, _SIGNS)),
    notes="Weights of the last step; center-surround starts from those of one tower with the same seed, and its surround "
    "stays as it is. It needs patches of 64 pixels.",
)

STUDIES = {
    "l2net-dif": Study(
        summary="L2-Net's discriminative maps, its batch norm, and its compact dimensions (E2)",
        data=_SETS,
        cases=tuple(
            Case({"curve": title}, "l2net", "train", settings, selects_on=("test",)) for title, settings in _DIF.items()
        ),
        measures={"test": Measure("ubc", on="test")},
        columns=(Column("ROC area", "test.roc_auc", scale=100, digits=3), Column("FPR95 %", "test.fpr95")),
        baseline=("curve", "A: as published"),
        figures=(Curves("test/fpr95", "FPR95 %", scale=100), Bars("ROC area", bars="curve")),
        notes="The table is of the last step. The paper draws the area under the ROC curve over epochs; here FPR95 is drawn "
        "over steps, and the area is that at the end. Published in a figure only: A is best, C a little below, B and D below. "
        "In its text (Sec. 4.4): without E2 the network does not converge.",
    ),
    "l2net-sampling": Study(
        summary="L2-Net's progressive sampling against batches of random points, and negatives within both views (Y^T Y)",
        data=UBC_SETS,
        cases=tuple(
            Case({"sampling": title}, "l2net", "liberty", {"hold_out": False, "batcher": batcher, **settings})
            for title, batcher, settings in (
                ("random", "pairs", {}),
                ("progressive", "progressive", {}),
                ("progressive, Y^T Y", "progressive", {"loss_settings": {"within": True}}),
            )
        ),
        measures=UBC,
        columns=FPR95[1:],
        baseline=("sampling", "random"),
        figures=(Bars(MEAN, bars="sampling"), Curves("loss/e1", "E1")),
        notes="Weights of the last step. The paper argues for its sampling, says that Y^T Y is not better, and prints no "
        "comparison.",
    ),
    "l2net-table1": _TABLE(
        summary="L2-Net and its center-surround network, floats and signs, without and with augmentation",
        data=UBC_SETS,
        cases=tuple(_table(UBC_SETS, published_fpr95)),
        mean_over="trained on",
    ),
    "l2net-table2": _TABLE(
        summary="L2-Net and its center-surround network, trained on HPatches",
        data={"train": "store of HPatches' easy and hard patches (data build hpatches --levels easy hard)", **UBC_SETS},
        cases=tuple(_table(["train"], _published_table2)),
    ),
    "l2net-threshold": Study(
        summary="bits of L2-Net's descriptors by the threshold of each dimension",
        data=UBC_SETS,
        cases=(Case({"method": "L2-Net+"}, "l2net", "liberty", {"hold_out": False}),),
        measures={name: Measure("thresholds", on=name) for name in ("notredame", "yosemite")},
        columns=tuple(
            Column(f"FPR95 %, {kind}", tuple(f"{name}.fpr95.{kind}" for name in ("notredame", "yosemite")))
            for kind in ("floats", "zero", "mean", "median")
        ),
        figures=tuple(Bars(f"FPR95 %, {kind}", bars="method") for kind in ("zero", "median")),
        notes="Mean of both test sets; means and medians of the test patches, without labels. The paper says that a better "
        "threshold than zero gives better bits, and prints no numbers.",
    ),
    "l2net-values": Study(
        summary="distribution of the values of L2-Net's descriptors, and means of their signs",
        data=_SETS,
        cases=(Case({"method": "L2-Net"}, "l2net", "train", {"hold_out": False}),),
        measures={"values": Measure("values", on="test")},
        columns=(
            Column("mean of a value", "values.mean", digits=4),
            Column("std of a value", "values.std", digits=4),
            Column("mean |mean of a sign|", "values.mean_bit_mean", digits=3),
            Column("largest |mean of a sign|", "values.largest_bit_mean", digits=3),
        ),
        seeds=(0,),
        figures=(
            Profiles("values", shades=("density",), xlabel="value"),
            Profiles("values", curves=("bit_means",), xlabel="number of the bit"),
        ),
        notes="One patch each of up to 100,000 points. Published in a figure only: values near a normal distribution around "
        "zero, and signs with means near zero.",
    ),
}
