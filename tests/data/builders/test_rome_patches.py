"""RomePatches: groups of ten 51 x 51 patches, as single images or strips."""

import cv2
import numpy as np
import pytest
import torch

from patchprint.data import open_source
from patchprint.data.builders import rome_patches


def write_set(root, as_strips):
    patches = {}
    for number, part in enumerate(("train", "test")):
        (root / part).mkdir(parents=True)
        patches[part] = np.random.default_rng(number).integers(0, 256, (30, 51, 51), dtype=np.uint8)
        if as_strips:
            cv2.imwrite(str(root / part / "all.png"), patches[part].reshape(-1, 51))
        else:
            for index, patch in enumerate(patches[part]):
                cv2.imwrite(str(root / part / f"{index:05d}.png"), patch)
    return patches


@pytest.mark.parametrize("as_strips", [True, False])
def test_round_trip(tmp_path, as_strips):
    patches = write_set(tmp_path / "rome", as_strips)
    rome_patches.build(tmp_path / "rome", tmp_path / "out")
    store = open_source(tmp_path / "out")
    assert store.num_points == 6 and (store.num_views == 10).all()
    for name, part in (("train", store.split("train")), ("test", store.split("test"))):
        got = part.sample(torch.arange(3), torch.arange(10).expand(3, 10), 51).reshape(30, 51, 51)
        assert np.array_equal((got * 255).round().numpy().astype(np.uint8), patches[name])


def test_weights_are_chosen_on_groups_that_are_no_test(tmp_path):
    for part in ("train", "test"):
        (tmp_path / "rome" / part).mkdir(parents=True)
        strip = np.random.default_rng(0).integers(0, 256, (250 * 51, 51), dtype=np.uint8)
        cv2.imwrite(str(tmp_path / "rome" / part / "all.png"), strip)
    rome_patches.build(tmp_path / "rome", tmp_path / "out")
    store = open_source(tmp_path / "out")
    assert [store.split(part).num_points for part in ("train", "val", "test")] == [22, 3, 25]
    assert store.split("val").scene.unique().tolist() == [0], "of the training part"
    assert store.split("test").scene.unique().tolist() == [1]
    assert store.learnable().num_points == 25


def test_missing_patches_are_noticed(tmp_path):
    write_set(tmp_path / "rome", as_strips=False)
    (tmp_path / "rome" / "test" / "00003.png").unlink()
    with pytest.raises(ValueError, match="holds 29 patches, which is no multiple of 10"):
        rome_patches.build(tmp_path / "rome", tmp_path / "out")
    cv2.imwrite(str(tmp_path / "rome" / "test" / "00003.png"), np.zeros((50, 50), np.uint8))
    with pytest.raises(ValueError, match=r"00003.png is 50x50"):
        rome_patches.build(tmp_path / "rome", tmp_path / "out")
