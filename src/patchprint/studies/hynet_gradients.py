"""HyNet's analysis: how strongly similarities of unit vectors pull, over the angle between them; formulas, nothing is trained."""

from math import cos, pi, sin

from patchprint.studies import Functions, Study
from patchprint.studies._hynet import hybrid_slope, largest_slope

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
                "hybrid, alpha 2": lambda theta: hybrid_slope(theta, 2.0) / largest_slope(2.0),
            },
        ),
        Functions(
            "angle in radians",
            "gradient magnitude",
            0.0,
            pi,
            {
                f"alpha {alpha:g}": lambda theta, alpha=alpha: hybrid_slope(theta, alpha) / largest_slope(alpha)
                for alpha in (0.5, 1.0, 2.0, 4.0, 8.0)
            },
        ),
    ),
    notes="Slopes with respect to the descriptor before normalization, times its length; the hybrid is divided by its largest slope, "
    "the paper's Z.",
)
