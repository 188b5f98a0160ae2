"""HPatches: the released strips, and the same kind of data made from image sequences."""

import cv2
import numpy as np
import pytest
import torch

from patchprint.data import open_source
from patchprint.data.builders import hpatches_patches
from patchprint.data.builders.hpatches_patches import is_test, published_split, published_splits


def write_strips(root, counts):
    strips = {}
    for number, (name, count) in enumerate(counts.items()):
        (root / name).mkdir(parents=True)
        for strip in hpatches_patches.STRIPS:
            patches = np.random.default_rng(number).integers(0, 256, (count, 65, 65), dtype=np.uint8)
            patches[:, 0, 0] = hpatches_patches.STRIPS.index(strip)
            cv2.imwrite(str(root / name / f"{strip}.png"), patches.reshape(-1, 65))
            strips[name, strip] = patches
    return strips


def test_strips_round_trip_with_views_in_order(tmp_path):
    strips = write_strips(tmp_path / "h", {"i_ajuntament": 5, "v_there": 7, "v_war": 4})
    hpatches_patches.build(tmp_path / "h", tmp_path / "out", split="a")
    store = open_source(tmp_path / "out")
    assert store.num_points == 16 and (store.num_views == 16).all()
    assert store.scene_names == ["i_ajuntament", "v_there", "v_war"]
    assert store.scene.tolist() == [0] * 5 + [1] * 7 + [2] * 4
    everything = (store.sample(torch.arange(16), torch.arange(16).expand(16, 16), 65) * 255).round().to(torch.uint8)
    for view, strip in enumerate(hpatches_patches.STRIPS):
        for scene, name in enumerate(store.scene_names):
            assert np.array_equal(everything[store.scene == scene, view, 0].numpy(), strips[name, strip])
    assert store.split("test").scene.unique().tolist() == [0], "i_ajuntament is a test sequence of split a"
    assert store.split("train").scene.unique().tolist() == [1]
    assert store.split("val").scene.unique().tolist() == [2], "weights are chosen on sequences that are no test"


def test_views_of_some_levels_alone(tmp_path):
    """L2-Net learned from the easy and hard patches of HPatches."""
    strips = write_strips(tmp_path / "h", {"i_a": 5, "v_b": 3})
    hpatches_patches.build(tmp_path / "h", tmp_path / "out", levels=("easy", "hard"))
    store = open_source(tmp_path / "out")
    assert (store.num_views == 11).all() and store.facts["strips"] == list(hpatches_patches.STRIPS[:11])
    got = (store.sample(torch.arange(8), torch.tensor([[0, 6, 10]] * 8), 65) * 255).round().to(torch.uint8)[:, :, 0]
    for view, strip in enumerate(("ref", "h1", "h5")):
        wanted = np.concatenate([strips["i_a", strip], strips["v_b", strip]])
        assert np.array_equal(got[:, view].numpy(), wanted), strip
    with pytest.raises(ValueError, match="--levels names none of easy, hard, tough"):
        hpatches_patches.build(tmp_path / "h", tmp_path / "none", levels=())


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda f: (f / "t5.png").unlink(), r"t5.png is missing"),
        (lambda f: (f / "h2.png").write_bytes((f / "h2.png").read_bytes()[:500]), r"h2.png is cut short"),
        (
            lambda f: cv2.imwrite(str(f / "e1.png"), np.zeros((65, 65), np.uint8)),
            r"e1.png holds 1 patches, but ref.png",
        ),
        (lambda f: cv2.imwrite(str(f / "e1.png"), np.zeros((64, 64), np.uint8)), r"e1.png is 64x64"),
    ],
)
def test_damaged_strips_are_named(tmp_path, damage, message):
    write_strips(tmp_path / "h", {"i_a": 5, "v_b": 3})
    damage(tmp_path / "h" / "i_a")
    with pytest.raises(ValueError, match=message):
        hpatches_patches.build(tmp_path / "h", tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["h"]
    with pytest.raises(ValueError, match="holds no HPatches sequences"):
        hpatches_patches.build(tmp_path, tmp_path / "out")


EVERYTHING = published_splits()["full"]


def test_sizes_are_the_published_ones() -> None:
    assert (len(EVERYTHING), sum(name.startswith("i_") for name in EVERYTHING)) == (116, 57)
    for split in ("a", "b", "c"):
        test = [name for name in EVERYTHING if is_test(split, name)]
        assert (len(test), sum(name.startswith("i_") for name in test)) == (40, 20)
    assert is_test("full", "i_x") and is_test("full", "v_x") and is_test("view", "v_x") and not is_test("view", "i_x")


def test_only_the_very_sequences_are_a_published_split() -> None:
    test_b = [name for name in EVERYTHING if is_test("b", name)]
    assert published_split(test_b) == "b"
    assert published_split(EVERYTHING) == "full"
    assert published_split(test_b[1:]) is None
    assert published_split(["i_x", *test_b[1:]]) is None, "forty of them, but not those"
    assert published_split([]) is None
