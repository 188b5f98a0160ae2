"""Accuracy of a linear classifier on the features of a backbone, as SimCLR is evaluated.

The features are those before the projection head. The classifier is trained on the images of the training part (train and val)
and tested on those of the test part, which must show the same classes. The papers name learning rates, batch and epochs and
report the best accuracy, that is, they choose the learning rate on the test images: so does ``best``. ``chosen`` is the
accuracy at the learning rate that is best on a tenth of the training images, held out in a training of its own.

Decided here, since the papers do not say: plain images without augmentation, momentum 0.9, no weight decay, a learning rate
that falls as a cosine to zero, and features without their mean in units of their root mean square length, so that a learning
rate means the same for every backbone.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import TensorDataset

from patchprint.benchmarks._benchmark import Benchmark, Run, Scores
from patchprint.benchmarks._stores import for_every_image, open_images
from patchprint.common import rng
from patchprint.common.errors import UserError
from patchprint.data import splits

# SimCLR on CIFAR-10, accuracy in percent: ResNet-50, 150 epochs.
PUBLISHED = {"SimCLR": 86.63, "SimCLR + 0.1 SEC": 87.00}
_CIFAR10 = (50_000, 10_000)

_MOMENTUM = 0.9
_HELD_OUT = 10  # one of so many training images chooses the learning rate


@dataclass(frozen=True)
class Settings:
    # Learning rates to try.
    rates: tuple[float, ...] = (2.0, 5.0, 10.0)
    # Passes over the training images.
    epochs: int = 50
    # Images in a step.
    batch: int = 256


class LinearProbe(Benchmark):
    """Accuracy of a linear classifier on the features of the backbone."""

    settings = Settings
    scoring = frozenset({"rates", "epochs", "batch"})
    of_images = True

    def evaluate(self, run: Run, settings: Settings) -> Scores:
        """Return accuracy on the test images at each learning rate, the best, and that of the rate chosen without them."""
        arrays = run.predictions("features", lambda: _export(run))
        features, label, is_test = (
            torch.from_numpy(arrays[name]).to(run.device) for name in ("features", "label", "is_test")
        )
        classes, label = label.unique(return_inverse=True)
        train, test = (TensorDataset(features[part], label[part]) for part in (~is_test, is_test))
        accuracy = _accuracies(train, test, len(classes), settings, run.seed)
        order = rng.permutation(rng.fold_in(rng.key(run.seed, device=label.device), 0x9A), len(train))
        held, rest = (TensorDataset(*train[some]) for some in order.tensor_split([len(train) // _HELD_OUT]))
        on_held = _accuracies(rest, held, len(classes), settings, run.seed)
        chosen = int(np.argmax(on_held))
        return {
            "best": max(accuracy),
            "chosen": accuracy[chosen],
            "chosen_rate": settings.rates[chosen],
            "accuracy": dict(zip(map(str, settings.rates), accuracy, strict=True)),
            "held_out_accuracy": dict(zip(map(str, settings.rates), on_held, strict=True)),
            "classes": len(classes),
            "train_images": len(train),
            "test_images": len(test),
            "features": features.shape[1],
        }

    def headline(self, scores: Scores) -> dict[str, float]:
        return {"best accuracy": scores["best"], "accuracy": scores["chosen"]}

    def published(self, result: dict[str, Any]) -> dict[str, dict[str, float]]:
        scores = result["scores"]
        if (scores["train_images"], scores["test_images"]) != _CIFAR10 or scores["classes"] != 10:
            return {}
        return {f"{name} (ResNet-50)": {"best accuracy": value / 100} for name, value in PUBLISHED.items()}


def _accuracies(
    train: TensorDataset, test: TensorDataset, num_classes: int, settings: Settings, seed: int
) -> list[float]:
    """Return accuracy on ``test`` after training with each learning rate."""
    (learned, learned_label), (features, label) = train.tensors, test.tensors
    mean = learned.mean(0)
    length = (learned - mean).square().sum(1).mean().sqrt().clamp(min=1e-12)
    classifiers = _fit(TensorDataset((learned - mean) / length, learned_label), num_classes, settings, seed)
    features = (features - mean) / length
    with torch.no_grad():
        return [float((one(features).argmax(1) == label).double().mean()) for one in classifiers]


def _fit(train: TensorDataset, num_classes: int, settings: Settings, seed: int) -> list[nn.Linear]:
    """Train a classifier for each learning rate, side by side on the same batches."""
    features, label = train.tensors
    classifiers = [nn.Linear(features.shape[1], num_classes, device=label.device) for _ in settings.rates]
    for classifier in classifiers:
        nn.init.zeros_(classifier.weight)
        nn.init.zeros_(classifier.bias)
    groups = [{"params": one.parameters(), "lr": r} for one, r in zip(classifiers, settings.rates, strict=True)]
    optimizer = torch.optim.SGD(groups, momentum=_MOMENTUM)
    steps = settings.epochs * math.ceil(len(train) / settings.batch)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    key = rng.fold_in(rng.key(seed, device=label.device), 0x9B)
    for epoch in range(settings.epochs):
        for rows in rng.permutation(rng.fold_in(key, epoch), len(train)).split(settings.batch):
            optimizer.zero_grad()
            losses = [F.cross_entropy(one(features[rows]), label[rows]) for one in classifiers]
            torch.stack(losses).sum().backward()
            optimizer.step()
            schedule.step()
    return classifiers


def _export(run: Run) -> dict[str, np.ndarray]:
    model, store = run.image_model, open_images(run)
    parts = {name: store.split(name) for name in splits.PARTS}
    classes = {name: set(part.label.tolist()) for name, part in parts.items()}
    if not classes["test"] or not classes["test"] <= classes["train"] | classes["val"]:
        raise UserError(
            f"{run.data_name} has no test images of the classes that it trains on, so nothing can be classified; "
            "measure it with patchprint eval retrieval"
        )
    features, label, is_test = [], [], []
    for name, part in parts.items():
        if part.num_points:
            features.append(for_every_image(run, part, model.features))
            label.append(part.label[part.all_views()[0]].cpu())
            is_test.append(torch.full((len(label[-1]),), name == "test"))
    arrays = {"features": features, "label": label, "is_test": is_test}
    return {name: torch.cat(values).numpy() for name, values in arrays.items()}
