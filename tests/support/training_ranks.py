"""What each of several processes does in test_distributed: it trains some recipes; rank 0 leaves the runs behind."""

import json
from collections.abc import Sequence
from pathlib import Path

import torch.distributed as dist

from patchprint.common import distributed
from patchprint.data.tracks import TrackStore
from patchprint.training import resolve, train
from support import training_data

RECIPES = ("hardnet", "doap", "sosnet", "hynet", "sdgmnet", "distill", "metric-cub", "simclr")
UNDIVIDED = "hardnet"  # of those that learn from photos
STEPS, PHOTOS = 5, 8
CHANGES = {"steps": STEPS, "batch": 16, "checkpoint_every": STEPS, "validate_every": STEPS, "log_every": 1, "watch": 2}


def write_data(folder: Path) -> None:
    """What all recipes learn from."""
    training_data.images(points=80, views=PHOTOS, ragged=True).save(folder / "photos")
    training_data.whole_images(folder)


def run(recipe: str, data: Path, out: Path) -> None:
    # Hard mining is chaotic: at the full rate even roundings of float64 grow to 1e-2 within 50 steps of HyNet.
    settings = {**training_data.SHORT, **CHANGES, "precision": "float64", "lr": 0.1 * resolve(recipe).lr}
    settings["network_options"] = training_data.narrow(recipe)
    if resolve(recipe).network == "embedding":
        # Batch norm that learns, in the head or everywhere, and SEC: both look at all ranks.
        settings |= {"batch": 8, "init": None, "sec": 0.5, "data": (str(data / "images"),)}
    else:
        settings["network_options"] = {**settings["network_options"], "dropout": 0.0}
        settings |= {"data": (str(data / "photos"),), "divide_photos": recipe != UNDIVIDED}
    if recipe == "distill":
        settings["teacher"] = ("patchprint.tiny",)  # the smallest
    train(resolve(recipe, **settings), out=out / recipe)


def run_all(recipes: Sequence[str], data: Path, out: Path) -> None:
    store = TrackStore.open(data / "photos", divided=True)
    (out / f"held-{distributed.rank()}.json").write_text(json.dumps(store.images.held.pyramids.pixels.nbytes))
    for recipe in recipes:
        run(recipe, data, out)
        dist.barrier()
