"""L2-Net's Table 1: plain and with augmentation, one tower and center-surround, floats and signs."""

from patchprint.studies import Bars, Case, Column, Measure, Study
from patchprint.studies._ubc import FPR95, MEAN, MEASURES, SETS, published

AUGMENTATION = {"": "none", "+": "l2net"}
SIGNS = "mean FPR95 % of signs"


def rows() -> tuple[Case, ...]:
    """One tower first: center-surround starts from its weights."""
    found = []
    for plus, augmentation in AUGMENTATION.items():
        for learned in SETS:
            settings = {"hold_out": False, "augmentation": augmentation}
            tower = Case(
                {"method": f"L2-Net{plus}", "trained on": learned},
                "l2net",
                learns=learned,
                settings=settings,
                published=_published("L2-Net", plus, learned),
            )
            both = Case(
                {"method": f"CS L2-Net{plus}", "trained on": learned},
                "l2net-cs",
                learns=learned,
                settings=settings,
                published=_published("L2-Net CS", plus, learned),
                starts_from=tower.name,
            )
            found += [tower, both]
    return tuple(found)


def _published(method: str, plus: str, learned: str) -> dict[str, float]:
    return {**published(method + plus, learned), SIGNS: published(f"{method} binary{plus}", learned)[MEAN]}


study = Study(
    summary="L2-Net and its center-surround network, floats and signs, without and with augmentation",
    data=SETS,
    cases=rows(),
    measures=MEASURES | {f"{name} signs": Measure("ubc", on=name, signs=True) for name in SETS},
    columns=(*FPR95, Column(SIGNS, tuple(f"{name} signs.fpr95" for name in SETS))),
    mean_over="trained on",
    figures=(Bars(MEAN, bars="trained on", groups=("method",)), Bars(SIGNS, bars="trained on", groups=("method",))),
    notes="Weights of the last step; center-surround starts from those of one tower with the same seed, and its surround stays "
    "as it is. It needs patches of 64 pixels.",
)
