"""A loss with a recipe is four files, and two curves that scripts write: a throw-away one is added to a copy."""

from __future__ import annotations

from pathlib import Path

import pytest

from additions.trial import after, trial

pytestmark = pytest.mark.slow

pytest.importorskip("skimage", reason="the photographs of the short training come with scikit-image")

LOSS = '''"""Triplets of the hardest negatives, divided by a running mean of the positive distances."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from patchprint.losses.loss import PairLoss, Pairs, require_at_least
from patchprint.losses.mining import hardest_across, l2


class YoursLoss(PairLoss):
    """``mean_i max(0, 1 + d+_i - d-_i) / (1 + mu)``, mu the running mean of d+ (detached)."""

    variants: ClassVar = {"": {}, "fast": {"rate": 0.5}}
    mean: Tensor
    started: Tensor

    def __init__(self, rate: float = 0.1) -> None:
        super().__init__()
        self.rate = require_at_least("rate", rate, 0.0)
        self.register_buffer("mean", torch.tensor(0.0))
        self.register_buffer("started", torch.tensor(False))

    @classmethod
    def settings_for_run(cls, *, steps: int, batch: int, seed: int) -> dict[str, Any]:
        return {"rate": min(1.0, 10 / steps)}

    def compute_pairs(self, pairs: Pairs) -> dict[str, Tensor]:
        near = l2(pairs.anchor, pairs.positive)
        far = hardest_across(pairs)
        with torch.no_grad():
            batch_mean = near.mean()
            mean = torch.where(self.started, self.mean + self.rate * (batch_mean - self.mean), batch_mean)
            if self.training:
                self.mean.copy_(mean)
                self.started.fill_(True)
        return {"total": torch.relu(1.0 + near - far).mean() / (1.0 + mean), "far": far.mean()}
'''

REFERENCE = '''"""The throw-away loss, in loops."""

from reference.formula import units
from reference.mining import distance, hardest_across


def reference(settings, points, dim):
    return Yours(**settings)


class Yours:
    def __init__(self, rate=0.1):
        self.rate, self.mean = rate, None

    def near(self, raw):
        return [distance(u, v) for u, v in zip(*units(raw), strict=True)]

    def step(self, raw, progress):
        mean = sum(self.near(raw)) / len(raw)
        self.mean = mean if self.mean is None else (1 - self.rate) * self.mean + self.rate * mean

    def value(self, raw):
        triplets = zip(self.near(raw), hardest_across(*units(raw)), strict=True)
        return sum(max(0.0, 1 + near - far) for near, far in triplets) / len(raw) / (1 + self.mean)
'''

RECIPE = """_add(
    "yours",
    "The throw-away loss on HardNet's network.",
    "hardnet", loss="yours",
)
"""

ASSEMBLED = """
import torch
from patchprint.training import assembly, resolve
assert assembly.create(resolve("yours", steps=100), torch.device("cpu")).loss.rate == 0.1
assert assembly.create(resolve("yours", steps=100, loss_settings={"rate": 0.2}), torch.device("cpu")).loss.rate == 0.2
"""


def test_a_loss_is_four_files_and_its_curves(tmp_path: Path) -> None:
    touched = trial(
        tmp_path,
        files={
            "src/patchprint/losses/yours.py": LOSS,
            "src/patchprint/losses/__init__.py": after('"exp-tl":', '        "yours": "yours:YoursLoss",\n'),
            "tests/reference/yours.py": REFERENCE,
            "src/patchprint/training/recipes.py": _add_recipe,
        },
        curves=[["tests/support/loss_training.py", "yours"], ["tests/support/pinned_curves.py", "yours"]],
        check=ASSEMBLED,
        run=["tests/losses", "tests/training/test_recipes.py"],
        keyword="yours",
        build_site=True,
    )
    assert touched == [
        "src/patchprint/losses/__init__.py",
        "src/patchprint/losses/yours.py",
        "src/patchprint/training/recipes.py",
        "tests/losses/curves/yours.json",
        "tests/reference/yours.py",
        "tests/training/curves/yours.json",
    ]


def _add_recipe(text: str) -> str:
    place = text.index('_add(\n    "hardnet-gor"')
    return text[:place] + RECIPE + text[place:]
