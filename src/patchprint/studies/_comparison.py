"""What `comparison` and `comparison-rates` share: nine methods with equal data, steps and patches in a step."""

from __future__ import annotations

from typing import Any

from patchprint.training import RECIPES

STEPS = 4000
PATCHES = 2048  # in a step: two of each of 1024 points, or whole groups of them
# Side in sigma of the patches that are learned from: that of the patches of image sequences, which are tested on.
PATCH_SCALE = 10.0
METHODS = ("tfeat", "l2net", "doap", "hardnet", "cdf", "sosnet", "hardnet-frn", "hynet", "sdgmnet")
# Learning rates for runs of STEPS, chosen on held-out points by `comparison-rates`; DOAP's is that of 1024 patches.
RATES = {name: RECIPES[name]().lr for name in METHODS} | {"doap": 1.0}


def settings(method: str, rate: float) -> dict[str, Any]:
    """Return the settings of a run of a method."""
    batch = PATCHES // RECIPES[method]().views
    lengths = {"steps": STEPS, "validate_every": STEPS // 4, "checkpoint_every": STEPS}
    return {"batch": batch, "lr": rate, "patch_scale": PATCH_SCALE, **lengths}
