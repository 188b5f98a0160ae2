"""Run by torchrun in test_distributed: trains several recipes, all ranks together; rank 0 leaves the runs behind."""

import sys
from pathlib import Path

import torch
import torch.distributed as dist

from patchprint.training import distributed, resolve, train
from patchprint.training.image_recipes import IMAGE_RECIPES
from support import training_data

RECIPES = ("hardnet", "doap", "sosnet", "hynet", "sdgmnet", "distill", "metric-cub-semihard", "simclr")
CHANGES = {"steps": 50, "batch": 16, "checkpoint_every": 50, "validate_every": 50, "log_every": 1}


def run(recipe, folder):
    if recipe in IMAGE_RECIPES:
        return run_images(recipe, folder)
    options = {**training_data.narrow(recipe), "dropout": 0.0}
    # Hard mining is chaotic: at the full rate even roundings of float64 grow to 1e-2 within 50 steps of HyNet.
    settings = {**training_data.SHORT, **CHANGES, "network_options": options, "precision": "float64"}
    settings["lr"] = 0.1 * resolve(recipe).lr
    if recipe == "distill":
        settings["teacher"] = ("hardnet.small",)  # the smallest
    train(resolve(recipe, **settings), training_data.images(ragged=True), folder / recipe)


def run_images(recipe, folder):
    """Batch norm that learns, in the head or everywhere, and SEC: both look at all ranks."""
    changes = {
        "batch": 8,
        "network_options": training_data.narrow(recipe),
        "precision": "float64",
        "init": None,
        "sec": 0.5,
    }
    changes["lr"] = 0.1 * resolve(recipe).lr
    data = training_data.whole_images(folder / f"{recipe}-{distributed.rank()}")
    train(resolve(recipe, **{**training_data.SHORT, **CHANGES, **changes}), data, folder / recipe)


def main(folder):
    torch.set_num_threads(1)
    distributed.start("cpu")
    for recipe in RECIPES:
        run(recipe, folder)
        dist.barrier()
    distributed.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
