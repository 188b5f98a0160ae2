"""The weight of SEC for each loss, and the rates without it, chosen on validation classes: a fifth of the training classes."""

from collections.abc import Iterator

from patchprint.studies import Bars, Case, Column, Measure, Study
from patchprint.studies._metric import LOSSES, RECIPE, SETS, at_one_rate, settings

WEIGHTS = (0.01, 0.03, 0.1, 0.3, 1.0)
# Rates of the head for the losses that a high rate harms without SEC, beside the one that they have with it.
RATES = (1e-5, 2e-5, 5e-5, 1e-4)
RATES_OF = ("triplet", "multi-similarity", "tuplet-margin")


def _cases() -> Iterator[Case]:
    for data in SETS:
        for loss in LOSSES:
            shared = {**at_one_rate(loss), "hold_out": True}
            rate = at_one_rate(loss).get("lr", 1e-4)
            for plain_rate in sorted({rate, *(RATES if loss in RATES_OF else ())}):
                plain = {**settings(data, loss), "hold_out": True, "lr": plain_rate}
                yield Case(_labels(data, loss, plain_rate, 0), RECIPE, data, settings=plain)
            for weight in WEIGHTS:
                yield Case(_labels(data, loss, rate, weight), RECIPE, data, settings={**shared, "sec": weight})


def _labels(data: str, loss: str, rate: float, weight: float) -> dict[str, str]:
    return {"set": data, "loss": loss, "rate": f"{rate:g}", "eta": f"{weight:g}"}


study = Study(
    summary="weights of SEC, and rates without it, on validation classes",
    data=SETS,
    cases=tuple(_cases()),
    measures={"validation": Measure("retrieval", settings={"split": "val", "clusters": False})},
    columns=(
        Column("R@1", "validation.recall.1", scale=100),
        Column("norm variance", "validation.norm_variance", digits=3, compared=False),
        Column("norm mean", "validation.norm_mean", compared=False),
    ),
    seeds=(0,),
    figures=(Bars("R@1", bars="eta", groups=("loss", "rate"), panels=("set",)),),
    notes="Four fifths of the training classes are learned from, the last fifth is measured; test classes play no part. "
    "The chosen weights and rates stand in `studies/_metric.py`.",
)
