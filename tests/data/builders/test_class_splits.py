"""Classes for training, validation and test are disjoint, and a split that overlaps is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from patchprint.common.errors import UserError
from patchprint.data.builders.class_splits import part_of_images
from patchprint.data.builders.labeled_layouts import LabeledImage, Listing
from patchprint.data.splits import NEITHER, TEST, TRAIN, VAL

WHERE = Path("set.zip")


def unsplit(classes: int, images: int = 2) -> Listing:
    labels = [label for label in range(classes) for _ in range(images)]
    return Listing(
        [LabeledImage(f"{n}", label) for n, label in enumerate(labels)], [f"class{n}" for n in range(classes)]
    )


def split_by_set(train: list[int], test: list[int], shares_classes: bool) -> Listing:
    images = [LabeledImage(f"{n}", label, TRAIN) for n, label in enumerate(train)]
    images += [LabeledImage(f"t{n}", label, TEST) for n, label in enumerate(test)]
    return Listing(images, [f"class{n}" for n in range(max(train + test) + 1)], shares_classes)


def by_class(listing: Listing, train_classes: int | None = None, split: Path | None = None) -> list[int]:
    part = part_of_images(listing, WHERE, train_classes, split)
    labels = np.array([image.label for image in listing.images])
    assert all(len(set(part[labels == label])) == 1 for label in labels)
    return [int(part[labels == label][0]) for label in range(len(listing.classes))]


@pytest.mark.parametrize(
    ("classes", "train", "val"), [(200, 80, 20), (196, 78, 20), (20, 8, 2), (7, 2, 1), (4, 2, 0), (2, 1, 0)]
)
def test_the_first_half_is_for_training_and_its_last_fifth_for_validation(classes: int, train: int, val: int) -> None:
    test = classes - classes // 2
    assert by_class(unsplit(classes)) == [TRAIN] * train + [VAL] * val + [TEST] * test


def test_the_number_of_training_classes_is_an_option() -> None:
    assert by_class(unsplit(6), train_classes=5) == [TRAIN] * 4 + [VAL] + [TEST]
    assert by_class(unsplit(6), train_classes=0) == [TEST] * 6
    assert by_class(unsplit(6), train_classes=6) == [TRAIN] * 5 + [VAL]
    for wrong in (-1, 7):
        with pytest.raises(UserError, match=f"--train-classes {wrong}: set.zip has 6 classes"):
            by_class(unsplit(6), train_classes=wrong)


def test_a_file_names_the_classes(tmp_path: Path) -> None:
    file = tmp_path / "split.json"
    file.write_text(json.dumps({"train": ["class5", "class1", "class2"], "test": ["class0"]}))
    assert by_class(unsplit(6), split=file) == [TEST, TRAIN, TRAIN, NEITHER, NEITHER, VAL]
    file.write_text(json.dumps({"train": ["class5", "class1", "class2"], "val": ["class0"], "test": ["class3"]}))
    assert by_class(unsplit(6), split=file) == [VAL, TRAIN, TRAIN, TEST, NEITHER, TRAIN]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            '{"train": ["class0", "class1"], "test": ["class1"]}',
            "the split overlaps, since class 'class1' is in two parts",
        ),
        ('{"train": ["class0"], "test": ["klass1"]}', "'klass1' that is not there; did you mean class1"),
        ('{"train": ["class0"], "tset": ["class1"]}', "is not a JSON file like"),
        ('{"train": 3}', "is not a JSON file like"),
        ('{"train": [], "test": []}', "is not a JSON file like"),
        ('["class0"]', "is not a JSON file like"),
        ("train: class0", "is not a JSON file like"),
    ],
)
def test_a_bad_file_is_refused(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "split.json"
    file.write_text(text)
    with pytest.raises(UserError, match=message):
        by_class(unsplit(4), split=file)


def test_a_missing_file_and_two_wishes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is not a JSON file"):
        by_class(unsplit(4), split=tmp_path / "gone.json")
    with pytest.raises(UserError, match="give one of them"):
        by_class(unsplit(4), 2, tmp_path / "gone.json")


def test_the_split_of_a_set_is_kept() -> None:
    listing = split_by_set([0, 0, 1, 1, 2, 2, 3, 3], [4, 4, 5], shares_classes=False)
    assert by_class(listing) == [TRAIN] * 3 + [VAL] + [TEST] * 2
    with pytest.raises(UserError, match="comes with a split of its own"):
        by_class(listing, train_classes=2)


def test_an_overlapping_split_of_a_set_is_refused() -> None:
    with pytest.raises(UserError, match=r"set\.zip: the split overlaps, since 1 classes .* such as class1"):
        by_class(split_by_set([0, 0, 1, 1], [1, 2], shares_classes=False))


def test_where_classes_are_shared_images_of_each_are_held_out() -> None:
    listing = split_by_set([0] * 10 + [1] * 5, [0, 1, 1], shares_classes=True)
    part = part_of_images(listing, WHERE, None, None)
    assert part.tolist() == [TRAIN] * 8 + [VAL] * 2 + [TRAIN] * 4 + [VAL] + [TEST] * 3


def test_folders_of_parts_without_a_common_class_hold_out_classes() -> None:
    listing = split_by_set([0, 0, 1, 1, 2, 2], [3, 4], shares_classes=True)
    assert by_class(listing) == [TRAIN, TRAIN, VAL, TEST, TEST]


def test_classes_of_one_image_are_refused_only_where_there_is_nothing_else() -> None:
    with pytest.raises(UserError, match=r"no training class has two images \(class0 has one\)"):
        by_class(unsplit(6, images=1))
    assert by_class(split_by_set([0, 1, 1, 2], [3], shares_classes=False)) == [TRAIN, TRAIN, VAL, TEST]
    assert by_class(unsplit(3, images=1), train_classes=0) == [TEST] * 3
