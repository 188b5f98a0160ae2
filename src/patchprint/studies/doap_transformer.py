"""DOAP's spatial transformer (Table 1) and what it reads beyond the border of a patch (App. B)."""

from patchprint.studies import Bars, Case, Study
from patchprint.studies._ubc import FPR95, MEAN, MEASURES, SETS, published

# Recipe, options of its network, the row of the published list.
ROWS = {
    "none": ("doap", {}, "DOAP+"),
    "border repeated": ("doap-st", {"padding": "border"}, "DOAP-ST+"),
    "zeros": ("doap-st", {"padding": "zeros"}, None),
}

study = Study(
    summary="DOAP without and with spatial transformer, its padding by repeated border or zeros",
    data=SETS,
    cases=tuple(
        Case(
            {"transformer": title, "trained on": learned},
            recipe,
            learns=learned,
            settings={"hold_out": False, "network_options": options},
            published=published(row, learned) if row else {},
        )
        for title, (recipe, options, row) in ROWS.items()
        for learned in SETS
    ),
    measures=MEASURES,
    columns=FPR95,
    baseline=("transformer", "none"),
    mean_over="trained on",
    figures=(Bars(MEAN, bars="transformer", groups=("trained on",)),),
    notes="Weights of the last step. Published for zeros, in words: decent alignment, but no gain.",
)
