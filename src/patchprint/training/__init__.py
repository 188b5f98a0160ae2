"""Training: configs and recipes, the loop, checkpoints, many processes."""

from patchprint.training.config import TrainConfig
from patchprint.training.loop import Outcome, train
from patchprint.training.recipes import RECIPES, resolve

__all__ = ["RECIPES", "Outcome", "TrainConfig", "resolve", "train"]
