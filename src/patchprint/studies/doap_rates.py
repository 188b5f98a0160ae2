"""DOAP's learning rate and batch in a short run, beside HardNet at equal patches in a step, trained on Liberty."""

from patchprint.studies import Case, Lines, Study
from patchprint.studies._ubc import FPR95, MEAN, MEASURES, SETS

STEPS = 4000
RATES = (0.1, 0.3, 1.0, 3.0)  # of 1024 patches; other batches scale it
PATCHES = (1024, 2048, 4096)
POINTS = (512, 1024)  # of HardNet, two patches each

study = Study(
    summary=f"DOAP's learning rate and batch beside HardNet, {STEPS} steps, trained on Liberty",
    data=SETS,
    cases=(
        *(
            Case(
                {"method": "DOAP", "patches in a step": str(patches), "rate": f"{rate:g}"},
                "doap",
                learns="liberty",
                settings={"hold_out": False, "steps": STEPS, "batch": patches, "lr": rate},
            )
            for patches in PATCHES
            for rate in RATES
        ),
        *(
            Case(
                {"method": "HardNet", "patches in a step": str(2 * points), "rate": "10"},
                "hardnet",
                learns="liberty",
                settings={"hold_out": False, "steps": STEPS, "batch": points},
            )
            for points in POINTS
        ),
    ),
    measures=MEASURES,
    columns=FPR95[1:],
    seeds=(0,),
    best_over=("rate", MEAN),
    figures=(Lines((MEAN,), x="patches in a step", lines=("method", "rate"), logarithmic=True),),
    notes="Weights of the last step. DOAP's rate is that of 1024 patches and grows with the batch, as in the paper; that of "
    "HardNet is its own.",
)
