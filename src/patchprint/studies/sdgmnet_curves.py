"""SDGMNet's Fig. 6a and Sec. V-A: the test error over the run on each UBC set, and the best ten checkpoints."""

from patchprint.studies import Case, Column, Curves, Study
from patchprint.studies._ubc import CHOSEN_ON_TEST, SETS, others

BEST, TOP, LAST = "best", "mean of the best ten", "last"
# Means of the two test sets: Table I, Sec. V-A, the last epoch of the released logs.
PUBLISHED = {
    "liberty": {BEST: (0.30 + 0.80) / 2, TOP: (0.29 + 0.88) / 2, LAST: (0.30 + 0.93) / 2},
    "notredame": {BEST: (0.82 + 0.76) / 2, TOP: (0.86 + 0.80) / 2, LAST: (0.86 + 0.92) / 2},
    "yosemite": {BEST: (1.41 + 0.46) / 2, TOP: (1.55 + 0.51) / 2, LAST: (1.49 + 0.46) / 2},
}

study = Study(
    summary="SDGMNet's mean FPR95 on two test sets over the run",
    data=SETS,
    cases=tuple(
        Case(
            {"trained on": learned},
            "sdgmnet",
            learns=learned,
            settings={"keep_best": 10},
            selects_on=others(learned),
            published=PUBLISHED[learned],
        )
        for learned in SETS
    ),
    measures={},
    columns=(
        Column(BEST, "outcome.measured.fpr95", scale=100),
        Column(TOP, "outcome.mean.fpr95", scale=100),
        Column(LAST, "log.test/fpr95", scale=100),
        Column("best step", "outcome.best_step", digits=0),
    ),
    weights="best",
    figures=(Curves("test/fpr95", "mean FPR95 % of two test sets", scale=100, marks_least=True),),
    notes=CHOSEN_ON_TEST
    + " Numbers are the mean FPR95 of the two test sets in percent. The paper trained ten times; its best ten "
    "checkpoints have spreads of 0.02 to 0.14 on single sets. Its figure starts at the 101st of 200 epochs.",
)
