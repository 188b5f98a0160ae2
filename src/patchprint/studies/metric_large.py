"""How far the small backbone gets: images of 128 pixels enlarged to the size that it saw on ImageNet, CUB-200-2011.

The settings were chosen on the validation part of the training classes (`docs/metric-learning.md` has the tries).
"""

from patchprint.studies import Bars, Case, Study
from patchprint.studies._metric import COLUMNS, MEASURES, NOTES, RECIPE, SETS, settings

study = Study(
    summary="CUB-200-2011 at 128 pixels, read at 224, semi-hard triplets with SEC",
    data={"cub": SETS["cub"]},
    cases=tuple(
        Case(
            {"norms": norms},
            RECIPE,
            learns="cub",
            settings={**settings("cub", "semihard", norms), "network_options": {"input_size": 224}},
        )
        for norms in ("plain", "SEC")
    ),
    measures=MEASURES,
    columns=COLUMNS,
    baseline=("norms", "plain"),
    figures=(Bars("R@1", bars="norms"),),
    notes=NOTES,
)
