"""Defects H6, H7, M4, M7, M9, M10, L1 to L5, L8, L9 and L12: what patchprint is given to read."""

from __future__ import annotations

import functools
import hashlib
import http.server
import os
import shutil
import sqlite3
import threading
import zipfile
from contextlib import closing
from pathlib import Path

import cv2
import pycolmap
import pytest

from faults.defects.material import SMALL, forged_weights, snapshot
from faults.defects.tree import Tree
from support.known_images import texture
from support.small_sfm import wall, write_model

STOPPED_AFTER = 20  # seconds, where an older commit never ends


@pytest.fixture
def scene(tmp_path: Path) -> Path:
    """A small model of COLMAP in binary files, its photos and its database."""
    write_model(tmp_path / "scene")
    sparse = tmp_path / "scene" / "sparse"
    model = pycolmap.Reconstruction(sparse)
    shutil.rmtree(sparse)
    sparse.mkdir()
    model.write_binary(sparse)
    return tmp_path / "scene"


@pytest.mark.parametrize(("name", "length"), [("frames", 52), ("cameras", 60)])
def test_h6_a_cut_model_is_refused(name: str, length: int, tree: Tree, scene: Path) -> None:
    """Cut frames were read for ever, cut cameras with wrong numbers."""
    path = scene / "sparse" / f"{name}.bin"
    assert path.stat().st_size > length
    path.write_bytes(path.read_bytes()[:length])
    ended = tree.command("data build colmap scene store", scene.parent, seconds=STOPPED_AFTER)
    assert ended.code == 2 and ended.is_sentence and "scene/sparse is cut short" in ended.said, ended


@pytest.mark.slow
def test_h7_names_with_spaces_are_matched_by_retrieval(tree: Tree, tmp_path: Path) -> None:
    """COLMAP splits the lines of a list of pairs at spaces: no pair was found."""
    (tmp_path / "photos").mkdir()
    for number in range(3):
        cv2.imwrite(str(tmp_path / "photos" / f"photo {number}.png"), wall(0)[number * 20 :, number * 20 :])
    # Whether three flat photos make a model is not the question. The flag was called --matching at the reviewed commit.
    for flag in ("--pairs", "--matching"):
        tree.command(f"data build photos photos store {flag} retrieval --work work", tmp_path)
    with closing(sqlite3.connect(tmp_path / "work" / "database.db")) as connection:
        pairs = connection.execute("SELECT count(*) FROM matches").fetchone()[0]
        assert pairs == 3, f"{pairs} pairs of three photos were matched"
        names = [name for (name,) in connection.execute("SELECT name FROM images ORDER BY name")]
    assert names == [f"photo {number}.png" for number in range(3)]


def test_m4_a_wrong_page_of_one_mirror_is_followed_by_the_next(tree: Tree, tmp_path: Path) -> None:
    (tmp_path / "good").mkdir()
    (tmp_path / "bad").mkdir()
    with zipfile.ZipFile(tmp_path / "good" / "set.zip", "w") as bundle:
        bundle.writestr("train/a.txt", "a")
    (tmp_path / "bad" / "set.zip").write_text("<html>this page has moved</html>")
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(tmp_path))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        ended = tree.program(
            """
import dataclasses, os, sys
from patchprint.data.builders import downloads

root, md5, os.environ["PATCHPRINT_CACHE"] = sys.argv[1:]
urls = (f"{root}/bad/set.zip", f"{root}/good/set.zip")
downloads.SETS["rome"] = dataclasses.replace(downloads.SETS["rome"], urls=urls, md5=md5)
assert (downloads.locate("rome") / "train" / "a.txt").is_file()
""",
            tmp_path,
            f"http://127.0.0.1:{server.server_address[1]}",
            hashlib.md5((tmp_path / "good" / "set.zip").read_bytes()).hexdigest(),
            tmp_path / "cache",
        )
    finally:
        server.shutdown()
        server.server_close()
    assert ended.code == 0, ended


def test_m7_weights_that_announce_a_huge_network_take_no_memory(tree: Tree, desk: Path) -> None:
    forged_weights(tree, desk / "huge.safetensors", options={"width": 1000})
    modest = tree.command("describe photos --out out --model hardnet.small --max-keypoints 20", desk)
    assert modest.code == 0, modest
    ended = tree.command("describe photos --out new --model huge.safetensors", desk, seconds=STOPPED_AFTER)
    assert ended.peak_mib < modest.peak_mib + 300, f"it took {ended.peak_mib:.0f} MiB: {ended}"
    assert ended.code == 2 and ended.is_sentence and "huge.safetensors" in ended.said, ended


