"""The author response's Table 5: batch norm or weight norm on the last layer, with and without SEC."""

from typing import Any

from patchprint.studies import Bars, Case, Study
from patchprint.studies._metric import COLUMNS, MEASURES, NOTES, RECIPE, SETS, published, published_variance, settings

# (norm of the last layer, norms): published NMI, F1, R@1, mean norm.
ROWS = {
    ("none", "plain"): ((67.54, 38.31, 80.17), 7.63),
    ("none", "SEC"): ((72.67, 44.67, 85.19), 3.20),
    ("batch", "plain"): ((67.09, 37.31, 80.20), 7.77),
    ("batch", "SEC"): ((67.71, 35.71, 62.46), 7.01),
    ("weight", "plain"): ((66.98, 37.47, 79.42), 9.31),
    ("weight", "SEC"): ((71.81, 43.10, 85.01), 3.18),
}


def _network(last_norm: str) -> dict[str, Any]:
    """Without a norm as the recipe has it, so that `metric-losses` has those runs too (`--reuse`)."""
    return {} if last_norm == "none" else {"network_options": {"last_norm": last_norm}}


study = Study(
    summary="batch norm or weight norm on the last layer, with and without SEC, Cars196, semi-hard triplets",
    data={"cars": SETS["cars"]},
    cases=tuple(
        Case(
            {"last norm": last_norm, "norms": norms},
            RECIPE,
            learns="cars",
            settings={**settings("cars", "semihard", norms), **_network(last_norm)},
            published=published(
                *scores,
                norm_mean=norm_mean,
                norm_variance=published_variance("cars", "semihard", norms) if last_norm == "none" else None,
            ),
        )
        for (last_norm, norms), (scores, norm_mean) in ROWS.items()
    ),
    measures=MEASURES,
    columns=COLUMNS,
    baseline=("norms", "plain"),
    figures=(
        Bars("R@1", bars="norms", groups=("last norm",)),
        Bars("norm variance", bars="norms", groups=("last norm",)),
    ),
    notes=NOTES,
)
