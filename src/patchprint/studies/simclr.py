"""The author response's Table 1: SimCLR on CIFAR-10 without and with SEC."""

from patchprint.studies import Bars, Case, Column, Curves, Measure, Study

study = Study(
    summary="SimCLR on CIFAR-10 without and with SEC",
    data={"cifar": "labeled images: CIFAR-10"},
    cases=(
        Case({"norms": "plain"}, "simclr", learns="cifar", published={"top-1": 86.63}),
        Case({"norms": "SEC"}, "simclr", learns="cifar", settings={"sec": 0.1}, published={"top-1": 87.00}),
    ),
    measures={"probe": Measure("linear-probe")},
    columns=(
        Column("top-1", "probe.best", scale=100),
        Column("top-1, rate chosen on training images", "probe.chosen", scale=100),
        Column("norm variance", "log.norm/variance", digits=4, compared=False),
        Column("norm mean", "log.norm/mean", compared=False),
    ),
    baseline=("norms", "plain"),
    figures=(Bars("top-1", bars="norms"), Curves("norm/mean", "mean norm of a batch")),
    notes="Accuracy of a linear classifier in percent; the first column takes, as the paper does, the best of three learning "
    "rates on the test images. Norms are those of the last batch. Published: 150 epochs of all 50,000 training images, the "
    "best of several rates of SimCLR itself.",
)
