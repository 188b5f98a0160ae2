"""Run by torchrun in test_distributed: trains several recipes, all ranks together; rank 0 leaves the runs behind."""

import sys
from pathlib import Path

import torch
import torch.distributed as dist

import training_data
from patchprint.training import distributed, resolve, train

RECIPES = ("hardnet", "doap", "sosnet", "hynet", "sdgmnet")
CHANGES = {"steps": 50, "batch": 16, "checkpoint_every": 50, "validate_every": 50, "log_every": 1}


def run(recipe, folder):
    options = {**training_data.narrow(recipe), "dropout": 0.0}
    # Hard mining makes training chaotic: in float32 the roundings of two ranks grow to 1e-2 within 50 steps.
    settings = {**training_data.SHORT, **CHANGES, "network_options": options, "precision": "float64"}
    train(resolve(recipe, **settings), training_data.photos(), folder / recipe)


def main(folder):
    torch.set_num_threads(1)
    distributed.start("cpu")
    for recipe in RECIPES:
        run(recipe, folder)
        dist.barrier()
    distributed.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
