"""Layouts of published sets of labeled images: which files are images, their class and part.

A set is known by a file that no other has, such as its list of images; without one of these, the folder of an image is its
class.
"""

import posixpath
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from patchprint.common.errors import UserError
from patchprint.data.builders.archives import FileTree
from patchprint.data.image_store import BOTH, GALLERY, QUERY
from patchprint.data.splits import PARTS, TEST, TRAIN
from patchprint.interop.images import SUFFIXES

_CIFAR_SIDE = 32
_CIFAR_BYTES = 1 + 3 * _CIFAR_SIDE**2  # label, red, green, blue


class LabeledImage(NamedTuple):
    """An image of a set: ``label`` is the place of its class, ``row`` its place in a file that holds many."""

    file: str
    label: int
    part: int | None = None
    role: int = BOTH
    row: int | None = None


@dataclass(frozen=True)
class Listing:
    """Images and classes of a set; classes are in the order by which the set is split.

    ``shares_classes``: training and test images may be of one class, as in sets for classification.
    """

    images: list[LabeledImage]
    classes: list[str]
    shares_classes: bool = False


def read_listing(tree: FileTree, layout: str = "auto") -> Listing:
    """List the images of a set in one of the layouts; a list with duplicate or missing images is refused."""
    for name, (marker, read, or_folders) in LAYOUTS.items():
        if layout in ("auto", name):
            places = [posixpath.dirname(file) for file in tree.names if posixpath.basename(file) == marker]
            if places:
                listing = read(tree, min(places, key=len))
                _refuse_missing(tree, listing)
                return listing
            if layout == name and not or_folders:
                raise UserError(f"{tree.path} holds no {marker}, by which the layout {layout!r} is known")
    return class_folders(tree)


def class_folders(tree: FileTree) -> Listing:
    """List ``CLASS/NAME.jpg``, or two or three of ``train/CLASS/NAME.jpg``, ``val/...``, ``test/...``, below any folder."""
    names = [name for name in tree.names if posixpath.splitext(name)[1].lower() in SUFFIXES]
    if not names:
        pickled = any(posixpath.basename(name) == "data_batch_1" for name in tree.names)
        hint = "; of CIFAR-10 take the binary version, since the Python version is pickled" if pickled else ""
        raise UserError(f"{tree.path} holds no images ({', '.join(sorted(SUFFIXES))}){hint}")
    common = posixpath.commonpath([posixpath.dirname(name) for name in names])
    below = [posixpath.relpath(name, common) if common else name for name in names]
    tops = {path.split("/")[0] for path in below}
    in_parts = len(tops & set(PARTS)) > 1
    if in_parts and not tops <= set(PARTS):
        raise UserError(f"{tree.path} holds {min(tops - set(PARTS))} beside folders for {', '.join(PARTS)}; remove it")
    parts = [PARTS[path.split("/")[0]] if in_parts else None for path in below]
    classes = [posixpath.dirname(path.partition("/")[2] if in_parts else path) for path in below]
    if "" in classes:
        alone = names[classes.index("")]
        raise UserError(f"{alone} in {tree.path} lies in no class folder; expected CLASS/NAME and at least two classes")
    known = _numbers(sorted(set(classes)))
    images = [LabeledImage(*each) for each in zip(names, map(known.__getitem__, classes), parts, strict=True)]
    return Listing(images, list(known), shares_classes=in_parts)


def cub(tree: FileTree, root: str) -> Listing:
    """List CUB-200-2011; its train_test_split.txt is for classification and not used."""
    classes = dict(_table(tree, posixpath.join(root, "classes.txt"), 2))
    class_of = dict(_table(tree, posixpath.join(root, "image_class_labels.txt"), 2))
    known, images = _numbers(list(classes)), []
    for number, name in _table(tree, posixpath.join(root, "images.txt"), 2):
        if class_of.get(number) not in known:
            raise UserError(f"{tree.path}: its lists have no class for image {number}, {name}")
        images.append(LabeledImage(posixpath.join(root, "images", name), known[class_of[number]]))
    return Listing(images, list(classes.values()))


def online_products(tree: FileTree, root: str) -> Listing:
    """List Stanford Online Products."""
    rows = [
        (path, label, part)
        for file, part in (("Ebay_train.txt", TRAIN), ("Ebay_test.txt", TEST))
        for _, label, _, path in _table(tree, posixpath.join(root, file), 4)[1:]
    ]
    known = _numbers(list(dict.fromkeys(label for _, label, _ in rows)))
    images = [LabeledImage(posixpath.join(root, path), known[label], part) for path, label, part in rows]
    return Listing(images, list(known))


