"""SEC's main tables, and tuplet margin of the author response, on CUB-200-2011 and Cars196."""

from collections.abc import Iterator

from patchprint.benchmarks.retrieval import PUBLISHED
from patchprint.studies import Bars, Case, Study
from patchprint.studies._metric import (
    COLUMNS,
    LOSSES,
    MEASURES,
    NORMS,
    NOTES,
    RECIPE,
    SETS,
    at_one_rate,
    published,
    published_variance,
    settings,
)  # fmt: skip

_PUBLISHED = {"cub": PUBLISHED["CUB-200-2011"].rows, "cars": PUBLISHED["Cars196"].rows}


def _cases() -> Iterator[Case]:
    for data in SETS:
        for loss in LOSSES:
            for place, norms in enumerate(NORMS):
                scores = _PUBLISHED[data][loss][place] or ()
                yield Case(
                    {"set": data, "loss": loss, "norms": norms},
                    RECIPE,
                    learns=data,
                    settings=settings(data, loss, norms),
                    published=published(*scores, norm_variance=published_variance(data, loss, norms)),
                )
            if loss == "multi-similarity":
                labels = {"set": data, "loss": loss, "norms": "plain, settings of SEC"}
                yield Case(labels, RECIPE, learns=data, settings=at_one_rate(loss))


study = Study(
    summary="five losses of metric learning, plain, with L2 penalty, and with SEC",
    data=SETS,
    cases=tuple(_cases()),
    measures=MEASURES,
    columns=COLUMNS,
    baseline=("norms", "plain"),
    figures=(
        Bars("R@1", bars="norms", groups=("loss",), panels=("set",)),
        Bars("norm variance", bars="norms", groups=("loss",), panels=("set",)),
    ),
    notes=NOTES
    + " As in the paper, multi-similarity without SEC has a lower rate and no batch norm before the head; one more row has "
    "SEC's rate and batch norm, and no SEC.",
)
