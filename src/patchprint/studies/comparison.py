"""The methods side by side on photos: equal data and steps, each with its own recipe's batch, two seeds.

Nothing is chosen on what is tested: held-out points of the training set choose the weights, and the sequences of the second
test are never learned from. That test is the harder one: FPR95 on tracks of photos is near its floor for all of them.
"""

from patchprint.studies import Bars, Case, Column, Measure, Study

METHODS = ("tfeat", "l2net", "doap", "hardnet", "cdf", "sosnet", "hardnet-frn", "hynet", "sdgmnet")
SETS = {
    "liberty": "store of photos of the Statue of Liberty",
    "notredame": "store of photos of Notre-Dame",
    "landmarks": "stores of photos of buildings in Oxford",
}
STEPS = 4000

study = Study(
    summary="nine methods with equal data and steps, each with its own recipe's batch",
    data={**SETS, "sequences": "store made of image sequences (16 views of a point), never learned from"},
    cases=tuple(
        Case(
            {"method": method, "trained on": learned},
            method,
            learns=learned,
            settings={"steps": STEPS, "patch_scale": 16.0, "validate_every": STEPS // 4, "checkpoint_every": STEPS},
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
        Column("FPR95 %", tuple(f"{name}.fpr95" for name in SETS), digits=3),
        Column("FPR95 % of signs", tuple(f"{name}, signs.fpr95" for name in SETS), digits=3),
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
    f"hard and tough. {STEPS:,} steps are far from the length of any recipe.",
)
