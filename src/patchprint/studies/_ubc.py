"""What the studies on UBC's sets share: the sets, FPR95 on those that a run did not learn, what the papers print."""

from __future__ import annotations

from patchprint.benchmarks.ubc import PUBLISHED
from patchprint.studies import Column, Measure

SETS = {
    "liberty": "store of UBC's Liberty, or of any other photos",
    "notredame": "store of Notre Dame",
    "yosemite": "store of Yosemite",
}
MEASURES = {name: Measure("ubc", on=name) for name in SETS}
MEAN = "mean FPR95 %"
FPR95 = (
    *(Column(f"{name} FPR95 %", f"{name}.fpr95", lower_is_better=True) for name in SETS),
    Column(MEAN, tuple(f"{name}.fpr95" for name in SETS), lower_is_better=True),
)
LAST = Column("mean at the last step", "log.test/fpr95", scale=100, lower_is_better=True)
CHOSEN_ON_TEST = (
    "As in the paper, the mean FPR95 of the two test sets chooses the step, so numbers of the best step are no fair estimate; "
    "those of the last step are."
)
# Sets of training and test in the benchmark's list.
_ORDER = (
    ("notredame", "liberty"), ("yosemite", "liberty"), ("liberty", "notredame"),
    ("yosemite", "notredame"), ("liberty", "yosemite"), ("notredame", "yosemite"),
)  # fmt: skip


def others(learned: str) -> tuple[str, ...]:
    """The sets that are tested on."""
    return tuple(name for name in SETS if name != learned)


def published(method: str, learned: str) -> dict[str, float]:
    """FPR95 of a method in the benchmark's list, by the titles of the columns, and its mean over the test sets."""
    found = {
        tested: value for (train, tested), value in zip(_ORDER, PUBLISHED[method], strict=True) if train == learned
    }
    return {**{f"{name} FPR95 %": value for name, value in found.items()}, MEAN: sum(found.values()) / len(found)}
