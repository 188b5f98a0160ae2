"""DOAP's number of bins b (its Sec. 3.2), in which distances are counted."""

from patchprint.studies import Case, Lines, Study
from patchprint.studies._ubc import FPR95, MEAN, MEASURES, SETS

study = Study(
    summary="DOAP's number of bins, trained on Liberty",
    data=SETS,
    cases=tuple(
        Case(
            {"bins": str(bins)}, "doap", learns="liberty", settings={"hold_out": False, "loss_settings": {"bins": bins}}
        )
        for bins in (5, 10, 15, 20, 25, 50)
    ),
    measures=MEASURES,
    columns=FPR95[1:],
    figures=(Lines((MEAN,), x="bins"),),
    notes="Weights of the last step. The paper says that up to 25 bins suffice and prints no numbers.",
)
