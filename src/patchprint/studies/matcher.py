"""The matcher graph without some of its parts, and with others, at equal precision on scenes that it does not learn from."""

from patchprint.studies import Bars, Case, Column, Measure, Study
from patchprint.studies._learners import MATCHES

_CHANGES: dict[str, dict[str, object]] = {
    "as shipped": {},
    "no frames": {"frames": False},
    "no edges": {"edges": False},
    "1 round": {"rounds": 1},
    "2 rounds": {"rounds": 2},
    "6 rounds": {"rounds": 6},
    "8 candidates": {"candidates": 8},
    "candidates of one side": {"one_sided": True},
    "8 candidates, of one side": {"candidates": 8, "one_sided": True},
    "neighbors in scale": {"by_scale": True},
    "32 neighbors": {"neighbors": 32},
    "affine prediction": {"affine": True},
    "affine, 8 candidates": {"affine": True, "candidates": 8},
    "affine, 32 neighbors, of one side": {"affine": True, "neighbors": 32, "one_sided": True},
    "width 64": {"width": 64},
    "descriptors as input": {"descriptors": 128},
}

STUDIES = {
    "matcher": Study(
        summary="ablations of the matcher graph: right matches at equal precision, on scenes that it did not learn from",
        data={"train": "stores of images with tracks to learn from", "test": "stores of other places"},
        cases=tuple(
            Case(
                {"network": name},
                "matcher",
                "train",
                {"model": "patchprint.fast", "network": network, "batch": 8, "steps": 4000, "validate_every": 500},
            )
            for name, network in _CHANGES.items()
        ),
        measures={"test": Measure(MATCHES, on="test")},
        columns=(
            Column("right, real pairs", "test.graph.real", digits=1),
            Column("right, warped pairs", "test.graph.warped", digits=1),
            Column("real, over the ratio test", "test.graph.real", over="test.mutual+ratio.real", digits=3),
            Column("lost, held-out images", "outcome.measured.lost", digits=4, lower_is_better=True),
        ),
        seeds=(0,),
        weights="best",
        baseline=("network", "as shipped"),
        figures=(Bars("right, real pairs", bars="network"),),
        notes="Right matches of a pair where nine of ten of all matches are right, by one threshold for all pairs of a kind. "
        "Real pairs are judged by the points of the model and by epipolar lines, warped ones by their homography.",
    )
}
