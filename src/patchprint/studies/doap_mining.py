"""DOAP's label mining (its Fig. 5): what distractors inside of a sequence are worth for matching."""

from patchprint.studies import Bars, Case, Column, Measure, Study

MATCHING = "matching mAP"
TASKS = ("verification", "retrieval")
ROWS = {
    ("DOAP", "of other sequences"): "doap-hpatches",
    ("DOAP-ST", "of other sequences"): "doap-st-hpatches",
    ("DOAP-ST", "also mined"): "doap-st-lm",
}

study = Study(
    summary="DOAP on HPatches without and with spatial transformer and label mining",
    data={
        "train": "store of HPatches' training sequences, or made of image sequences, with --mine-labels",
        "hpatches": "the same of other sequences, to test on",
    },
    cases=tuple(
        Case(
            {"method": method, "negatives": negatives},
            recipe,
            learns="train",
            published_gain={MATCHING: 6.0} if recipe == "doap-st-lm" else {},
        )
        for (method, negatives), recipe in ROWS.items()
    ),
    measures={"hpatches": Measure("hpatches", on="hpatches")},
    columns=(
        Column(MATCHING, "hpatches.matching", scale=100),
        *(Column(f"{task} mAP", f"hpatches.{task}", scale=100) for task in TASKS),
    ),
    baseline=("negatives", "of other sequences"),
    figures=(Bars(MATCHING, bars="negatives", groups=("method",)),),
    notes="mAP in percent, weights of the last step. The paper says around 6 for the gain in matching, on split a.",
)
