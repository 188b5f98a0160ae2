"""SDGMNet's Tables II to IV: the running statistics of its loss at five epochs on three sets."""

from patchprint.studies import Case, Column, Curves, Study
from patchprint.studies._ubc import SETS

EPOCHS, LAST_EPOCH = (30, 70, 110, 150, 190), 200
# By title: name in metrics.jsonl, places behind the point.
STATISTICS = {
    "E[theta_r]": ("relative", 3),
    "Std[theta_r]": ("relative_std", 3),
    "E[theta+]": ("positive", 3),
    "Std[theta+]": ("positive_std", 3),
    "E[theta-]": ("negative", 2),
    "Std[theta-]": ("negative_std", 4),
    "E[P+]": ("power_positive", 0),
    "E[P-]": ("power_negative", 0),
}
# In their order, at the epochs.
PUBLISHED = {
    "liberty": (
        (-0.286, -0.313, -0.330, -0.339, -0.343), (0.237, 0.231, 0.225, 0.221, 0.218),
        (0.853, 0.839, 0.831, 0.828, 0.826), (0.224, 0.216, 0.211, 0.204, 0.203),
        (1.14, 1.15, 1.16, 1.16, 1.17), (0.0778, 0.0797, 0.0809, 0.0815, 0.0814),
        (281, 280, 280, 279, 279), (299, 297, 295, 294, 294),
    ),
    "notredame": (
        (-0.313, -0.340, -0.357, -0.365, -0.369), (0.233, 0.225, 0.220, 0.215, 0.213),
        (0.826, 0.814, 0.806, 0.802, 0.801), (0.218, 0.209, 0.201, 0.196, 0.195),
        (1.14, 1.15, 1.16, 1.17, 1.17), (0.0866, 0.0860, 0.0860, 0.0860, 0.0860),
        (281, 281, 281, 281, 281), (298, 297, 295, 295, 294),
    ),
    "yosemite": (
        (-0.361, -0.386, -0.400, -0.407, -0.411), (0.246, 0.241, 0.236, 0.233, 0.231),
        (0.810, 0.797, 0.789, 0.785, 0.784), (0.236, 0.230, 0.224, 0.221, 0.219),
        (1.17, 1.18, 1.19, 1.19, 1.19), (0.0650, 0.0665, 0.0681, 0.0690, 0.0697),
        (284, 282, 280, 280, 279), (304, 301, 300, 298, 297),
    ),
}  # fmt: skip

study = Study(
    summary="running statistics of SDGMNet's angles and powers over the run, on each UBC set",
    data=SETS,
    cases=tuple(
        Case(
            {"trained on": learned},
            "sdgmnet",
            learns=learned,
            settings={"hold_out": False},
            published={
                f"{title}, epoch {epoch}": value
                for title, values in zip(STATISTICS, PUBLISHED[learned], strict=True)
                for epoch, value in zip(EPOCHS, values, strict=True)
            },
        )
        for learned in SETS
    ),
    measures={},
    columns=tuple(
        Column(f"{title}, epoch {epoch}", f"log.loss/{name}", digits=digits, at=epoch / LAST_EPOCH)
        for title, (name, digits) in STATISTICS.items()
        for epoch in EPOCHS
    ),
    transposed=True,
    figures=(
        Curves("loss/relative", "E[theta_r]"),
        Curves("loss/positive", "E[theta+]"),
        Curves("loss/negative", "E[theta-]"),
        Curves("loss/power_positive", "E[P+]"),
    ),
    notes="Epochs are parts of a run of 200, whatever its length; powers belong to batches of 1024 pairs. "
    "Angles are in radians.",
)