def test_m9_without_optional_packages_a_sentence_says_what_to_install(tree: Tree, tmp_path: Path) -> None:
    hide = "import sys\nfor name in ('tyro', 'cv2', 'pycolmap'):\n    sys.modules[name] = None\n"
    ended = tree.command("models", tmp_path, hide)
    assert ended.is_sentence and "pip install" in ended.said, ended


@pytest.mark.parametrize(
    ("commands", "name"),
    [
        # A flag that was renamed since is given in both spellings.
        (["eval --compare deep.json"], "deep.json"),
        (["train hardnet --data {store} --out run --batch -5"], "batch"),
        (["train hardnet --data {store} --out run --batch 16 --network-options width=0",
          "train hardnet --data {store} --out run --batch 16 --network width=0"], "width"),
        (["train hardnet --data {store} --out run --batch 16 --loss-settings margin=abc",
          "train hardnet --data {store} --out run --batch 16 --loss margin=abc"], "margin"),
    ],
    ids=["json", "batch", "network", "loss"],
)  # fmt: skip
def test_m10_wrong_files_and_values_are_no_traceback(
    commands: list[str], name: str, tree: Tree, store: Path, tmp_path: Path
) -> None:
    (tmp_path / "deep.json").write_text("[" * 100_000)
    endings = [tree.command(command.format(store=store), tmp_path) for command in commands]
    known = [ended for ended in endings if "Unrecognized options" not in ended.said]
    assert known[0].code == 2 and known[0].is_sentence and name in known[0].said, known[0]


def write_photos_named(photos: Path, names: list[bytes]) -> None:
    photos.mkdir()
    for number, name in enumerate(names):
        (photos / os.fsdecode(name)).write_bytes(cv2.imencode(".png", texture(80, 100, number))[1].tobytes())


def test_l1_odd_names_are_named_and_left_out_and_the_others_described(tree: Tree, tmp_path: Path) -> None:
    """One name that is not UTF-8 stopped all."""
    good = ["plain.png", "with space.png", "line\u2028separator.png", "ünï 日本.png"]
    write_photos_named(tmp_path / "photos", [*map(os.fsencode, good), b"latin-\xe9.png", b"new\nline.png"])
    ended = tree.command(f"describe photos --out out {SMALL}", tmp_path)
    assert ended.code == 0 and r"latin-\udce9.png" in ended.said and r"new\nline.png" in ended.said, ended
    described = {name for name in snapshot(tmp_path / "out") if name.endswith(".npz")}
    assert described == {f"{name}.npz" for name in good}


def test_l9_a_store_has_a_name_for_each_photo(tree: Tree, tmp_path: Path) -> None:
    """A line separator in a name shifted all that followed it."""
    write_photos_named(tmp_path / "photos", [b"plain.png", "line\u2028separator.png".encode(), b"new\nline.png"])
    built = tree.command("data build homographies photos store --views 2 --max-keypoints 30", tmp_path)
    assert built.code == 0, built
    count = """
from patchprint.data.tracks import TrackStore
store = TrackStore.open("store")
names, photos = vars(store.names), getattr(store, "images", None) or store.photos
print(len(names["images" if "images" in names else "photos"]), "names,", len(photos), "photos")
"""
    counted = tree.program(count, tmp_path)
    assert counted.said.split() == ["6", "names,", "6", "photos"], f"two photos with two warped copies each: {counted}"


def test_l2_a_pipe_among_the_photos_is_named_and_left_out(tree: Tree, desk: Path) -> None:
    os.mkfifo(desk / "photos" / "x.jpg")
    (desk / "photos" / "zero.jpg").symlink_to("/dev/zero")
    ended = tree.command(f"describe photos --out out {SMALL}", desk, seconds=STOPPED_AFTER)
    assert ended.code == 0 and "x.jpg" in ended.said and "zero.jpg" in ended.said, ended
    assert len([name for name in snapshot(desk / "out") if name.endswith(".npz")]) == 3


