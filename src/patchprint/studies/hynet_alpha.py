"""The alpha curve of HyNet (its Fig. 5a): how much inner product is mixed into the distance."""

from patchprint.studies import Case, Lines, Study
from patchprint.studies._hynet import COLUMNS, MATCHING, MEASURES, NOTES, SETS, largest_slope

ALPHAS = (0.0, 0.5, 1.0, 2.0, 3.0, 4.0, 8.0)
METHODS = ("HardNet", "SOSNet")  # by their own recipes
MARGIN = 1.2  # at alpha 2

study = Study(
    summary="HyNet's alpha against HPatches",
    data=SETS,
    cases=tuple(
        Case(
            {"alpha": f"{alpha:g}"},
            "hynet",
            learns="train",
            settings={"loss_settings": {"alpha": alpha, "margin": MARGIN * largest_slope(alpha) / largest_slope(2.0)}},
        )
        for alpha in ALPHAS
    )
    + tuple(Case({"alpha": method}, method.lower(), learns="train") for method in METHODS),
    measures=MEASURES,
    columns=COLUMNS,
    weights="best",
    figures=(Lines((MATCHING.title,), x="alpha", levels=METHODS),),
    notes=NOTES
    + " The margin is the same in units of the largest slope, as in the paper, which divides the similarity by it. "
    "Published in a figure only: one peak, and no alpha below HardNet and SOSNet, here trained by their own recipes.",
)
