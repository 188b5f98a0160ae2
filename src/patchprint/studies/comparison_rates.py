"""Learning rates of nine methods for the length of `comparison`, chosen on held-out points of the training set."""

from patchprint.studies import Bars, Case, Column, Study
from patchprint.studies._comparison import METHODS, STEPS, settings
from patchprint.training import RECIPES

# Rates in units of the recipe's, which is made for 12 to 50 times as many steps.
FACTORS = {name: (1.0, 3.0, 10.0, 30.0) if name in ("doap", "cdf") else (0.3, 1.0, 3.0) for name in METHODS}

study = Study(
    summary=f"learning rates of nine methods for {STEPS} steps, on held-out points",
    data={"train": "store of photos to learn from"},
    cases=tuple(
        Case({"method": method, "rate": f"{rate:g}"}, method, learns="train", settings=settings(method, rate))
        for method in METHODS
        for rate in (factor * RECIPES[method]().lr for factor in FACTORS[method])
    ),
    measures={},
    columns=(
        Column("confusion %", "outcome.measured.confusion", scale=100, digits=3, lower_is_better=True),
        Column("FPR95 %", "outcome.measured.fpr95", scale=100, digits=3, lower_is_better=True),
    ),
    seeds=(0,),
    weights="best",
    best_over=("rate", "confusion %"),
    figures=(Bars("confusion %", bars="rate", groups=("method",)),),
    notes="Confusion: the share of held-out points to which another point is nearer than their own. A rate at the end of its "
    "range may have a better one beyond it. The chosen rates stand in `studies/_comparison.py`.",
)
