"""SDGMNet's Fig. 7: the attenuation coefficient alpha against HPatches, and how far apart easy and tough patches are."""

from patchprint.studies import Case, Column, Lines, Measure, Study

ALPHAS = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1)
TASKS = ("verification", "matching", "retrieval")
MAP = tuple(Column(f"{task} mAP", f"hpatches.{task}", scale=100) for task in TASKS)
GAP = tuple(Column(f"{task} easy - tough", f"hpatches.{task} easy-tough", scale=100) for task in TASKS)

study = Study(
    summary="SDGMNet's alpha against the three tasks of HPatches",
    data={
        "liberty": "store of UBC's Liberty, or of any other photos",
        "hpatches": "store of HPatches, or one made of image sequences (16 views of a point)",
    },
    cases=tuple(
        Case(
            {"alpha": f"{alpha:g}"},
            "sdgmnet",
            learns="liberty",
            settings={"hold_out": False, "loss_settings": {"alpha": alpha}},
        )
        for alpha in ALPHAS
    ),
    measures={"hpatches": Measure("hpatches", on="hpatches")},
    columns=(*MAP, *GAP),
    figures=(
        Lines(tuple(column.title for column in MAP), x="alpha"),
        Lines(tuple(column.title for column in GAP), x="alpha"),
    ),
    notes="mAP in percent, of the weights of the last step, as in the paper; its values are in a figure only, with the peak of "
    "all three near 0.9 and a gap that falls with alpha.",
)
