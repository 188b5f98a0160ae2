"""Run by torchrun in test_distributed: trains several recipes, all ranks together; rank 0 leaves the runs behind."""

import sys
from pathlib import Path

import torch
import torch.distributed as dist

from patchprint.training import distributed, resolve, train
from support import training_data

RECIPES = ("hardnet", "doap", "sosnet", "hynet", "sdgmnet")
CHANGES = {"steps": 50, "batch": 16, "checkpoint_every": 50, "validate_every": 50, "log_every": 1}


def run(recipe, folder):
    options = {**training_data.narrow(recipe), "dropout": 0.0}
    # Hard mining is chaotic: at the full rate even roundings of float64 grow to 1e-2 within 50 steps of HyNet.
    settings = {**training_data.SHORT, **CHANGES, "network_options": options, "precision": "float64"}
    settings["lr"] = 0.1 * resolve(recipe).lr
    train(resolve(recipe, **settings), training_data.images(ragged=True), folder / recipe)


def main(folder):
    torch.set_num_threads(1)
    distributed.start("cpu")
    for recipe in RECIPES:
        run(recipe, folder)
        dist.barrier()
    distributed.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
