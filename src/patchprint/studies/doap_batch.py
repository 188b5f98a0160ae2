"""DOAP's Fig. 4: the size of the batch, trained on Liberty for equally many epochs."""

from patchprint.studies import Case, Lines, Study
from patchprint.studies._ubc import FPR95, MEAN, MEASURES, SETS

PATCHES = (256, 512, 1024, 2048, 4096)
# 100 epochs of Liberty at 1024 patches; others take steps in inverse proportion, and the learning rate follows by itself.
STEPS = 44_000

study = Study(
    summary="DOAP's batch size at equal epochs, trained on Liberty",
    data=SETS,
    cases=tuple(
        Case(
            {"patches in a batch": str(patches)},
            "doap",
            learns="liberty",
            settings={"hold_out": False, "batch": patches, "steps": STEPS * 1024 // patches},
        )
        for patches in PATCHES
    ),
    measures=MEASURES,
    columns=FPR95[1:],
    figures=(Lines((MEAN,), x="patches in a batch", logarithmic=True),),
    notes="Weights of the last step. Published in a figure only: the error falls with the batch and stays from 2048 on.",
)
