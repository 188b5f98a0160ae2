"""Nine methods side by side on images: equal data, steps, patches in a step and patch scale; rates fitted to this length.

Nothing is chosen on what is tested: held-out points of the training set choose the weights, and the sequences of the second
test are never learned from. That test is the harder one: FPR95 on tracks of images is near its floor for all methods.
"""

from typing import Any

from patchprint.studies import Bars, Case, Column, Measure, Study
from patchprint.studies._measures import mean_ap
from patchprint.training import RECIPES

STEPS = 4000
PATCHES = 2048  # in a step: two of each of 1024 points, or whole groups of them
# Side in sigma of the patches that are learned from: that of the patches of image sequences, which are tested on.
PATCH_SCALE = 10.0
_SETS = {
    "liberty": "store of images of the Statue of Liberty",
    "notredame": "store of images of Notre-Dame",
    "landmarks": "stores of images of buildings in Oxford",
}
_METHODS = ("tfeat", "l2net", "doap", "hardnet", "cdf", "sosnet", "hardnet-frn", "hynet", "sdgmnet")
_OWN_RATES = {name: RECIPES[name].config.lr for name in _METHODS}
# Learning rates for runs of STEPS, chosen on held-out points by `comparison-rates`; DOAP's is that of 1024 patches.
_RATES = _OWN_RATES | {"doap": 1.0}
# Rates that are tried, in units of the recipe's, which is made for 12 to 50 times as many steps.
_FACTORS = dict.fromkeys(_METHODS, (0.3, 1.0, 3.0)) | dict.fromkeys(("doap", "cdf"), (1.0, 3.0, 10.0, 30.0))


def _settings(method: str, rate: float) -> dict[str, Any]:
    batch = PATCHES // RECIPES[method].config.views
    lengths = {"steps": STEPS, "validate_every": STEPS // 4, "checkpoint_every": STEPS}
    return {"batch": batch, "lr": rate, "patch_scale": PATCH_SCALE, **lengths}


STUDIES = {
    "comparison": Study(
        summary="nine methods with equal data, steps, and patches in a step",
        data={**_SETS, "sequences": "store made of image sequences (16 views of a point), never learned from"},
        cases=tuple(
            Case({"method": method, "trained on": learned}, method, learned, _settings(method, rate))
            for method, rate in _RATES.items()
            for learned in _SETS
        ),
        measures={
            **{name: Measure("ubc", on=name) for name in _SETS},
            **{f"{name}, signs": Measure("ubc", on=name, signs=True) for name in _SETS},
            "sequences": Measure("hpatches", on="sequences"),
        },
        columns=(
            Column("FPR95 %", tuple(f"{name}.fpr95" for name in _SETS), digits=3, lower_is_better=True),
            Column("FPR95 % of signs", tuple(f"{name}, signs.fpr95" for name in _SETS), digits=3, lower_is_better=True),
            *(mean_ap(task, "sequences") for task in ("matching", "retrieval", "verification")),
        ),
        weights="best",
        mean_over="trained on",
        figures=tuple(Bars(title, bars="trained on", groups=("method",)) for title in ("matching mAP", "FPR95 %")),
        notes="FPR95 is the mean over the two sets that a run did not learn. mAP in percent, with the noise of HPatches: "
        f"easy, hard and tough. Every step sees {PATCHES} patches of {PATCH_SCALE:g} sigma, the side of the sequences' "
        f"patches too; learning rates were chosen for {STEPS:,} steps on held-out points (study comparison-rates). Those "
        "steps are far from the length of any recipe.",
    ),
    "comparison-rates": Study(
        summary=f"learning rates of nine methods for {STEPS} steps, on held-out points",
        data={"train": "store of images to learn from"},
        cases=tuple(
            Case({"method": method, "rate": f"{rate:g}"}, method, "train", _settings(method, rate))
            for method, factors in _FACTORS.items()
            for rate in (factor * _OWN_RATES[method] for factor in factors)
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
        notes="Confusion: the share of held-out points to which another point is nearer than their own. A rate at the end of "
        "its range may have a better one beyond it. The chosen rates stand in `studies/comparison.py`.",
    ),
}
