"""HPatches: the released strips, and the same kind of data made from image sequences."""

from pathlib import Path

import cv2
import numpy as np
import pytest
import torch

from patchprint.interop.sequences import find_sequences
from patchprint.patches import open_source
from patchprint.patches.batches import SequencePairBatcher
from patchprint.patches.sources import hpatches, hpatches_sequences
from patchprint.patches.sources.hpatches_splits import is_test
from patchprint.types import Keypoints
from support.synthetic_tracks import texture

SHARED = Path(__file__).resolve().parents[3].parent / "shared"


def write_strips(root, counts):
    strips = {}
    for number, (name, count) in enumerate(counts.items()):
        (root / name).mkdir(parents=True)
        for strip in hpatches.STRIPS:
            patches = np.random.default_rng(number).integers(0, 256, (count, 65, 65), dtype=np.uint8)
            patches[:, 0, 0] = hpatches.STRIPS.index(strip)
            cv2.imwrite(str(root / name / f"{strip}.png"), patches.reshape(-1, 65))
            strips[name, strip] = patches
    return strips


def test_strips_round_trip_with_views_in_order(tmp_path):
    strips = write_strips(tmp_path / "h", {"i_ajuntament": 5, "v_there": 7, "v_war": 4})
    hpatches.build(tmp_path / "h", tmp_path / "out", split="a")
    store = open_source(tmp_path / "out")
    assert store.num_points == 16 and (store.num_views == 16).all()
    assert store.scene_names == ["i_ajuntament", "v_there", "v_war"]
    assert store.scene.tolist() == [0] * 5 + [1] * 7 + [2] * 4
    everything = (store.sample(torch.arange(16), torch.arange(16).expand(16, 16), 65) * 255).round().to(torch.uint8)
    for view, strip in enumerate(hpatches.STRIPS):
        for scene, name in enumerate(store.scene_names):
            assert np.array_equal(everything[store.scene == scene, view, 0].numpy(), strips[name, strip])
    assert store.split("val").scene.unique().tolist() == [0], "i_ajuntament is a test sequence of split a"
    assert store.split("train").scene.unique().tolist() == [1, 2]


