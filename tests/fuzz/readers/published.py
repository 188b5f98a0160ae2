"""Public sets as their authors publish them, and archives."""

from pathlib import Path

import cv2

from fuzz import mutators
from fuzz.reader import Reader
from patchprint.benchmarks import hpatches
from patchprint.common.errors import UserError
from patchprint.data.builders import (
    archives,
    hpatches_patches,
    labeled_images,
    labeled_layouts,
    phototour,
    rome_patches,
)
from patchprint.interop import images
from support import labeled_sets
from support.known_images import texture


def write_phototour(folder: Path) -> None:
    for number in range(2):
        cv2.imwrite(str(folder / f"patches{number:04d}.bmp"), texture(1024, 1024, number))
    (folder / "info.txt").write_text("".join(f"{number // 3} 0\n" for number in range(300)))
    (folder / "m50_1_1_0.txt").write_text("".join(f"{i} {i // 3} 0 {i + 1} {(i + 1) // 3} 0\n" for i in range(20)))


def read_phototour(folder: Path) -> None:
    point = phototour.read_numbers(folder / "info.txt", (0,))[:, 0]
    phototour.read_pairs(folder / "m50_1_1_0.txt", point)
    sum(len(block) for block in phototour.read_sheets(phototour.find_sheets(folder, len(point)), len(point)))


def write_hpatches(folder: Path) -> None:
    (folder / "v_a").mkdir()
    for name in hpatches_patches.STRIPS:
        cv2.imwrite(str(folder / "v_a" / f"{name}.png"), texture(65 * 2, 65))
    pairs, single = "s1,t1,idx1,s2,t2,idx2\n", "s,idx\n"
    for stem in ("verif_pos", "verif_neg_intra", "verif_neg_inter"):
        (folder / f"{stem}_split-a.csv").write_text(pairs + "v_a,0,0,v_a,1,1\n" * 3)
    for stem in ("retr_queries", "retr_distractors"):
        (folder / f"{stem}_split-a.csv").write_text(single + "v_a,0\nv_a,1\n")


def read_hpatches(folder: Path) -> None:
    hpatches_patches.read_sequence(folder / "v_a")
    hpatches.read_tasks(folder, "a", ["v_a"], [2])


def write_rome(folder: Path) -> None:
    for part in ("train", "test"):
        (folder / part).mkdir()
        cv2.imwrite(str(folder / part / "strip.png"), texture(510, 51))


def read_rome(folder: Path) -> None:
    for part in ("train", "test"):
        rome_patches._count(folder / part, images.list_images(folder / part))


def write_layouts(folder: Path) -> None:
    labeled_sets.write_cub(folder / "cub", 3, 2)
    labeled_sets.write_products(folder / "sop")
    labeled_sets.write_in_shop(folder / "shop")
    labeled_sets.write_cifar(folder / "cifar", 4)
    (folder / "split.json").write_text('{"train": ["a", "b"], "test": ["c"]}')


def read_layouts(folder: Path) -> None:
    """Each by itself, since one that is refused must not hide the others."""
    problems = []
    for place in ("cub", "sop", "shop", "cifar"):
        try:
            with archives.open_tree(folder / place) as tree:
                labeled_layouts.read_listing(tree)
        except UserError as error:
            problems.append(error)
    labeled_images._from_file(folder / "split.json", ["a", "b", "c"])
    if problems:
        raise problems[0]


def write_archives(folder: Path) -> None:
    for kind in ("zip", "tar", "tar.gz"):
        labeled_sets.write_folders(folder / f"set-{kind}", ["a", "b"], 2)
        labeled_sets.pack(folder / f"set-{kind}", kind)


def read_archives(folder: Path) -> None:
    problems = []
    for path in sorted(path for path in folder.iterdir() if path.is_file()):
        try:
            with archives.open_tree(path) as tree:
                for name in tree.names:
                    tree.read(name)
        except UserError as error:
            problems.append(error)
    if problems:
        raise problems[0]


READERS: dict[str, Reader] = {
    "Photo Tour": Reader(write_phototour, read_phototour, {"*.txt": mutators.TEXT, "*0.bmp": mutators.BYTES}, share=0.25),
    "HPatches": Reader(write_hpatches, read_hpatches, {"*.csv": mutators.TEXT, "v_a/ref.png": mutators.BYTES}),
    "RomePatches": Reader(write_rome, read_rome, {"*/*.png": mutators.BYTES}),
    "labeled images": Reader(write_layouts, read_layouts,
                             {"*/*.txt": mutators.TEXT, "*/*/*.txt": mutators.TEXT, "*/*.bin": mutators.BYTES,
                              "*.json": mutators.JSON}, share=0.5),
    "archives": Reader(write_archives, read_archives, {"*.zip": mutators.BYTES, "*.tar*": mutators.BYTES}),
}  # fmt: skip
