"""Labeled images for benchmarks: every one is read once, in a known order, from stores of any part."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from patchprint.benchmarks import _labeled_images
from patchprint.benchmarks._labeled_images import for_every_image, open_images, part_of
from support.benchmark_data import run_of
from support.fake_models import ColorImages
from support.image_sets import write_store


def test_every_image_comes_once_in_the_order_of_its_views(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = run_of("retrieval", ColorImages(), write_store(tmp_path / "store", classes=6, count=5))
    store = open_images(run)
    model = run.image_model
    whole = for_every_image(run, store, model.raw)
    assert whole.shape == (30, 3)
    for row, (point, view) in enumerate(zip(*store.all_views(), strict=True)):
        square = store.sample(point[None], view[None, None], model.input_size)[:, 0]
        torch.testing.assert_close(model.raw(square)[0], whole[row])
    monkeypatch.setattr(_labeled_images, "_CHUNK", 7)
    torch.testing.assert_close(for_every_image(run, store, model.raw), whole)


def test_parts(tmp_path: Path) -> None:
    run = run_of("retrieval", ColorImages(), write_store(tmp_path / "store", classes=12))
    store = open_images(run)
    assert [part_of(store, name).num_points for name in ("train", "val", "test", "all")] == [4, 2, 6, 12]
    with pytest.raises(ValueError, match=r"'val' of .* is empty"):
        part_of(store.split("test"), "val")
