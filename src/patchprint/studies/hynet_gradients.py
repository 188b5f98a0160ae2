"""HyNet's analysis: how strongly similarities of unit vectors pull, over their angle; nothing is trained."""

from functools import partial
from math import cos, pi, sin

from patchprint.studies import Functions, Study
from patchprint.studies._hynet import normalized_slope

study = Study(
    summary="gradient magnitudes of inner product, L2 distance and HyNet's hybrid of both",
    data={},
    cases=(),
    measures={},
    columns=(),
    figures=(
        Functions(
            "angle in radians",
            "gradient magnitude",
            0.0,
            pi,
            {
                "inner product s: sin(theta)": sin,
                "L2 distance d: cos(theta / 2)": lambda theta: cos(theta / 2),
                "hybrid, alpha 2": partial(normalized_slope, alpha=2.0),
            },
        ),
        Functions(
            "angle in radians",
            "gradient magnitude",
            0.0,
            pi,
            {f"alpha {alpha:g}": partial(normalized_slope, alpha=alpha) for alpha in (0.5, 1.0, 2.0, 4.0, 8.0)},
        ),
    ),
    notes="Slopes with respect to the descriptor before normalization, times its length; the hybrid is divided by its largest "
    "slope, the paper's Z.",
)
