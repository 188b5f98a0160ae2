"""Build stores of labeled images for metric learning: decode once, shrink, write.

A class is a point and an image of it is a view, so that whole images are learned from as patches are.
"""

import hashlib
import itertools
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import numpy as np

from patchprint.common import files
from patchprint.common.errors import UserError, require, suggest
from patchprint.common.progress import progress, skip_or_raise
from patchprint.data import manifest
from patchprint.data.builders.archives import FileTree, open_tree
from patchprint.data.builders.labeled_layouts import LabeledImage, Listing, cifar_pixels, read_listing
from patchprint.data.image_store import ImageStore
from patchprint.data.splits import NEITHER, PARTS, TEST, TRAIN, VAL
from patchprint.interop.images import decode_color

_ASPECT = 4 / 3
_HELD_OUT = 0.2
_CACHE_VERSION = 1  # counted up when the same files give another store


def build(
    src: str | Path,
    out: str | Path,
    *,
    layout: Literal["auto", "folders", "cub", "sop", "inshop", "cifar"] = "auto",
    train_classes: int | None = None,
    split: Path | None = None,
    side: int = 256,
    strict: bool = False,
    force: bool = False,
) -> None:
    """Images with classes, for metric learning: CUB-200-2011, Online Products, In-shop, CIFAR-10, class folders.

    Args:
        src: folder, zip or tar.
        out: store to write.
        layout: how the set is laid out; auto looks for the lists of the published sets, then takes folders for classes.
        train_classes: how many classes are for training, the first ones; half of them by default.
        split: JSON file with the names of the classes for train and test, and for val if you choose them.
        side: shorter side of the stored images, in pixels; smaller ones stay as they are.
        strict: stop at the first image that cannot be read; by default it is named and left out.
        force: replace the store if it exists.
    """
    if side < 1:
        raise UserError(f"--side {side}: an image has at least one pixel")
    with open_tree(src) as tree:
        listing = read_listing(tree, layout)
        part = part_of_images(listing, tree.path, train_classes, split)
        kept = sorted(np.flatnonzero(part != NEITHER), key=lambda number: listing.images[number].file)
        images, part = [listing.images[number] for number in kept], part[kept]
        label = np.array([image.label for image in images])
        points, point = np.unique(np.stack([part, label]), axis=1, return_inverse=True)
        ImageStore.write(
            out,
            _pixels(tree, images, side, strict),
            point.reshape(-1),
            points[0].astype(np.uint8),
            points[1],
            listing.classes,
            [image.file if image.row is None else f"{image.file}/{image.row}" for image in images],
            role=np.array([image.role for image in images], np.uint8),
            force=force,
        )


def cached_store(path: str | Path) -> Path:
    """Return the store of a set of labeled images: ``path`` itself if it is one, else built once and cached.

    Of several processes that ask for the same set at once one builds, and the others wait for it.
    """
    path = Path(path)
    if (path / manifest.NAME).is_file():
        return path
    store = files.cache_folder("images") / f"{path.resolve().name}-{_fingerprint(path)}"
    with files.exclusive_writer(store.with_name(f"{store.name}.building"), wait=True):
        try:
            manifest.read(store, ImageStore.kind)
        except UserError:
            build(path, store, force=True)
    return store


def shrink(image: np.ndarray, side: int) -> np.ndarray:
    """Cut the longer side to 4/3 of the shorter one, around the middle, and reduce the shorter one to ``side``.

    Shape:
        (H, W, 3) uint8 -> (h, w, 3) uint8 with min(h, w) <= side
    """
    shorter = min(image.shape[:2])
    height, width = (min(length, round(shorter * _ASPECT)) for length in image.shape[:2])
    top, left = (image.shape[0] - height) // 2, (image.shape[1] - width) // 2
    image = image[top : top + height, left : left + width]
    if shorter <= side:
        return image
    cv2 = require("cv2", extra="images")
    size = (round(width * side / shorter), round(height * side / shorter))
    return cv2.resize(image, size, interpolation=cv2.INTER_AREA)


