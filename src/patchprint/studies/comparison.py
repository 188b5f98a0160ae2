"""The methods side by side on photos: equal data, steps, patches in a step and patch scale; rates fitted to this length.

Nothing is chosen on what is tested: held-out points of the training set choose the weights, and the sequences of the second
test are never learned from. That test is the harder one: FPR95 on tracks of photos is near its floor for all of them.
"""

from patchprint.studies import Bars, Case, Column, Measure, Study
from patchprint.studies._comparison import METHODS, PATCH_SCALE, PATCHES, RATES, STEPS, settings

SETS = {
    "liberty": "store of photos of the Statue of Liberty",
    "notredame": "store of photos of Notre-Dame",
    "landmarks": "stores of photos of buildings in Oxford",
}

study = Study(
    summary="nine methods with equal data, steps, and patches in a step",
    data={**SETS, "sequences": "store made of image sequences (16 views of a point), never learned from"},
    cases=tuple(
        Case(
            {"method": method, "trained on": learned},
            method,
            learns=learned,
            settings=settings(method, RATES[method]),
        )
        for method in METHODS
        for learned in SETS
    ),
    measures={
        **{name: Measure("ubc", on=name) for name in SETS},
        **{f"{name}, signs": Measure("ubc", on=name, signs=True) for name in SETS},
        "sequences": Measure("hpatches", on="sequences"),
    },
    columns=(
        Column("FPR95 %", tuple(f"{name}.fpr95" for name in SETS), digits=3, lower_is_better=True),
        Column("FPR95 % of signs", tuple(f"{name}, signs.fpr95" for name in SETS), digits=3, lower_is_better=True),
        Column("matching mAP", "sequences.matching", scale=100),
        Column("retrieval mAP", "sequences.retrieval", scale=100),
        Column("verification mAP", "sequences.verification", scale=100),
    ),
    weights="best",
    mean_over="trained on",
    figures=(
        Bars("matching mAP", bars="trained on", groups=("method",)),
        Bars("FPR95 %", bars="trained on", groups=("method",)),
    ),
    notes="FPR95 is the mean over the two sets that a run did not learn. mAP in percent, with the noise of HPatches: easy, "
    f"hard and tough. Every step sees {PATCHES} patches of {PATCH_SCALE:g} sigma, the side of the sequences' patches too; "
    f"learning rates were chosen for {STEPS:,} steps on held-out points (study comparison-rates). Those steps are far from the "
    "length of any recipe.",
)
