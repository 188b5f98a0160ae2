"""Which images of a labeled set are for training, validation and test.

Embeddings are tested on classes that training never saw, so whole classes go to one part: as the set says it, as a file says
it, or the first half to training. Validation classes are taken from those for training.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from patchprint.common.errors import UserError, suggest
from patchprint.data.builders.labeled_layouts import Listing
from patchprint.data.splits import NEITHER, PARTS, TEST, TRAIN, VAL

_HELD_OUT = 0.2


def part_of_images(listing: Listing, where: Path, train_classes: int | None, split: Path | None) -> np.ndarray:
    """TRAIN, VAL, TEST, or NEITHER for the images of classes that ``split`` leaves out, (M,) uint8.

    Args:
        where: how errors call the set.
        train_classes: how many of the classes are for training, the first ones.
        split: JSON file with the names of the classes of each part.
    """
    label = np.array([image.label for image in listing.images])
    own = [image.part for image in listing.images if image.part is not None]
    if own and (train_classes is not None or split is not None):
        raise UserError(f"{where} comes with a split of its own; leave --train-classes and --split out")
    if train_classes is not None and split is not None:
        raise UserError("--train-classes and --split are two ways to say the same; give one of them")
    if own:
        part = np.array(own, np.uint8)
        if not listing.shares_classes:
            _refuse_overlap(listing.classes, label, part, where)
    elif split is not None:
        part = _from_file(split, listing.classes)[label]
    else:
        part = _first_classes(listing.classes, train_classes, where)[label]
    if VAL not in part:
        hold_out(part, label)
    _refuse_single_images(listing.classes, label[part == TRAIN], where)
    return part


def hold_out(part: np.ndarray, label: np.ndarray) -> None:
    """Turn a fifth of TRAIN into VAL, in place: the last classes, or where the test is on the same classes, images of each."""
    shared = np.isin(label[part == TRAIN], label[part == TEST]).any()
    if not shared:
        part[(part == TRAIN) & np.isin(label, _last_fifth(np.unique(label[part == TRAIN])))] = VAL
        return
    for each in np.unique(label[part == TRAIN]):
        part[_last_fifth(np.flatnonzero((part == TRAIN) & (label == each)))] = VAL


def _last_fifth(values: np.ndarray) -> np.ndarray:
    """At least one of three or more."""
    count = max(round(len(values) * _HELD_OUT), int(len(values) >= 3))
    return values[len(values) - count :]


def _first_classes(classes: list[str], train_classes: int | None, where: Path) -> np.ndarray:
    count = len(classes) // 2 if train_classes is None else train_classes
    if not 0 <= count <= len(classes):
        raise UserError(f"--train-classes {count}: {where} has {len(classes)} classes")
    return np.where(np.arange(len(classes)) < count, TRAIN, TEST).astype(np.uint8)


def _from_file(file: Path, classes: list[str]) -> np.ndarray:
    """The part of each class, (C,) uint8; NEITHER for those that the file does not name."""
    try:
        lists = json.loads(Path(file).read_text(encoding="utf-8"))
        named = [(str(name), part) for key, part in PARTS.items() for name in lists.pop(key, [])]
    except (FileNotFoundError, IsADirectoryError, ValueError, TypeError, AttributeError, RecursionError):
        lists, named = {"": []}, []
    if lists or not named:
        raise UserError(
            f'{file} is not a JSON file like {{"train": ["a", "b"], "test": ["c"]}} with the names of classes'
        )
    part = np.full(len(classes), NEITHER, np.uint8)
    numbers = {name: number for number, name in enumerate(classes)}
    for name, value in named:
        if name not in numbers:
            raise UserError(f"{file} names a class {name!r} that is not there; {suggest(name, classes[:20])}")
        if part[numbers[name]] not in (NEITHER, value):
            raise UserError(f"{file}: the split overlaps, since class {name!r} is in two parts of it")
        part[numbers[name]] = value
    return part


def _refuse_overlap(classes: list[str], label: np.ndarray, part: np.ndarray, where: Path) -> None:
    both = np.intersect1d(label[part == TRAIN], label[part == TEST])
    if len(both):
        raise UserError(
            f"{where}: the split overlaps, since {len(both)} classes are for both training and test, such as {classes[both[0]]}"
        )


def _refuse_single_images(classes: list[str], trained: np.ndarray, where: Path) -> None:
    """Published sets have classes with one image; only where there is no other does nothing remain to be learned."""
    labels, count = np.unique(trained, return_counts=True)
    if len(labels) and count.max() < 2:
        raise UserError(
            f"{where}: no training class has two images ({classes[labels[0]]} has one); training compares images of one class"
        )
