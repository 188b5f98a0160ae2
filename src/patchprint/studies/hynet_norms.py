"""HyNet's author response on R_L2: what equal norms of matching descriptors are worth, by illumination and viewpoint."""

from patchprint.studies import Bars, Case, Column, Study
from patchprint.studies._hynet import COLUMNS, MATCHING, MEASURES, NOTES, SETS

KINDS = {"illum": "illumination", "view": "viewpoint"}
BY_KIND = tuple(
    Column(
        f"matching mAP, {what}",
        tuple(f"hpatches.matching.{level}.{kind}.python" for level in ("easy", "hard", "tough")),
        scale=100,
    )
    for kind, what in KINDS.items()
)

study = Study(
    summary="HyNet without and with equal norms (R_L2)",
    data=SETS,
    cases=(
        Case({"R_L2": "without"}, "hynet", learns="train", settings={"loss_settings": {"norm_weight": 0.0}}),
        Case(
            {"R_L2": "with"},
            "hynet",
            learns="train",
            published_gain={
                MATCHING.title: 0.39,
                "matching mAP, illumination": 0.57,
                "matching mAP, viewpoint": 0.21,
            },
        ),
    ),
    measures=MEASURES,
    columns=(*COLUMNS, *BY_KIND),
    weights="best",
    baseline=("R_L2", "without"),
    figures=tuple(Bars(column.title, bars="R_L2") for column in (MATCHING, *BY_KIND)),
    notes=NOTES,
)
