"""The UBC / Brown layout, written byte for byte as it is published, and broken in the ways it gets broken."""

import cv2
import numpy as np
import pytest

from patchprint.data import PatchStore, open_source
from patchprint.data.builders import phototour
from support.full_disk import files_limited_to

COUNT = 300


def write_set(folder, count=COUNT, seed=0):
    """Two sheets of 16 x 16 patches; the second is padded with black."""
    folder.mkdir()
    rng = np.random.default_rng(seed)
    patches = rng.integers(1, 256, (count, 64, 64), dtype=np.uint8)
    padded = np.zeros((512, 64, 64), np.uint8)
    padded[:count] = patches
    for number in range(2):
        grid = padded[number * 256 : (number + 1) * 256].reshape(16, 16, 64, 64)
        sheet = np.zeros((1024, 1024), np.uint8)
        for row in range(16):
            for column in range(16):
                sheet[row * 64 : row * 64 + 64, column * 64 : column * 64 + 64] = grid[row, column]
        cv2.imwrite(str(folder / f"patches{number:04d}.bmp"), sheet)
    point = np.arange(count) // 3 * 7
    (folder / "info.txt").write_text("".join(f"{p} 0\n" for p in point))
    pairs = [(a, b) for a, b in rng.integers(0, count, (50, 2))] + [(3 * i, 3 * i + 1) for i in range(50)]
    lines = [f"{a} {point[a]} 0 {b} {point[b]} 0 0\n" for a, b in pairs]
    (folder / "m50_100_100_0.txt").write_text("".join(lines))
    return patches, point, np.array(pairs)


def test_round_trip(tmp_path):
    patches, point, pairs = write_set(tmp_path / "liberty")
    phototour.build(tmp_path / "liberty", tmp_path / "out")
    store = open_source(tmp_path / "out")
    assert isinstance(store, PatchStore)
    assert np.array_equal(store.patches, patches), "the padding of the last sheet is cut off, the order kept"
    assert np.array_equal(store.point_id, np.unique(point)) and store.scene_names == ["liberty"]
    listed = store.pairs("m50_100_100_0")
    assert np.array_equal(listed[:, :2], pairs)
    assert np.array_equal(listed[:, 2], point[pairs[:, 0]] == point[pairs[:, 1]])


def cut_info(folder):
    lines = (folder / "info.txt").read_text().splitlines(True)
    (folder / "info.txt").write_text("".join(lines[:200]))


def cut_sheet(folder):
    data = (folder / "patches0001.bmp").read_bytes()
    (folder / "patches0001.bmp").write_bytes(data[:5000])


def small_sheet(folder):
    cv2.imwrite(str(folder / "patches0001.bmp"), np.zeros((512, 1024), np.uint8))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda f: (f / "patches0000.bmp").unlink(), "patches0000.bmp is missing"),
        (lambda f: (f / "info.txt").unlink(), "info.txt is missing"),
        (cut_info, r"info.txt names only 200 patches, but the 2 sheets hold more"),
        (cut_sheet, "patches0001.bmp is cut short"),
        (small_sheet, "patches0001.bmp is 1024x512"),
        (lambda f: (f / "m50_100_100_0.txt").write_text("1 2 0 999 4 0 0\n"), "names a patch in line 1"),
        (lambda f: (f / "m50_100_100_0.txt").write_text("1 2\n"), "every line needs at least 5 numbers"),
        (lambda f: (f / "info.txt").write_text("one two\n"), "info.txt is damaged"),
        (lambda f: (f / "info.txt").write_text(""), "info.txt is empty"),
    ],
)
@pytest.mark.filterwarnings("ignore:loadtxt")
def test_damage_is_named_and_leaves_nothing(tmp_path, damage, message):
    write_set(tmp_path / "liberty")
    damage(tmp_path / "liberty")
    with pytest.raises(ValueError, match=message):
        phototour.build(tmp_path / "liberty", tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["liberty"]


def test_full_disk_leaves_nothing(tmp_path):
    write_set(tmp_path / "liberty")
    with files_limited_to(200_000), pytest.raises(OSError, match=r"out could not be written"):
        phototour.build(tmp_path / "liberty", tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["liberty"]
