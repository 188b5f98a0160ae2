"""SEC's main tables, and tuplet margin of the author response, on CUB-200-2011 and Cars196."""

from patchprint.benchmarks.retrieval import PUBLISHED
from patchprint.studies import Bars, Case, Study
from patchprint.studies._metric import COLUMNS, LOSSES, MEASURES, NORMS, NOTES, RECIPE, SETS, published, settings

_PUBLISHED = {"cub": PUBLISHED["CUB-200-2011"].rows, "cars": PUBLISHED["Cars196"].rows}

study = Study(
    summary="five losses of metric learning, plain, with L2 penalty, and with SEC",
    data=SETS,
    cases=tuple(
        Case(
            {"set": data, "loss": loss, "norms": norms},
            RECIPE,
            learns=data,
            settings=settings(loss, norms),
            published=published(*(_PUBLISHED[data][loss][place] or ())),
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