def test_l3_a_database_with_an_endless_view_is_refused(tree: Tree, scene: Path) -> None:
    endless = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r)"
    (scene / "database.db").unlink()
    with closing(sqlite3.connect(scene / "database.db")) as connection, connection:
        connection.execute("CREATE TABLE cameras (camera_id, width, height)")
        connection.execute("CREATE TABLE keypoints (image_id, rows, cols, data)")
        connection.execute(f"CREATE VIEW images AS {endless} SELECT n AS image_id, n AS name, 1 AS camera_id FROM r")
    ended = tree.command("data build colmap scene store", scene.parent, seconds=STOPPED_AFTER)
    assert ended.code == 2 and ended.is_sentence and "database.db" in ended.said, ended


@pytest.mark.parametrize("value", ["nan", "inf"])
@pytest.mark.parametrize("field", ["xy", "scale", "angle", "affine"])
def test_l4_keypoints_without_a_place_are_refused(field: str, value: str, tree: Tree, tmp_path: Path) -> None:
    ended = tree.program(
        """
import dataclasses, sys
import numpy as np, torch
import patchprint

field, value = sys.argv[1:]
points = patchprint.Keypoints(torch.full((3, 2), 20.0), torch.ones(3), torch.zeros(3))
if field == "affine":
    points = dataclasses.replace(points, affine=torch.eye(2).repeat(3, 1, 1))
changed = getattr(points, field).clone()
changed[1] = float(value)
try:
    patchprint.extract(np.zeros((60, 80), np.uint8), "pixels", dataclasses.replace(points, **{field: changed}))
except ValueError as error:
    print("refused:", error)
""",
        tmp_path,
        field,
        value,
    )
    assert ended.code == 0 and "refused:" in ended.said, ended


def test_l5_a_descriptor_that_is_no_number_costs_its_own_match_only(tree: Tree, tmp_path: Path) -> None:
    ended = tree.program(
        """
import torch, patchprint
from patchprint.types import ModelId

def features(descriptors):
    points = patchprint.Keypoints(torch.arange(40.0).reshape(20, 2), torch.ones(20), torch.zeros(20))
    return patchprint.Features(
        keypoints=points, descriptors=descriptors, image_size=(60, 60), image_path=None, model=ModelId("m"))

clean = torch.nn.functional.normalize(torch.randn(20, 16, generator=torch.Generator().manual_seed(0)))
spoiled = clean.clone()
spoiled[3, 5] = float("nan")
print(len(patchprint.match(features(clean), features(spoiled), ratio=None)))
""",
        tmp_path,
    )
    assert ended.said.split() == ["19"], f"matches of 20: {ended}"


@pytest.mark.parametrize(
    ("command", "flag"),
    [
        ("data build homographies photos new --strength nan", "--strength"),
        ("data build homographies photos new --strength inf", "--strength"),
        ("data build homographies photos new --strength -1", "--strength"),
        ("data build photos photos new --patch-scale -3", "--patch-scale"),
        ("data build photos photos new --patch-scale nan", "--patch-scale"),
        ("train hardnet --data photos --out new --patch-scale -3", "--patch-scale"),
        ("train hardnet --data photos --out new --patch-scale nan", "--patch-scale"),
        ("train hardnet --data photos --out new --lr nan", "--lr"),
        ("eval bundled --model sift --patch-scale nan", "patch"),
        ("adapt photos --out new.safetensors --held-out nan", "--held-out"),
        ("adapt photos --out new.safetensors --lr nan", "--lr"),
    ],
)
def test_l8_numbers_that_lead_nowhere_are_refused(command: str, flag: str, tree: Tree, desk: Path) -> None:
    ended = tree.command(command, desk, seconds=STOPPED_AFTER)
    assert ended.code == 2 and ended.is_sentence and flag in ended.said, ended
    assert ended.said.count("\n") == 1
    assert [path.name for path in desk.iterdir()] == ["photos"]


def test_l12_photos_enter_the_database_in_the_order_of_their_names(tree: Tree, tmp_path: Path) -> None:
    """COLMAP's threads add a photo when they are done with it, and another order gives another model."""
    (tmp_path / "photos").mkdir()
    for name, size in (("a.png", (700, 900)), ("b.png", (60, 80)), ("c.png", (60, 80))):  # the first takes longest
        cv2.imwrite(str(tmp_path / "photos" / name), texture(*size))
    tree.command("data build photos photos store --work work", tmp_path)  # which finds that they show nothing together
    with closing(sqlite3.connect(tmp_path / "work" / "database.db")) as connection:
        asked = "SELECT images.name FROM images JOIN keypoints USING (image_id) ORDER BY images.image_id"
        order = [name for (name,) in connection.execute(asked)]
    assert order == ["a.png", "b.png", "c.png"], f"the order is {', '.join(order)}"
