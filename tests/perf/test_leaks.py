"""Test images among training images are found; none of the training images on record is one."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

cv2 = pytest.importorskip("cv2")
pytest.importorskip("skimage.data")
leaks = pytest.importorskip("perf.release.leak_test")

from patchprint.data.builders import bundled_images  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
RESULT = ROOT / "results/training/leaks.json"


def small(name: str) -> np.ndarray:
    return leaks.limit_size(bundled_images.image(name), 320)


def test_a_copy_is_found_by_its_hash_and_a_part_of_an_image_by_retrieval() -> None:
    camera = small("camera")
    copy = cv2.resize(cv2.imdecode(cv2.imencode(".jpg", camera, [cv2.IMWRITE_JPEG_QUALITY, 40])[1], 0), (200, 210))
    part = bundled_images.image("coffee")[60:300, 120:400]
    train = {name: small(name) for name in ("camera", "coffee", "brick", "clock")}
    found = leaks.compare(train, {"copy": np.clip(copy * 0.8 + 20, 0, 255).astype(np.uint8), "part": part})
    pairs = {(each["train"], each["test"], each["by"]) for each in found["suspicious"]}
    assert ("camera", "copy", "hash") in pairs and ("coffee", "part", "retrieval") in pairs
    assert {(train, test) for train, test, _ in pairs} == {("camera", "copy"), ("coffee", "part")}


def test_images_of_other_things_are_not_suspicious() -> None:
    found = leaks.compare({name: small(name) for name in ("coins", "page", "grass")}, {"camera": small("camera")})
    assert found["suspicious"] == [] and found["nearest_hash"] > leaks.BITS
    assert found["pairs_hashed"] == found["pairs_matched"] == 3


def test_no_training_image_is_a_test_image_and_the_next_weights_see_no_place_of_one() -> None:
    scores = json.loads(RESULT.read_text())["scores"]
    listed = json.loads((ROOT / "results/training/scenes.json").read_text())["images"]
    wild = json.loads((ROOT / "results/training/wild-photos.json").read_text())["photos"]
    assert scores["images"]["train"] == {"photos": 465, "wild": wild, "scenes": listed}
    assert scores["images"]["test"] == {"oxford": 36, "eth": 19}
    assert scores["nearest_hash"] > leaks.BITS
    places = {(each["train"].split("/")[1], each["test"].split("/")[1]) for each in scores["suspicious"]}
    assert places == {("castle", "fountain"), ("entry", "fountain")}, "one courtyard; MODELS.md says so"
    assert not {"castle", "entry"} & set(re.findall(r"\w+", (ROOT / "perf/release/second_edition.json").read_text()))


def test_the_images_beside_the_repository_are_apart_by_their_hashes() -> None:
    shared = ROOT.parent / "shared/data"
    if not (shared / "photos").is_dir():
        pytest.skip("the images of ../shared/data are not here")
    train, test = ([shared / name for name in names] for names in (("photos",), ("oxford", "eth")))
    assert leaks.hash_distances(leaks.read_images(train), leaks.read_images(test)).min() > leaks.BITS
