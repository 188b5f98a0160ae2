"""Small sets of labeled images in the layouts in which the large ones are published, as folders or packed."""

import tarfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np

CIFAR_CLASSES = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
KINDS = ("folder", "zip", "tar", "tar.gz", "tar.bz2")


def color_of(name: str) -> tuple[int, int, int]:
    """A color (RGB) for each class, by which a test knows its images again."""
    red, green, blue = np.random.default_rng(list(name.encode())).integers(0, 256, 3)
    return int(red), int(green), int(blue)


def write_image(path: Path, label: str, height: int = 12, width: int = 16) -> None:
    """An image in the color of its class; PNG keeps it exactly, whatever the file is called."""
    path.parent.mkdir(parents=True, exist_ok=True)
    image = np.full((height, width, 3), color_of(label)[::-1], np.uint8)
    path.write_bytes(cv2.imencode(".png", image)[1].tobytes())


def write_folders(root: Path, classes: Sequence[str], images: int = 3) -> Path:
    for label in classes:
        for number in range(images):
            write_image(root / label / f"{number:04d}.png", label)
    return root


def write_cub(root: Path, classes: int = 6, images: int = 3) -> Path:
    """images.txt, image_class_labels.txt, classes.txt and images/; the names sort in another order than the numbers."""
    names = [f"{number + 1:03d}.Bird_{'zyxwvu'[number % 6]}" for number in range(classes)]
    files = [(label, f"{name}/{name}_{number}.jpg") for label, name in enumerate(names) for number in range(images)]
    for label, file in files:
        write_image(root / "images" / file, names[label])
    _write_lines(root / "classes.txt", [f"{label + 1} {name}" for label, name in enumerate(names)])
    _write_lines(root / "images.txt", [f"{number + 1} {file}" for number, (_, file) in enumerate(files)])
    _write_lines(
        root / "image_class_labels.txt", [f"{number + 1} {label + 1}" for number, (label, _) in enumerate(files)]
    )
    _write_lines(root / "train_test_split.txt", [f"{number + 1} {number % 2}" for number in range(len(files))])
    return root


def write_products(root: Path, train: Sequence[int] = (1, 2, 3, 4), test: Sequence[int] = (5, 6)) -> Path:
    """Stanford Online Products, two images a class; the last test class has one, as some do."""
    for file, labels in (("Ebay_train.txt", train), ("Ebay_test.txt", test)):
        lines = ["image_id class_id super_class_id path"]
        for label in labels:
            for number in range(1 if label == test[-1] else 2):
                path = f"bicycle_final/{label:09d}_{number}.JPG"
                write_image(root / path, str(label))
                lines.append(f"{len(lines)} {label} 1 {path}")
        _write_lines(root / file, lines)
    return root


def write_in_shop(root: Path, images_in: str = "Img/img") -> Path:
    """In-shop Clothes: four items for training, two for the test with a query and two gallery images each."""
    rows = []
    for item in range(6):
        for number, status in enumerate(("train",) * 3 if item < 4 else ("query", "gallery", "gallery")):
            path = f"WOMEN/Dresses/id_{item:08d}/{number:02d}_1_front.jpg"
            write_image(root / images_in / path, f"id_{item:08d}")
            rows.append(f"img/{path}    id_{item:08d} {status}")
    _write_lines(
        root / "Eval" / "list_eval_partition.txt", [str(len(rows)), "image_name item_id evaluation_status", *rows]
    )
    return root


def write_cifar(root: Path, images: int = 20) -> Path:
    """The binary version of CIFAR-10, ``images`` in a batch; red grows to the right, green down, blue is 9."""
    root.mkdir(parents=True, exist_ok=True)
    right, down = np.meshgrid(np.arange(32, dtype=np.uint8), np.arange(32, dtype=np.uint8))
    planes = np.stack([right, down, np.full_like(right, 9)]).tobytes()
    for batch in [*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin"]:
        (root / batch).write_bytes(b"".join(bytes([number % 10]) + planes for number in range(images)))
    _write_lines(root / "batches.meta.txt", [*CIFAR_CLASSES, ""])
    return root


def pack(folder: Path, kind: str) -> Path:
    """The folder itself, or an archive of it, beside it, with the folder's name inside."""
    if kind == "folder":
        return folder
    archive = folder.with_name(f"{folder.name}.{kind}")
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    if kind == "zip":
        with zipfile.ZipFile(archive, "w") as bundle:
            for file in files:
                bundle.write(file, file.relative_to(folder.parent).as_posix())
    else:
        compression = kind.removeprefix("tar").removeprefix(".")
        with tarfile.open(archive, f"w:{compression}") as bundle:  # type: ignore[call-overload]
            bundle.add(folder, folder.name)
    return archive


def _write_lines(path: Path, lines: Sequence[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")
