"""Each published layout, as it is published, in a folder and in archives."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from patchprint.common.errors import UserError
from patchprint.data.builders.archives import open_tree
from patchprint.data.builders.labeled_layouts import LAYOUTS, Listing, cifar_pixels, read_listing
from patchprint.data.image_store import BOTH, GALLERY, QUERY
from patchprint.data.splits import TEST, TRAIN, VAL
from support.labeled_sets import (
    CIFAR_CLASSES,
    KINDS,
    pack,
    write_cars,
    write_cifar,
    write_cub,
    write_folders,
    write_image,
    write_in_shop,
    write_products,
)


def listing_of(path: Path, layout: str = "auto") -> Listing:
    with open_tree(path) as tree:
        return read_listing(tree, layout)


def refused(path: Path, layout: str = "auto") -> str:
    with pytest.raises(UserError) as caught:
        listing_of(path, layout)
    return str(caught.value)


WRITERS: dict[str, Callable[[Path], Path]] = {
    "folders": lambda root: write_folders(root, ["b", "a"]),
    "cub": write_cub,
    "cars": write_cars,
    "sop": write_products,
    "inshop": write_in_shop,
    "cifar": write_cifar,
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("layout", WRITERS)
def test_a_set_is_known_in_every_form(tmp_path: Path, layout: str, kind: str) -> None:
    if layout == "cars":
        pytest.importorskip("scipy")
    folder = WRITERS[layout](tmp_path / "set")
    plain, found = listing_of(folder, layout), listing_of(pack(folder, kind))
    assert found.classes == plain.classes and found.shares_classes == plain.shares_classes
    top = "" if kind == "folder" else "set/"
    assert sorted(found.images) == sorted(image._replace(file=top + image.file) for image in plain.images)


def test_every_layout_is_tried_here() -> None:
    assert set(WRITERS) == {"folders", *LAYOUTS}


def test_class_folders_below_any_folder(tmp_path: Path) -> None:
    write_folders(tmp_path / "x" / "y", ["dog", "cat", "wolf/grey"], images=2)
    (tmp_path / "x" / "readme.txt").write_text("no image")
    found = listing_of(tmp_path)
    assert found.classes == ["cat", "dog", "wolf/grey"] and not found.shares_classes
    assert [(image.file, image.label, image.part) for image in found.images[:3]] == [
        ("x/y/cat/0000.png", 0, None),
        ("x/y/cat/0001.png", 0, None),
        ("x/y/dog/0000.png", 1, None),
    ]


def test_folders_of_parts(tmp_path: Path) -> None:
    for part, classes in (("train", "ab"), ("val", "c"), ("test", "bd")):
        write_folders(tmp_path / "set" / part, classes, images=1)
    found = listing_of(tmp_path)
    assert found.classes == ["a", "b", "c", "d"] and found.shares_classes
    assert {(image.label, image.part) for image in found.images} == {
        (0, TRAIN),
        (1, TRAIN),
        (2, VAL),
        (1, TEST),
        (3, TEST),
    }
    write_image(tmp_path / "set" / "extra" / "e" / "1.png", "e")
    assert "holds extra beside folders for train, val, test" in refused(tmp_path)


def test_images_without_a_class_are_refused(tmp_path: Path) -> None:
    write_folders(tmp_path / "set", ["a", "b"])
    write_image(tmp_path / "set" / "stray.png", "a")
    assert "stray.png in" in refused(tmp_path) and "lies in no class folder" in refused(tmp_path)
    write_folders(tmp_path / "one", ["a"])
    assert "at least two classes" in refused(tmp_path / "one")


def test_no_images(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x")
    assert "holds no images (" in refused(tmp_path)
    (tmp_path / "data_batch_1").write_text("pickled")
    assert "take the binary version" in refused(tmp_path)


def test_cub(tmp_path: Path) -> None:
    found = listing_of(write_cub(tmp_path, classes=6))
    assert found.classes[0] == "001.Bird_z" and len(found.classes) == 6
    assert found.images[3].file == "images/002.Bird_y/002.Bird_y_0.jpg" and found.images[3].label == 1
    (tmp_path / "image_class_labels.txt").write_text("1 1\n2 9\n")
    assert "no class for image 2, 001.Bird_z/001.Bird_z_1.jpg" in refused(tmp_path)
    (tmp_path / "image_class_labels.txt").write_text("1 1\n2\n")
    assert "'2' has not 2 columns" in refused(tmp_path)
    (tmp_path / "classes.txt").unlink()
    assert "is not complete: classes.txt is missing" in refused(tmp_path)


def test_cars(tmp_path: Path) -> None:
    pytest.importorskip("scipy")
    found = listing_of(write_cars(tmp_path, classes=6))
    assert found.classes[:2] == ["Make f Sedan 2000", "Make e Sedan 2001"]
    assert [image.label for image in found.images] == [*range(6)] * 3
    assert found.images[7].file == "car_ims/000008.jpg"
    (tmp_path / "cars_annos.mat").write_bytes(b"MATLAB" * 50)
    assert "not the annotations of Cars196" in refused(tmp_path)
    write_cars(tmp_path, classes=6)
    data = (tmp_path / "cars_annos.mat").read_bytes()
    (tmp_path / "cars_annos.mat").write_bytes(data[: len(data) // 2])
    assert "cars_annos.mat in" in refused(tmp_path) and "or damaged" in refused(tmp_path)


def test_online_products(tmp_path: Path) -> None:
    found = listing_of(write_products(tmp_path, train=(1, 2, 3), test=(11318, 11319)))
    assert found.classes == ["1", "2", "3", "11318", "11319"] and not found.shares_classes
    assert [image.part for image in found.images] == [TRAIN] * 6 + [TEST] * 3
    assert found.images[-1].file == "bicycle_final/000011319_0.JPG" and found.images[-1].label == 4
    (tmp_path / "bicycle_final" / "000011319_0.JPG").unlink()
    assert refused(tmp_path).endswith(
        "lacks 1 of the images that its list names, such as bicycle_final/000011319_0.JPG"
    )
    (tmp_path / "Ebay_test.txt").unlink()
    assert "Ebay_test.txt is missing" in refused(tmp_path)


@pytest.mark.parametrize("images_in", ["Img/img", "img", "Img"])
def test_in_shop(tmp_path: Path, images_in: str) -> None:
    found = listing_of(write_in_shop(tmp_path, images_in))
    assert found.classes == [f"id_{item:08d}" for item in range(6)]
    assert [(image.label, image.part, image.role) for image in found.images[9:]] == [
        *[(3, TRAIN, BOTH)] * 3,
        *[(4, TEST, QUERY), (4, TEST, GALLERY), (4, TEST, GALLERY)],
        *[(5, TEST, QUERY), (5, TEST, GALLERY), (5, TEST, GALLERY)],
    ]
    assert found.images[0].file == f"{images_in}/WOMEN/Dresses/id_00000000/00_1_front.jpg"


def test_a_damaged_in_shop_list_is_refused(tmp_path: Path) -> None:
    name = write_in_shop(tmp_path) / "Eval" / "list_eval_partition.txt"
    text = name.read_text()
    name.write_text(text[: text.rindex("img/")])
    assert "names 17 images where its first line says 18" in refused(tmp_path)
    name.write_text(text.replace("query", "maybe"))
    assert "'maybe'; expected train, query, gallery" in refused(tmp_path)
    name.write_text(text.replace("02_1_front", "01_1_front"))
    assert "names the image Img/img/WOMEN/Dresses/id_00000000/01_1_front.jpg twice" in refused(tmp_path)
    name.write_bytes(b"\xff\xfe\xff")
    assert "is empty, or not a text" in refused(tmp_path)


def test_binary_cifar(tmp_path: Path) -> None:
    found = listing_of(write_cifar(tmp_path, images=20))
    assert found.classes == CIFAR_CLASSES and found.shares_classes
    assert [image.label for image in found.images] == [*range(10)] * 12
    assert [image.part for image in found.images] == [TRAIN] * 100 + [TEST] * 20
    pixels = cifar_pixels((tmp_path / "data_batch_2.bin").read_bytes(), 3)
    assert pixels.shape == (32, 32, 3) and pixels.dtype == np.uint8
    assert pixels[5, 7].tolist() == [7, 5, 9]


def test_damaged_cifar_is_refused(tmp_path: Path) -> None:
    write_cifar(tmp_path)
    data = (tmp_path / "data_batch_3.bin").read_bytes()
    (tmp_path / "data_batch_3.bin").write_bytes(data[:-1])
    assert "data_batch_3.bin in" in refused(tmp_path) and "is cut short" in refused(tmp_path)
    (tmp_path / "data_batch_3.bin").write_bytes(b"\x0a" + data[1:])
    assert "names class 10 where there are 10 classes" in refused(tmp_path)
    (tmp_path / "data_batch_3.bin").unlink()
    assert "data_batch_3.bin is missing" in refused(tmp_path)


def test_a_layout_that_is_asked_for_is_taken(tmp_path: Path) -> None:
    write_cub(tmp_path / "cub")
    assert listing_of(tmp_path / "cub", "folders").classes == sorted(listing_of(tmp_path / "cub").classes)
    write_folders(tmp_path / "folders", ["a", "b"])
    for layout in ("cub", "cars", "cifar"):  # these go round as class folders, too
        assert listing_of(tmp_path / "folders", layout).classes == ["a", "b"]
    assert "holds no Ebay_train.txt, by which the layout 'sop' is known" in refused(tmp_path / "folders", "sop")
    assert "holds no list_eval_partition.txt" in refused(tmp_path / "folders", "inshop")
