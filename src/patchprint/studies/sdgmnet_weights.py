"""SDGMNet's Fig. 2: its weights over the distributions of the angles at the end of training on Liberty."""

from patchprint.studies import Case, Column, HeatMap, Measure, Profiles, Study

ANGLES = {"positive": "theta+", "negative": "theta-", "relative": "theta_r"}

study = Study(
    summary="SDGMNet's weights over distributions of angles",
    data={"liberty": "store of UBC's Liberty, or of any other photos"},
    cases=(
        Case(
            {"trained on": "liberty"},
            "sdgmnet",
            learns="liberty",
            settings={"hold_out": False},
            published={"E[theta+]": 0.826, "E[theta-]": 1.17, "E[theta_r]": -0.343},
        ),
    ),
    measures={"angles": Measure("angles")},
    columns=(
        *(Column(f"E[{title}]", f"log.loss/{name}", digits=3) for name, title in ANGLES.items()),
        *(Column(f"mean {title} in use", f"angles.statistics.{name}.mean", digits=3) for name, title in ANGLES.items()),
        *(Column(f"std {title} in use", f"angles.statistics.{name}.std", digits=3) for name, title in ANGLES.items()),
    ),
    seeds=(0,),
    figures=(
        Profiles(
            "angles",
            curves=("weights.positive", "weights.negative", "weights.relative"),
            shades=("angles.positive", "angles.negative", "angles.relative"),
            xlabel="angle in radians",
        ),
        HeatMap("angles", "map", xlabel="theta+", ylabel="theta-"),
    ),
    notes="E are the running statistics at the last step, as in Table II at its 190th epoch. Distributions and weights are of "
    "the trained network in use, on patches as they are: without dropout and augmentation angles are smaller than in training.",
)
