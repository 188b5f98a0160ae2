"""SDGMNet's Tables II to IV: the running statistics of its loss at five epochs on three sets."""

from patchprint.studies import Case, Column, Curves, Study
from patchprint.studies._ubc import SETS

EPOCHS, LAST_EPOCH = (30, 70, 110, 150, 190), 200
# Name in metrics.jsonl, places behind the point; published at the epochs on liberty, notredame, yosemite.
STATISTICS = {
    "E[theta_r]": ("relative", 3, (-.286, -.313, -.330, -.339, -.343), (-.313, -.340, -.357, -.365, -.369),
                   (-.361, -.386, -.400, -.407, -.411)),
    "Std[theta_r]": ("relative_std", 3, (.237, .231, .225, .221, .218), (.233, .225, .220, .215, .213),
                     (.246, .241, .236, .233, .231)),
    "E[theta+]": ("positive", 3, (.853, .839, .831, .828, .826), (.826, .814, .806, .802, .801),
                  (.810, .797, .789, .785, .784)),
    "Std[theta+]": ("positive_std", 3, (.224, .216, .211, .204, .203), (.218, .209, .201, .196, .195),
                    (.236, .230, .224, .221, .219)),
    "E[theta-]": ("negative", 2, (1.14, 1.15, 1.16, 1.16, 1.17), (1.14, 1.15, 1.16, 1.17, 1.17),
                  (1.17, 1.18, 1.19, 1.19, 1.19)),
    "Std[theta-]": ("negative_std", 4, (.0778, .0797, .0809, .0815, .0814), (.0866, .0860, .0860, .0860, .0860),
                    (.0650, .0665, .0681, .0690, .0697)),
    "E[P+]": ("power_positive", 0, (281, 280, 280, 279, 279), (281, 281, 281, 281, 281), (284, 282, 280, 280, 279)),
    "E[P-]": ("power_negative", 0, (299, 297, 295, 294, 294), (298, 297, 295, 295, 294), (304, 301, 300, 298, 297)),
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
                f"{title}, epoch {epoch}": values[2 + place][number]
                for title, values in STATISTICS.items()
                for number, epoch in enumerate(EPOCHS)
            },
        )
        for place, learned in enumerate(SETS)
    ),
    measures={},
    columns=tuple(
        Column(f"{title}, epoch {epoch}", f"log.loss/{name}", digits=digits, at=epoch / LAST_EPOCH)
        for title, (name, digits, *_) in STATISTICS.items()
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