def in_shop(tree: FileTree, root: str) -> Listing:
    """List In-shop Clothes Retrieval: its list lies in Eval/, the images called ``img/...`` beside it in Img/ or img/."""
    name, top = posixpath.join(root, "list_eval_partition.txt"), posixpath.dirname(root)
    meaning = {"train": (TRAIN, BOTH), "query": (TEST, QUERY), "gallery": (TEST, GALLERY)}
    count, *rows = _lines(tree, name)
    if count.strip() != str(len(rows) - 1):
        raise UserError(f"{name} in {tree.path} names {len(rows) - 1} images where its first line says {count.strip()}")
    table = _columns(tree, name, rows, 3)[1:]
    known = _numbers(sorted({item for _, item, _ in table}))
    images = []
    for path, item, status in table:
        if status not in meaning:
            raise UserError(f"{name} in {tree.path} calls {path} {status!r}; expected {', '.join(meaning)}")
        below = path.removeprefix("img/")
        places = [posixpath.join(top, place, below) for place in ("Img/img", "img", "Img")]
        found = next((place for place in places if place in tree), places[0])
        images.append(LabeledImage(found, known[item], *meaning[status]))
    return Listing(images, list(known))


def cifar(tree: FileTree, root: str) -> Listing:
    """List the binary version of CIFAR-10."""
    meta = posixpath.join(root, "batches.meta.txt")
    classes = [line.strip() for line in _lines(tree, meta)]
    images = []
    for batch in [*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin"]:
        name = posixpath.join(root, batch)
        data = np.frombuffer(_read(tree, name), np.uint8)
        if len(data) % _CIFAR_BYTES:
            raise UserError(f"{name} in {tree.path} is cut short; copy or download it again")
        labels = data[::_CIFAR_BYTES].astype(np.int64)
        if labels.max(initial=0) >= len(classes):
            raise UserError(f"{name} in {tree.path} names class {labels.max()} where there are {len(classes)} classes")
        part = TEST if batch.startswith("test") else TRAIN
        images += [LabeledImage(name, label, part, row=row) for row, label in enumerate(labels.tolist())]
    return Listing(images, classes, shares_classes=True)


def cifar_pixels(data: bytes, row: int) -> np.ndarray:
    """Return one image of a binary CIFAR file, uint8 (32, 32, 3) RGB."""
    planes = np.frombuffer(data, np.uint8, _CIFAR_BYTES - 1, row * _CIFAR_BYTES + 1)
    return planes.reshape(3, _CIFAR_SIDE, _CIFAR_SIDE).transpose(1, 2, 0)


# The file by which a layout is known, its reader, which gets the folder of that file, and whether copies of the set are also
# found as class folders.
LAYOUTS: dict[str, tuple[str, Callable[[FileTree, str], Listing], bool]] = {
    "cub": ("image_class_labels.txt", cub, True),
    "sop": ("Ebay_train.txt", online_products, False),
    "inshop": ("list_eval_partition.txt", in_shop, False),
    "cifar": ("batches.meta.txt", cifar, True),
}


def _numbers(names: list[str]) -> dict[str, int]:
    return {name: number for number, name in enumerate(names)}


def _read(tree: FileTree, name: str) -> bytes:
    if name not in tree:
        raise UserError(f"{tree.path} is not complete: {name} is missing")
    return tree.read(name)


def _lines(tree: FileTree, name: str) -> list[str]:
    """Return the lines of a list that are not blank; at least one."""
    try:
        lines = [line for line in _read(tree, name).decode("utf-8-sig").splitlines() if line.strip()]
    except UnicodeDecodeError:
        lines = []
    if not lines:
        raise UserError(f"{name} in {tree.path} is empty, or not a text")
    return lines


def _columns(tree: FileTree, name: str, lines: list[str], count: int) -> list[list[str]]:
    rows = [line.split(maxsplit=count - 1) for line in lines]
    for line, row in zip(lines, rows, strict=True):
        if len(row) != count:
            raise UserError(f"{name} in {tree.path} is damaged: {line.strip()[:80]!r} has not {count} columns")
    return [[*row[:-1], row[-1].strip()] for row in rows]


def _table(tree: FileTree, name: str, count: int) -> list[list[str]]:
    return _columns(tree, name, _lines(tree, name), count)


def _refuse_missing(tree: FileTree, listing: Listing) -> None:
    seen = set()
    for image in listing.images:
        if image.file not in tree:
            missing = sum(each.file not in tree for each in listing.images)
            raise UserError(f"{tree.path} lacks {missing} of the images that its list names, such as {image.file}")
        if (image.file, image.row) in seen:
            raise UserError(f"{tree.path} names the image {image.file} twice in its list")
        seen.add((image.file, image.row))
