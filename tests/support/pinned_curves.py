"""Loss curves of recipes, one for each network, loss and batcher.

``python tests/support/pinned_curves.py [recipe ...]`` writes those named, or those missing.

Hard mining in small batches amplifies roundings up to tenfold a step. So only the first step is pinned of a recipe as it is,
with its own random weights and augmentation. All processors follow the longer curve because none of them rounds at its
start: the weights are NumPy's, keypoints are upright and patches turned by right angles only, so that no sine is needed.
All is computed in float64 and without dropout, whose masks come from PyTorch's generator.
"""

import inspect
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch

if __name__ == "__main__":  # the helpers have one name, however this file is run
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from patchprint import networks
from patchprint.common import rng
from patchprint.common.devices import single_thread
from patchprint.data import augment
from patchprint.networks import NETWORKS, weights
from patchprint.training import RECIPES, resolve
from support import training_data
from support.checkout import TESTS
from support.curve_files import PinnedCurves, Tolerance

STEPS = 20
# One recipe for each network, loss and batcher: the first.
NAMES = list(
    {(config.network, config.loss, config.batcher): name for name, (_, config) in reversed([*RECIPES.items()])}.values()
)[::-1]


@single_thread()  # sums over several threads have another order
def compute(recipe):
    """Loss of the first step as the recipe has it, and of each step from a start that is the same everywhere."""
    published = RECIPES[recipe].config
    options = training_data.narrow(recipe)
    if "dropout" in inspect.signature(NETWORKS[published.network]).parameters:
        options["dropout"] = 0.0
    changes = {"lr": published.lr * 0.1, "precision": "float64", "network_options": options}
    if RECIPES[recipe].config.network == "embedding":
        with tempfile.TemporaryDirectory() as folder:
            return _curves(recipe, {**changes, "batch": 6, "init": None}, training_data.whole_images(Path(folder)))
    source = training_data.images(upright=True, scenes=4, ragged=published.views == 1)
    if published.batcher == "sequence-pairs":
        source = training_data.with_mined_labels(source)
    if published.views == 1:
        changes["batch"] = 32  # patches
    if published.network == "l2net-cs":
        changes["init"] = "random"
    if "run" in published.batcher_options:
        changes["batcher_options"] = {"run": 8}
    if published.teacher:
        # Not the shipped weights, which may become others.
        with tempfile.TemporaryDirectory() as folder:
            small = {name: options[name] for name in ("width", "dim", "dropout") if name in options}
            teacher = _numpy_weights(resolve("hardnet", network_options=small), Path(folder, "teacher.safetensors"))
            return _curves(recipe, {**changes, "teacher": (teacher,)}, source)
    return _curves(recipe, changes, source)


def _curves(recipe, changes, source):
    with tempfile.TemporaryDirectory() as folder:
        _, start = training_data.short_run(recipe, Path(folder, "start"), source, **changes, steps=1)
        changes |= {
            "steps": STEPS,
            "init": _numpy_weights(resolve(recipe, **changes), Path(folder, "init.safetensors")),
        }
        if not _is_exact(RECIPES[recipe].config.augmentation):
            changes["augmentation"] = "l2net" if source.channels == 1 else "none"
        _, loss = training_data.short_run(recipe, Path(folder, "run"), source, **changes)
    return {"start": start, "loss": loss}


def _is_exact(augmentation):
    """Whether it only turns by right angles and mirrors."""
    warp = augment.PRESETS[augmentation].warp(rng.key(0), torch.ones(8, 2, 2))
    return torch.equal(warp, warp.round())


def _numpy_weights(config, path):
    """A file of weights that are the same on every processor, unlike PyTorch's random numbers."""
    network, random = networks.create(config.network, **config.network_options), np.random.default_rng(0)
    for module in network.modules():
        # Weights that start as zeros, as the spatial transformer's do, have a reason to.
        if isinstance(module, torch.nn.Conv2d | torch.nn.Linear) and module.weight.any():
            for values in module.parameters(recurse=False):
                normal = random.normal(size=tuple(values.shape)) / np.sqrt(module.weight[0].numel())
                values.data.copy_(torch.from_numpy(normal))
    weights.save(network, path)
    return str(path)


CURVES = PinnedCurves(
    script=Path(__file__).resolve(),
    folder=TESTS / "training" / "curves",
    names=NAMES,
    compute=compute,
    # The weights of a recipe's own start are float32 and end in other digits on other processors.
    allowed={"start": Tolerance(1e-4, 1e-6), "loss": Tolerance(1e-6, 1e-8)},
)

if __name__ == "__main__":
    CURVES.write()
