"""The author response's Table 1: SimCLR on CIFAR-10 without and with SEC."""

from patchprint.studies import Bars, Case, Column, Curves, Measure, Study

RATES = (0.05, 0.1, 0.2)
# Weight of SEC, published top-1.
ROWS = {"plain": (0.0, 86.63), "SEC": (0.1, 87.00)}

study = Study(
    summary="SimCLR on CIFAR-10 without and with SEC",
    data={"cifar": "labeled images: CIFAR-10"},
    cases=tuple(
        Case(
            {"norms": norms, "rate": f"{rate:g}"},
            "simclr",
            learns="cifar",
            settings={"lr": rate, "sec": weight},
            published={"top-1": top1},
        )
        for norms, (weight, top1) in ROWS.items()
        for rate in RATES
    ),
    measures={"probe": Measure("linear-probe")},
    columns=(
        Column("top-1", "probe.best", scale=100),
        Column("top-1, rate chosen on training images", "probe.chosen", scale=100),
        Column("norm variance", "log.norm/variance", digits=4, compared=False),
        Column("norm mean", "log.norm/mean", compared=False),
    ),
    baseline=("norms", "plain"),
    best_over=("rate", "top-1"),
    figures=(
        Bars("top-1", bars="norms", groups=("rate",)),
        Curves("norm/mean", "mean norm of a batch", panels=("rate",)),
    ),
    notes="Accuracy of a linear classifier in percent; the first column takes, as the paper does, the best of three learning "
    "rates on the test images. Norms are those of the last batch. Published: 150 epochs of all 50,000 training images, the "
    "best of several rates of SimCLR itself from 0.1 to 0.5, so each published value stands in every row of its kind.",
)