def test_published_splits_have_40_test_sequences():
    from patchprint.patches.sources import hpatches_splits

    for split in "abc":
        light, view = hpatches_splits._TEST[split]
        assert len(set(light.split())) == len(set(view.split())) == 20
    assert is_test("full", "i_x") and is_test("full", "v_x") and is_test("view", "v_x") and not is_test("view", "i_x")


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
        hpatches.build(tmp_path / "h", tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["h"]
    with pytest.raises(ValueError, match="holds no HPatches sequences"):
        hpatches.build(tmp_path, tmp_path / "out")


def test_label_mining_separates_what_looks_different(tmp_path):
    """Half of each sequence is vertical stripes, half horizontal: patches of one kind are never called distractors."""
    stripes = np.tile(np.where(np.arange(65) % 16 < 8, 200, 50).astype(np.uint8), (65, 1))
    rng = np.random.default_rng(0)
    for name in ("i_a", "i_b"):
        (tmp_path / "h" / name).mkdir(parents=True)
        for strip in hpatches.STRIPS:
            patches = [
                np.clip((stripes if k < 8 else stripes.T) + rng.normal(0, 3, (65, 65)), 0, 255) for k in range(16)
            ]
            cv2.imwrite(str(tmp_path / "h" / name / f"{strip}.png"), np.concatenate(patches).astype(np.uint8))
    hpatches.build(tmp_path / "h", tmp_path / "out", mine_labels=True)
    store = open_source(tmp_path / "out")
    vertical = (torch.arange(len(store.patches)) % 16) < 8
    rows = torch.arange(256)
    far = store.mined.are_distractors(torch.zeros(256, dtype=torch.int64), rows)
    same = vertical[:256, None] == vertical[None, :256]
    assert far[~same].float().mean() > 0.99
    assert far[same].float().mean() < 0.75, "the nearest fifth of the cluster pairs is of one kind"
    batch = SequencePairBatcher(store, 4, 16).batch(torch.tensor(0))
    assert batch.points.shape == (8,) and batch.ignore.shape == (128, 128)
    assert not batch.ignore[:64, 64:].any(), "other sequences are always negatives"


def write_sequence(folder, layout="hpatches"):
    folder.mkdir(parents=True)
    world = texture(300, 360)
    names = [f"{n}.ppm" for n in range(1, 7)] if layout == "hpatches" else [f"img{n}.png" for n in range(1, 7)]
    cv2.imwrite(str(folder / names[0]), cv2.merge([world] * 3))
    for number in range(2, 7):
        matrix = np.array([[1.0, 0.02 * number, 3], [-0.02 * number, 1.0, 8], [0, 1e-5 * number, 1]])
        moved = cv2.warpPerspective(world, matrix, (360, 300), borderMode=cv2.BORDER_REFLECT_101)
        cv2.imwrite(str(folder / names[number - 1]), cv2.merge([moved] * 3))
        name = f"H_1_{number}" if layout == "hpatches" else f"H1to{number}p"
        np.savetxt(folder / name, matrix)


@pytest.mark.parametrize("layout", ["hpatches", "oxford"])
def test_made_sequences_show_the_same_points(tmp_path, layout):
    write_sequence(tmp_path / "s" / "v_wall", layout)
    write_sequence(tmp_path / "s" / "v_wall2", layout)
    hpatches_sequences.build(tmp_path / "s", tmp_path / "out", max_keypoints=60)
    store = open_source(tmp_path / "out")
    assert (store.num_views == 16).all() and store.scene_names == ["v_wall", "v_wall2"]
    patches = store.sample(torch.arange(store.num_points), torch.arange(16).expand(store.num_points, 16), 65)[:, :, 0]
    centered = (patches - patches.mean((-2, -1), keepdim=True)).flatten(2)
    unit = centered / centered.norm(dim=2, keepdim=True)
    likeness = (unit[:, :1] * unit).sum(2).mean(0)
    easy, hard, tough = (likeness[1 + 5 * level : 6 + 5 * level].mean() for level in range(3))
    assert easy > 0.7 and easy > hard > tough, (easy, hard, tough)
    hpatches_sequences.build(tmp_path / "s", tmp_path / "again", max_keypoints=60)
    assert np.array_equal(open_source(tmp_path / "again").patches, store.patches), (
        "the same seed gives the same patches"
    )


def test_jitter_has_the_published_overlaps():
    grid = np.stack(np.meshgrid(*[np.linspace(-2.5, 2.5, 151)] * 2), -1).reshape(-1, 2)
    inside = (grid**2).sum(1) <= 1
    for strength, wanted in zip(hpatches_sequences.STRENGTHS.values(), (0.85, 0.72, 0.60), strict=True):
        overlaps = []
        for affine in hpatches_sequences.random_affine(np.random.default_rng(0), 300, strength).double().numpy():
            back = (grid - affine[:, 2]) @ np.linalg.inv(affine[:, :2]).T
            moved = (back**2).sum(1) <= 1
            overlaps.append((moved & inside).sum() / (moved | inside).sum())
        assert abs(np.median(overlaps) - wanted) < 0.02


def test_circle_overlap_and_clusters():
    overlap = hpatches_sequences.circle_overlap(
        torch.tensor([0.0, 2.0, 0.0, 1.0]), torch.tensor([1.0, 1.0, 2.0, 1.0]), torch.tensor([1.0, 1.0, 1.0, 1.0])
    )
    assert torch.allclose(overlap, torch.tensor([1.0, 0.0, 0.25, 0.2430]), atol=1e-3)
    xy = torch.tensor([[50.0, 50], [50.5, 50], [150, 50]])
    kept = hpatches_sequences.one_of_every_cluster(Keypoints(xy, torch.full((3,), 2.0), torch.zeros(3)), seed=0)
    assert len(kept) == 2 and kept.xy[-1, 0] == 150


def test_broken_sequences_are_named(tmp_path):
    write_sequence(tmp_path / "s" / "v_a")
    (tmp_path / "s" / "v_a" / "H_1_4").write_text("1 2 3\n")
    with pytest.raises(ValueError, match=r"H_1_4 is not a homography"):
        find_sequences(tmp_path / "s")
    (tmp_path / "s" / "v_a" / "H_1_4").unlink()
    with pytest.raises(ValueError, match=r"H1to4p is missing; each image after the first needs its homography"):
        find_sequences(tmp_path / "s")
    with pytest.raises(ValueError, match="holds no image sequences"):
        find_sequences(tmp_path)
    for name in ("4.ppm", "4.png"):
        (tmp_path / "s" / "v_a" / name).unlink(missing_ok=True)
    with pytest.raises(ValueError, match="v_a lacks image 4"):
        hpatches_sequences.build(tmp_path / "s", tmp_path / "out")


@pytest.mark.skipif(not (SHARED / "data" / "oxford").is_dir(), reason="the Oxford sequences are not here")
def test_oxford_sequences_are_found():
    sequences = find_sequences(SHARED / "data" / "oxford")
    assert {s.name for s in sequences} == {"bikes", "boat", "graf", "leuven", "ubc", "wall"}
    assert all(list(s.paths) == [1, 2, 3, 4, 5, 6] and list(s.homographies) == [2, 3, 4, 5, 6] for s in sequences)
