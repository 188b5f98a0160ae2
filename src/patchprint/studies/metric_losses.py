"""SEC's main tables, and tuplet margin of the author response, on CUB-200-2011 and Cars196."""

from patchprint.studies import Bars, Case, Study
from patchprint.studies._metric import COLUMNS, LOSSES, MEASURES, NORMS, NOTES, RECIPE, SETS, published, settings

# NMI, F1, R@1: plain, with L2 penalty, with SEC.
PUBLISHED = {
    ("cub", "triplet"): ((59.85, 23.39, 53.34), (60.11, 24.03, 54.81), (64.24, 30.83, 60.82)),
    ("cub", "semihard"): ((69.66, 40.30, 65.31), (70.50, 41.39, 65.60), (71.62, 42.05, 67.35)),
    ("cub", "n-pair"): ((69.58, 40.23, 61.36), (69.73, 40.08, 64.58), (72.24, 43.21, 66.00)),
    ("cub", "multi-similarity"): ((70.57, 40.70, 66.14), (70.89, 41.71, 65.67), (72.85, 44.82, 68.79)),
    ("cub", "tuplet-margin"): ((68.96, 39.25, 63.64), (), (71.00, 42.28, 64.74)),
    ("cars", "triplet"): ((56.66, 24.44, 60.79), (56.65, 23.95, 63.02), (59.17, 25.51, 67.89)),
    ("cars", "semihard"): ((67.64, 38.31, 80.17), (69.24, 40.24, 82.60), (72.67, 44.67, 85.19)),
    ("cars", "n-pair"): ((68.07, 37.83, 78.59), (69.20, 39.13, 81.87), (70.61, 42.12, 82.29)),
    ("cars", "multi-similarity"): ((70.23, 42.13, 84.07), (71.00, 42.55, 84.82), (73.95, 46.49, 85.73)),
    ("cars", "tuplet-margin"): ((69.78, 41.72, 82.87), (), (72.77, 43.03, 84.20)),
}

study = Study(
    summary="five losses of metric learning, plain, with L2 penalty, and with SEC",
    data=SETS,
    cases=tuple(
        Case(
            {"set": data, "loss": loss, "norms": norms},
            RECIPE,
            learns=data,
            settings=settings(loss, norms),
            published=published(*PUBLISHED[data, loss][place]),
        )
        for data in SETS
        for loss in LOSSES
        for place, norms in enumerate(NORMS)
    ),
    measures=MEASURES,
    columns=COLUMNS,
    baseline=("norms", "plain"),
    figures=(
        Bars("R@1", bars="norms", groups=("loss",), panels=("set",)),
        Bars("norm variance", bars="norms", groups=("loss",), panels=("set",)),
    ),
    notes=NOTES,
)
