"""Loss curves of all recipes, as the tests expect them: ``python tests/pinned_curves.py`` writes them anew.

Beside each curve stands how far it moves when the starting weights change in the sixth digit: other processors round
otherwise, and small batches with hard mining amplify that. The rate is a tenth of the published one for the same reason.
"""

import json
import sys
import tempfile
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent))

import training_data
from patchprint.training import RECIPES, assembly

FILE = Path(__file__).resolve().parent / "training" / "curves.json"


def curve(recipe, folder):
    """Loss of each of 30 steps of a recipe with a narrow network on small data."""
    changes = {"lr": RECIPES[recipe]().lr * 0.1}
    source = None
    if recipe == "doap-st-lm":
        source = training_data.mined_patches(folder / "store")
        changes |= {"batch": 8, "views": 4}
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # batch norm adds up otherwise with more
    try:
        outcome, losses = training_data.short_run(recipe, folder / "run", source, **changes)
    finally:
        torch.set_num_threads(threads)
    assert outcome.steps == len(losses) == 30
    return losses


def _write():
    create, curves = assembly._create_network, {}

    def nudged(config):
        network, generator = create(config), torch.Generator().manual_seed(1)
        with torch.no_grad():
            for parameter in network.parameters():
                parameter.mul_(1 + 1e-6 * torch.randn(parameter.shape, generator=generator))
        return network

    for recipe in RECIPES:
        runs = []
        for assembly._create_network in (create, nudged):
            with tempfile.TemporaryDirectory() as folder:
                runs.append(curve(recipe, Path(folder)))
        moved = [round(max(abs(a - b) for a, b in list(zip(*runs, strict=True))[: step + 1]), 7) for step in range(30)]
        curves[recipe] = {"loss": [round(value, 6) for value in runs[0]], "moved": moved}
        print(recipe, runs[0][0], runs[0][-1], moved[4], moved[-1], flush=True)
    FILE.write_text(json.dumps(curves, indent=1) + "\n")


if __name__ == "__main__":
    _write()
