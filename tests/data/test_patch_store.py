"""PatchStore: patches on disk, in the original order, resident or memory-mapped."""

import cv2
import numpy as np
import pytest
import torch

from patchprint.data import PatchStore, manifest, open_source
from patchprint.data.builders import hpatches_patches
from patchprint.data.group_batches import SequencePairBatcher
from patchprint.data.patch_source import PatchSource
from support.peak_memory import memory_grows_by_less_than
from support.stores import write_patches


def test_views_keep_the_original_patches(tmp_path, patches):
    point = write_patches(tmp_path / "s", patches, pairs={"m50": np.array([[0, 2, 1], [0, 1, 0]])})
    store = open_source(tmp_path / "s")
    assert isinstance(store, PatchSource)
    assert store.num_points == 7 and store.point_id.tolist() == [3, 7, 100, 101, 102, 103, 104]
    for index, label in enumerate(store.point_id):
        rows = np.flatnonzero(point == label)
        assert int(store.num_views[index]) == len(rows)
        views = torch.arange(len(rows))[None]
        got = store.sample(torch.tensor([index]), views, 64)
        assert torch.equal((got[0, :, 0] * 255).round().to(torch.uint8), torch.from_numpy(patches[rows]))
    assert store.pairs("m50").tolist() == [[0, 2, 1], [0, 1, 0]]
    with pytest.raises(ValueError, match="has no pair list 'm99'; it has m50"):
        store.pairs("m99")


def test_half_size_is_the_mean_of_four_pixels(tmp_path, patches):
    write_patches(tmp_path / "s", patches)
    got = open_source(tmp_path / "s").sample(torch.tensor([1]), torch.zeros(1, 1, dtype=torch.int64), 32)
    expected = patches[0].reshape(32, 2, 32, 2).mean((1, 3)) / 255
    assert np.allclose(got[0, 0, 0].numpy(), expected, atol=1e-5)


def test_warp_repeats_the_border(tmp_path, patches):
    write_patches(tmp_path / "s", patches)
    store = open_source(tmp_path / "s")
    point, view = torch.tensor([1]), torch.zeros(1, 1, dtype=torch.int64)
    flip = torch.tensor([[[[-1.0, 0, 0], [0, 1.0, 0]]]])
    assert torch.allclose(store.sample(point, view, 64, flip), store.sample(point, view, 64).flip(-1), atol=1e-5)
    away = torch.tensor([[[[1.0, 0, 5.0], [0, 1.0, 0]]]])
    moved = store.sample(point, view, 64, away)[0, 0, 0]
    assert np.allclose(moved.numpy() * 255, np.repeat(patches[0][:, -1:], 64, 1), atol=1e-2)


def test_memory_mapped_equals_resident(tmp_path, patches):
    write_patches(tmp_path / "s", patches)
    points, views = torch.arange(7), torch.zeros(7, 2, dtype=torch.int64)
    resident, mapped = PatchStore.open(tmp_path / "s"), PatchStore.open(tmp_path / "s", max_resident_gb=0)
    assert torch.equal(resident.sample(points, views, 32), mapped.sample(points, views, 32))


def test_wrong_counts_leave_nothing_behind(tmp_path, patches):
    for blocks, message in (
        ([patches[:20]], "but there are only 20"),
        ([patches, patches], "more patches than the 30"),
    ):
        with pytest.raises(ValueError, match=message):
            PatchStore.write(tmp_path / "s", blocks, np.zeros(30), np.zeros(30, np.int64), ["a"], 12.0)
    with pytest.raises(ValueError, match="a point number occurs in two scenes"):
        PatchStore.write(tmp_path / "s", [patches], np.zeros(30), np.arange(30) % 2, ["a", "b"], 12.0)
    assert list(tmp_path.iterdir()) == []


