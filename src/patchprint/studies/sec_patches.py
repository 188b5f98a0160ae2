"""The spherical embedding constraint on losses of patches, where nobody has published it."""

from patchprint.studies import Bars, Case, Column, Curves, Measure, Study

WEIGHTS = (0.001, 0.01, 0.03, 0.1)
NORMS = {"plain": {}, "L2 penalty": {"norm_penalty": 0.005}} | {
    f"SEC {weight:g}": {"sec": weight} for weight in WEIGHTS
}

study = Study(
    summary="the norms of patch descriptors held together by SEC, by an L2 penalty, and left alone",
    data={"train": "store of patches or tracks to learn from", "test": "another one, for pairs to tell apart"},
    cases=tuple(
        Case({"recipe": recipe, "norms": norms}, recipe, learns="train", settings=settings)
        for recipe in ("hardnet", "hynet", "doap", "sdgmnet")
        for norms, settings in NORMS.items()
    ),
    measures={"test": Measure("ubc", on="test")},
    columns=(
        Column("FPR95 %", "test.fpr95", lower_is_better=True),
        Column("ROC area", "test.roc_auc", digits=4),
        Column("norm variance", "log.norm/variance", digits=4, compared=False),
        Column("norm mean", "log.norm/mean", digits=3, compared=False),
    ),
    weights="best",
    baseline=("norms", "plain"),
    figures=(
        Bars("FPR95 %", bars="norms", groups=("recipe",)),
        Curves("norm/variance", "variance of the norms in a batch", panels=("recipe",)),
    ),
    notes="Norms are those of the last batch of training. HyNet's loss has a penalty on the norms of its own. At "
    "weight 1 the gradient of SEC is 1 (HyNet, SDGMNet) to 40 times (DOAP) that of the loss, which harms all four losses."
    " Networks end in a batch norm, which the paper found to spoil SEC.",
)
