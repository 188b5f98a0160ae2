"""L2-Net's progressive sampling (its Sec. 3.3) against batches of random points."""

from patchprint.studies import Bars, Case, Curves, Study
from patchprint.studies._ubc import FPR95, MEAN, MEASURES, SETS

study = Study(
    summary="L2-Net's progressive sampling against batches of random points",
    data=SETS,
    cases=tuple(
        Case({"sampling": title}, "l2net", learns="liberty", settings={"hold_out": False, "batcher": batcher})
        for title, batcher in {"random": "pairs", "progressive": "progressive"}.items()
    ),
    measures=MEASURES,
    columns=tuple(column for column in FPR95 if not column.title.startswith("liberty")),
    baseline=("sampling", "random"),
    figures=(Bars(MEAN, bars="sampling"), Curves("loss/e1", "E1")),
    notes="Weights of the last step. The paper argues for its sampling and prints no comparison.",
)