def _pixels(tree: FileTree, images: Sequence[LabeledImage], side: int, strict: bool) -> Iterator[np.ndarray | None]:
    """Yield the images one after the other; None where one is left out."""
    for file, rows in itertools.groupby(progress(images, "reading images", "image"), key=lambda image: image.file):
        data = tree.read(file)
        for image in rows:
            try:
                name = f"{file} in {tree.path}"
                whole = decode_color(data, name) if image.row is None else cifar_pixels(data, image.row)
            except UserError as error:
                skip_or_raise(error, strict)
                yield None
            else:
                yield shrink(whole, side)


def _fingerprint(path: Path) -> str:
    """Return a checksum of the paths, sizes and times of a set's files; reading them all would take too long."""
    if not path.exists():
        raise UserError(f"{path} is not there; expected a store, or a folder, a zip or a tar of labeled images")
    found = [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())
    facts = [(str(file.relative_to(path)), file.stat().st_size, file.stat().st_mtime_ns) for file in found]
    key = json.dumps([_CACHE_VERSION, manifest.VERSION, str(path.resolve()), facts])
    return hashlib.sha256(key.encode()).hexdigest()[:16]


def part_of_images(listing: Listing, where: Path, train_classes: int | None, split: Path | None) -> np.ndarray:
    """Return TRAIN, VAL, TEST, or NEITHER for the images of classes that ``split`` leaves out, (M,) uint8.

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
        both = np.intersect1d(label[part == TRAIN], label[part == TEST])
        if len(both) and not listing.shares_classes:
            raise UserError(f"{where}: the split overlaps in {len(both)} classes, such as {listing.classes[both[0]]}")
    elif split is not None:
        part = _from_file(split, listing.classes)[label]
    else:
        classes = len(listing.classes)
        count = classes // 2 if train_classes is None else train_classes
        if not 0 <= count <= classes:
            raise UserError(f"--train-classes {count}: {where} has {classes} classes")
        part = np.where(label < count, TRAIN, TEST).astype(np.uint8)
    if VAL not in part:
        _hold_out(part, label)
    # Published sets have classes with one image; only where there is no other does nothing remain to be learned.
    trained, images = np.unique(label[part == TRAIN], return_counts=True)
    if len(trained) and images.max() < 2:
        raise UserError(f"{where}: no training class has two images to compare; {listing.classes[trained[0]]} has one")
    return part


def _hold_out(part: np.ndarray, label: np.ndarray) -> None:
    """Turn a fifth of TRAIN into VAL, in place: the last classes, or where the test is on the same classes, images of each."""
    shared = np.isin(label[part == TRAIN], label[part == TEST]).any()
    if not shared:
        part[(part == TRAIN) & np.isin(label, _last_fifth(np.unique(label[part == TRAIN])))] = VAL
        return
    for each in np.unique(label[part == TRAIN]):
        part[_last_fifth(np.flatnonzero((part == TRAIN) & (label == each)))] = VAL


def _last_fifth(values: np.ndarray) -> np.ndarray:
    """Return the last fifth of values, at least one of three or more."""
    count = max(round(len(values) * _HELD_OUT), int(len(values) >= 3))
    return values[len(values) - count :]


def _from_file(file: Path, classes: list[str]) -> np.ndarray:
    """Read the part of each class, (C,) uint8; NEITHER for those that the file does not name."""
    try:
        lists = json.loads(Path(file).read_text(encoding="utf-8"))
        named = [(str(name), part) for key, part in PARTS.items() for name in lists.pop(key, [])]
    except (FileNotFoundError, IsADirectoryError, ValueError, TypeError, AttributeError, RecursionError):
        lists, named = {"": []}, []
    if lists or not named:
        raise UserError(f'{file} is not a JSON file like {{"train": ["a", "b"], "test": ["c"]}} of class names')
    part = np.full(len(classes), NEITHER, np.uint8)
    numbers = {name: number for number, name in enumerate(classes)}
    for name, value in named:
        if name not in numbers:
            raise UserError(f"{file} names a class {name!r} that is not there; {suggest(name, classes[:20])}")
        if part[numbers[name]] not in (NEITHER, value):
            raise UserError(f"{file}: the split overlaps, since class {name!r} is in two parts of it")
        part[numbers[name]] = value
    return part
