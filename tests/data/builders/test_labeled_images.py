"""Stores of labeled images: pixels, classes, parts and roles arrive; bad sets leave nothing behind; the cache builds once."""

import json
import multiprocessing
import os
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from patchprint.common.errors import UserError
from patchprint.data.builders.archives import open_tree
from patchprint.data.builders.labeled_images import build, cached_store, part_of_images, shrink
from patchprint.data.builders.labeled_layouts import LabeledImage, Listing, read_listing
from patchprint.data.image_store import BOTH, GALLERY, QUERY, ImageStore
from patchprint.data.splits import NEITHER, TEST, TRAIN, VAL
from support.labeled_sets import (
    CIFAR_CLASSES,
    color_of,
    pack,
    write_cifar,
    write_cub,
    write_folders,
    write_image,
    write_in_shop,
    write_products,
)


def classes_of(store: ImageStore, part: str) -> list[str]:
    return [store.class_names[int(label)] for label in store.split(part).label]


def assert_colors(store: ImageStore) -> None:
    """Every image has the color of its class."""
    points, views = store.all_views()
    pixels = store.sample(points, views[:, None], 4)[:, 0, :, 2, 2]
    expected = [color_of(store.class_names[int(label)]) for label in store.label[points]]
    assert torch.equal((pixels * 255).round(), torch.tensor(expected, dtype=torch.float32))


def test_published_sets_are_split_by_halves_of_their_classes(tmp_path: Path) -> None:
    build(pack(write_cub(tmp_path / "set", classes=6), "zip"), tmp_path / "out")
    store = ImageStore.open(tmp_path / "out")
    assert store.num_points == 6 and store.num_views.tolist() == [3] * 6
    assert classes_of(store, "train") == store.class_names[:2]
    assert classes_of(store, "val") == store.class_names[2:3]
    assert classes_of(store, "test") == store.class_names[3:]
    assert store.class_names[0] == "001.Bird_z", "by number, not by name"
    assert_colors(store)
    assert (store.role == BOTH).all()


def test_names_stand_beside_their_images(tmp_path: Path) -> None:
    archive = pack(write_folders(tmp_path / "set", ["b", "a", "c"]), "tar")
    build(archive, tmp_path / "out")
    store = ImageStore.open(tmp_path / "out")
    rows = store.observation(torch.arange(3), torch.arange(3).expand(3, 3))
    for point in range(3):
        label = store.class_names[int(store.label[point])]
        assert [store.names[row] for row in rows[point]] == [f"set/{label}/{number:04d}.png" for number in range(3)]


def test_query_and_gallery(tmp_path: Path) -> None:
    build(pack(write_in_shop(tmp_path / "shop"), "zip"), tmp_path / "out")
    store = ImageStore.open(tmp_path / "out")
    assert classes_of(store, "test") == ["id_00000004", "id_00000005"]
    assert classes_of(store, "val") == ["id_00000003"]
    test = store.split("test")
    rows = test.observation(torch.arange(2), torch.arange(3).expand(2, 3))
    assert store.role[rows].tolist() == [[QUERY, GALLERY, GALLERY]] * 2
    assert (store.role == BOTH).sum() == 12


def test_classes_of_one_image_are_counted(tmp_path: Path) -> None:
    build(write_products(tmp_path / "sop"), tmp_path / "out")
    store = ImageStore.open(tmp_path / "out")
    assert classes_of(store, "test") == ["5", "6"] and store.split("test").num_views.tolist() == [2, 1]
    assert store.facts["single_image_classes"] == 1
    assert_colors(store)


@pytest.mark.parametrize("binary", [True, False])
def test_cifar_has_one_label_for_a_class_in_all_parts(tmp_path: Path, binary: bool) -> None:
    if binary:
        write_cifar(tmp_path / "set", images=20)
    else:
        write_folders(tmp_path / "set" / "train", CIFAR_CLASSES, images=10)
        write_folders(tmp_path / "set" / "test", CIFAR_CLASSES, images=2)
    build(tmp_path / "set", tmp_path / "out")
    store = ImageStore.open(tmp_path / "out")
    assert store.class_names == CIFAR_CLASSES
    for part, views in (("train", 8), ("val", 2), ("test", 2)):
        assert store.split(part).label.tolist() == [*range(10)]
        assert store.split(part).num_views.tolist() == [views] * 10
    if binary:
        assert store.images[0, :, 5, 7].tolist() == [7, 5, 9]


