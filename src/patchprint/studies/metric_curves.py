"""The author response's Figs. 1 and 2: norms of several samples, and the mean norm of a batch, over training."""

from patchprint.studies import Case, Curves, Study
from patchprint.studies._metric import COLUMNS, MEASURES, NOTES, RECIPE, SETS, settings

study = Study(
    summary="norms over training, plain and with SEC, Cars196",
    data={"cars": SETS["cars"]},
    cases=tuple(
        Case(
            {"loss": loss, "norms": norms},
            RECIPE,
            learns="cars",
            settings={**settings("cars", loss, norms), "watch": 8, "log_every": 10},
        )
        for loss in ("semihard", "n-pair")
        for norms in ("plain", "SEC")
    ),
    measures=MEASURES,
    columns=COLUMNS,
    seeds=(0,),
    figures=(
        Curves("norm/sample-*", "norm of a sample", panels=("loss", "norms"), legend=False),
        Curves("norm/mean", "mean norm of a batch", panels=("loss",)),
        Curves("norm/variance", "variance of the norms in a batch", panels=("loss",)),
    ),
    notes=NOTES,
)