def test_ten_million_patches_stay_on_disk(tmp_path):
    """A sparse file stands in for 41 GB of patches: opening and sampling must not read it into memory."""
    count = 10_000_000
    folder = tmp_path / "huge"
    folder.mkdir()
    patches = np.lib.format.open_memmap(folder / "patches.npy", mode="w+", dtype=np.uint8, shape=(count, 64, 64))
    patches[count - 1] = 200
    del patches
    arrays = {
        "order": np.arange(count, dtype=np.int32),
        "point_id": np.arange(count // 2, dtype=np.int32),
        "num_views": np.full(count // 2, 2, np.int32),
        "scene": np.zeros(count // 2, np.int32),
        "part": np.zeros(count // 2, np.uint8),
    }
    manifest.save(folder, arrays)
    listing = {f.name: {"bytes": f.stat().st_size, "sha256": ""} for f in folder.iterdir()}
    facts = {"kind": "patches", "version": manifest.VERSION, "patch_scale": 12.0}
    facts |= {"scenes": ["a"], "pairs": [], "files": listing}
    manifest.files.write_json(folder / "manifest.json", facts)
    points = torch.randint(0, count // 2, (512,), generator=torch.Generator().manual_seed(0))
    points[0] = count // 2 - 1
    with memory_grows_by_less_than(mib=500):  # the index of 10 million patches is 165 MiB, the patches are 39 GiB
        got = PatchStore.open(folder).sample(points, torch.tensor([0, 1]).expand(512, 2), 32)
    assert float(got[0, 1].mean()) == pytest.approx(200 / 255)
    assert folder.joinpath("patches.npy").stat().st_size > 40 * 10**9


def test_checksums_are_verified_on_demand(tmp_path, patches):
    write_patches(tmp_path / "s", patches)
    manifest.verify(tmp_path / "s")
    with open(tmp_path / "s" / "patches.npy", "r+b") as stream:
        stream.seek(5000)
        stream.write(b"\1\2\3\4")
    with pytest.raises(ValueError, match=r"patches.npy does not have the checksum"):
        manifest.verify(tmp_path / "s")


def test_a_store_of_an_older_version_says_what_to_do(tmp_path, patches):
    """Version 2 kept the published test part as "val", on which weights are chosen."""
    write_patches(tmp_path / "s", patches)
    file = tmp_path / "s" / manifest.NAME
    file.write_text(file.read_text().replace(f'"version": {manifest.VERSION}', '"version": 2'))
    with pytest.raises(ValueError, match=r"has version 2, patchprint reads 3; build the store again"):
        manifest.read(tmp_path / "s")


def test_label_mining_separates_what_looks_different(tmp_path):
    """Half of each sequence is vertical stripes, half horizontal: patches of one kind are never called distractors."""
    stripes = np.tile(np.where(np.arange(65) % 16 < 8, 200, 50).astype(np.uint8), (65, 1))
    rng = np.random.default_rng(0)
    for name in ("i_a", "i_b"):
        (tmp_path / "h" / name).mkdir(parents=True)
        for strip in hpatches_patches.STRIPS:
            patches = [
                np.clip((stripes if k < 8 else stripes.T) + rng.normal(0, 3, (65, 65)), 0, 255) for k in range(16)
            ]
            cv2.imwrite(str(tmp_path / "h" / name / f"{strip}.png"), np.concatenate(patches).astype(np.uint8))
    hpatches_patches.build(tmp_path / "h", tmp_path / "out", mine_labels=True)
    store = open_source(tmp_path / "out")
    vertical = (torch.arange(len(store.patches)) % 16) < 8
    rows = torch.arange(256)
    far = store.mined.are_distractors(torch.zeros(256, dtype=torch.int64), rows)
    same = vertical[:256, None] == vertical[None, :256]
    assert far[~same].float().mean() > 0.99
    assert far[same].float().mean() < 0.75, "the nearest fifth of the cluster pairs is of one kind"
    batch = SequencePairBatcher(store, 128).batch(torch.tensor(0))
    assert len(batch.points.unique()) == 8 and batch.ignore.shape == (128, 128) and batch.valid.all()
    assert not batch.ignore[:64, 64:].any(), "other sequences are always negatives"
