"""SDGMNet's Fig. 6c: four self weights without and with power adjustment, beside HyNet and HardNet+FRN, on all UBC sets."""

from typing import Any

from patchprint.studies import Bars, Case, Column, Study
from patchprint.studies._ubc import CHOSEN_ON_TEST, FPR95, LAST, MEAN, MEASURES, SETS, others, published

SELF_WEIGHTS = {"&theta": "theta", "&s": "s", "&l2": "l2", "&AF": "auto-focus"}
POWER = {"-PA": False, "+PA": True}
# "-PA", mean over the three sets. Sec. V-D prints the four numbers without names; that of &theta is 1 by definition, and the
# statistics of Tables II to IV give 1.034 for &l2, 0.928 for &s and 0.941 for &AF.
RATIOS = {"&theta": 1.00, "&s": 0.94, "&l2": 1.02, "&AF": 0.95}
# Rows: self weight, power; recipe, settings of its loss, the row of the published list.
ROWS: dict[tuple[str, str], tuple[str, dict[str, Any], str | None]] = {
    (title, power): (
        "sdgmnet",
        {"self_weight": weight, "power_adjustment": adjusted},
        "SDGMNet (best test epoch)" if (title, power) == ("&AF", "+PA") else None,
    )
    for title, weight in SELF_WEIGHTS.items()
    for power, adjusted in POWER.items()
} | {("HyNet", "none"): ("hynet", {}, "HyNet"), ("HardNet+FRN", "none"): ("hardnet-frn", {}, "HardNet+FRN")}
RATIO = "P+ / P-"

study = Study(
    summary="SDGMNet's self weights without and with power adjustment, beside HyNet and HardNet+FRN",
    data=SETS,
    cases=tuple(
        Case(
            {"self weight": weight, "power": power, "trained on": learned},
            recipe,
            learns=learned,
            settings={"loss_settings": settings},
            selects_on=others(learned),
            published=(published(row, learned) if row else {}) | ({RATIO: RATIOS[weight]} if power == "-PA" else {}),
        )
        for (weight, power), (recipe, settings, row) in ROWS.items()
        for learned in SETS
    ),
    measures=MEASURES,
    columns=(*FPR95, LAST, Column(RATIO, "log.loss/power_positive", over="log.loss/power_negative")),
    weights="best",
    mean_over="trained on",
    figures=(Bars(MEAN, bars="power", groups=("self weight",), levels=("HyNet", "HardNet+FRN")),),
    notes=CHOSEN_ON_TEST
    + " &theta, &s and &l2 are the weights that angle, cosine and L2 distance imply, &AF is auto-focus. "
    "Published ratios of powers are means over the three sets. Further claims of the paper: all bars lie below HardNet+FRN, "
    "&l2-PA by about 0.18, and power adjustment improves each.",
)