def test_a_split_file_leaves_classes_out(tmp_path: Path) -> None:
    write_folders(tmp_path / "set", "abcd")
    (tmp_path / "split.json").write_text(json.dumps({"train": ["d"], "test": ["b"]}))
    build(tmp_path / "set", tmp_path / "out", split=tmp_path / "split.json")
    store = ImageStore.open(tmp_path / "out")
    assert classes_of(store, "train") == ["d"] and classes_of(store, "test") == ["b"] and store.num_points == 2
    assert_colors(store)


@pytest.mark.parametrize(
    ("height", "width", "shape"),
    [
        (600, 800, (256, 341)),
        (800, 600, (341, 256)),
        (300, 900, (256, 341)),
        (100, 400, (100, 133)),
        (256, 256, (256, 256)),
        (1, 9, (1, 1)),
    ],
)
def test_images_become_small_and_not_too_long(height: int, width: int, shape: tuple[int, int]) -> None:
    small = shrink(np.full((height, width, 3), 77, np.uint8), 256)
    assert small.shape == (*shape, 3) and (small == 77).all()


def test_the_middle_of_a_long_image_is_kept() -> None:
    image = np.repeat(np.arange(200, dtype=np.uint8)[None, :, None], 60, 0).repeat(3, 2)
    assert shrink(image, 256)[0, :, 0].tolist() == [*range(60, 140)]


def test_stored_images_have_the_side_that_was_asked_for(tmp_path: Path) -> None:
    for label in ("a", "b", "c", "d"):
        for number in range(2):
            write_image(tmp_path / "set" / label / f"{number}.png", label, 80, 60)
    build(tmp_path / "set", tmp_path / "out", side=20)
    store = ImageStore.open(tmp_path / "out")
    assert store.size.tolist() == [[27, 20]] * 8
    with pytest.raises(UserError, match="--side 0"):
        build(tmp_path / "set", tmp_path / "other", side=0)


