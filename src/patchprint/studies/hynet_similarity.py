"""HyNet's hybrid similarity against its parts, the inner product s and the L2 distance d."""

from patchprint.studies import Bars, Case, Study
from patchprint.studies._hynet import COLUMNS, MATCHING, MEASURES, NOTES, SETS, largest_slope

MARGIN = 1.2
# The hybrid's margin in units of its largest slope, since that of the other two is 1.
SIMILARITIES = {
    "s": {"similarity": "inner-product", "margin": MARGIN / largest_slope(2.0)},
    "d": {"similarity": "distance", "margin": MARGIN / largest_slope(2.0)},
    "hybrid": {"similarity": "hybrid", "margin": MARGIN},
}

study = Study(
    summary="HyNet with inner product, with L2 distance and with its hybrid of both",
    data=SETS,
    cases=tuple(
        Case({"similarity": title}, "hynet", learns="train", settings={"loss_settings": settings})
        for title, settings in SIMILARITIES.items()
    ),
    measures=MEASURES,
    columns=COLUMNS,
    weights="best",
    baseline=("similarity", "d"),
    figures=(Bars(MATCHING.title, bars="similarity"),),
    notes=NOTES + " Published: the hybrid gains up to 1.87 in matching.",
)