def spoil(folder: Path, case: str) -> str:
    """Make the set of four classes bad; returns what is to be said of it."""
    if case == "unreadable":
        (folder / "c" / "0001.png").write_bytes(b"no image")
        return "c/0001.png in .* is not an image that can be read"
    if case == "cut short":
        data = (folder / "c" / "0001.png").read_bytes()
        (folder / "c" / "0001.png").write_bytes(data[: len(data) // 2])
        return "c/0001.png in .* is cut short"
    if case == "single":
        for label in "abcd":
            (folder / label / "0001.png").unlink()
            (folder / label / "0002.png").unlink()
        return "no training class has two images"
    (folder / "Ebay_train.txt").write_text("image_id class_id super_class_id path\n1 1 1 a/0000.png\n")
    (folder / "Ebay_test.txt").write_text("image_id class_id super_class_id path\n1 1 1 b/0000.png\n")
    return "the split overlaps"


@pytest.mark.parametrize("kind", ["folder", "zip"])
@pytest.mark.parametrize("case", ["unreadable", "cut short", "single", "overlap"])
def test_a_bad_set_is_one_sentence_and_leaves_nothing(tmp_path: Path, case: str, kind: str) -> None:
    folder = write_folders(tmp_path / "in" / "set", "abcd")
    message = spoil(folder, case)
    (tmp_path / "made").mkdir()
    with pytest.raises(UserError, match=message) as caught:
        build(pack(folder, kind), tmp_path / "made" / "out", strict=True)
    assert "\n" not in str(caught.value)
    assert list((tmp_path / "made").iterdir()) == []


@pytest.mark.parametrize("case", ["unreadable", "cut short"])
def test_a_bad_image_is_left_out_and_named(tmp_path: Path, case: str, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_folders(tmp_path / "set", "abcd")
    build(folder, tmp_path / "whole")
    message = spoil(folder, case)
    build(folder, tmp_path / "out")
    assert re.search(f"left out: {message}", capsys.readouterr().err)
    whole, fewer = ImageStore.open(tmp_path / "whole"), ImageStore.open(tmp_path / "out")
    assert [name for name in whole.names if name not in fewer.names] == ["c/0001.png"]
    assert fewer.num_views.tolist() == [3, 3, 2, 3]
    rows = [whole.names.index(name) for name in fewer.names]
    assert np.array_equal(fewer.images, whole.images[rows])
    for number in range(3):
        (folder / "c" / f"000{number}.png").write_bytes(b"no image")
    with pytest.raises(UserError, match="class c has no images"):
        build(folder, tmp_path / "none")


class TestCachedStore:
    def test_a_store_is_itself(self, tmp_path: Path) -> None:
        build(write_folders(tmp_path / "set", "ab"), tmp_path / "out")
        assert cached_store(tmp_path / "out") == tmp_path / "out"

    @pytest.mark.parametrize("kind", ["folder", "zip"])
    def test_it_is_built_once_and_again_after_a_change(self, tmp_path: Path, kind: str) -> None:
        source = pack(write_folders(tmp_path / "set", "ab"), kind)
        first = cached_store(source)
        assert first.is_relative_to(os.environ["PATCHPRINT_CACHE"])
        written = (first / "manifest.json").stat().st_mtime_ns
        assert cached_store(str(source)) == first and (first / "manifest.json").stat().st_mtime_ns == written
        write_folders(tmp_path / "set", "abc")
        second = cached_store(pack(tmp_path / "set", kind))
        assert second != first and ImageStore.open(second).num_points == 3

    def test_a_damaged_one_is_built_again(self, tmp_path: Path) -> None:
        source = write_folders(tmp_path / "set", "ab")
        store = cached_store(source)
        (store / "images.npy").write_bytes(b"")
        assert cached_store(source) == store and ImageStore.open(store).num_points == 2

    def test_a_bad_set_leaves_no_store(self, tmp_path: Path) -> None:
        write_folders(tmp_path / "set", "ab", images=1)
        with pytest.raises(UserError, match="no training class"):
            cached_store(tmp_path / "set")
        assert list((tmp_path / "cache" / "images").iterdir()) == []
        with pytest.raises(UserError, match="is not there"):
            cached_store(tmp_path / "gone")

    def test_two_processes_at_once(self, tmp_path: Path) -> None:
        source = write_folders(tmp_path / "set", [f"{number:02d}" for number in range(20)], images=20)
        with multiprocessing.get_context("fork").Pool(3) as pool:
            stores = pool.map(cached_store, [source] * 3, chunksize=1)
        assert len(set(stores)) == 1 and ImageStore.open(stores[0]).num_points == 20
        assert [path.name for path in stores[0].parent.iterdir()] == [stores[0].name]


@pytest.mark.parametrize(
    ("name", "last_train", "first_test", "images"),
    [("cub200", "100.Brown_Pelican", "101.White_Pelican", 11788), ("cars196-half", "098", "099", 8144)],
)
def test_the_shared_sets_have_the_published_split(
    shared: Callable[[str], Path], name: str, last_train: str, first_test: str, images: int
) -> None:
    with open_tree(shared(f"metric/{name}.zip")) as tree:
        listing = read_listing(tree)
    assert len(listing.images) == images
    part, label = part_of_images(listing, WHERE, None, None), np.array([image.label for image in listing.images])
    training, testing = set(label[part != TEST].tolist()), set(label[part == TEST].tolist())
    assert (listing.classes[max(training)], listing.classes[min(testing)]) == (last_train, first_test)
    assert len(training) == len(testing) and max(training) < min(testing)


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


def test_where_classes_are_shared_images_of_each_are_held_out() -> None:
    listing = split_by_set([0] * 10 + [1] * 5, [0, 1, 1], shares_classes=True)
    part = part_of_images(listing, WHERE, None, None)
    assert part.tolist() == [TRAIN] * 8 + [VAL] * 2 + [TRAIN] * 4 + [VAL] + [TEST] * 3


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
    "sop": write_products,
    "inshop": write_in_shop,
    "cifar": write_cifar,
}


@pytest.mark.parametrize("layout", WRITERS)
def test_a_set_is_known_in_an_archive_too(tmp_path: Path, layout: str) -> None:
    folder = WRITERS[layout](tmp_path / "set")
    plain, found = listing_of(folder, layout), listing_of(pack(folder, "tar"))
    assert found.classes == plain.classes and found.shares_classes == plain.shares_classes
    assert sorted(found.images) == sorted(image._replace(file=f"set/{image.file}") for image in plain.images)


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
    for layout in ("cub", "cifar"):  # these go round as class folders, too
        assert listing_of(tmp_path / "folders", layout).classes == ["a", "b"]
    assert "holds no Ebay_train.txt, by which the layout 'sop' is known" in refused(tmp_path / "folders", "sop")
    assert "holds no list_eval_partition.txt" in refused(tmp_path / "folders", "inshop")
