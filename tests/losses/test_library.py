"""Losses of pytorch-metric-learning by name: equal to the library's own call, and names or settings that do not fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from patchprint.losses import SEC, create
from patchprint.losses.metric_learning import WithLabels
from support.loss_batches import batch_of, random_raw
from support.training_data import short_run

library = pytest.importorskip("pytorch_metric_learning.losses")
from pytorch_metric_learning.distances import LpDistance  # noqa: E402
from pytorch_metric_learning.miners import BatchHardMiner  # noqa: E402


def test_it_is_the_loss_of_the_library() -> None:
    raw = random_raw(points=4, views=3)
    valid = torch.ones(4, 3, dtype=torch.bool)
    valid[1, 2] = valid[2, 0] = valid[2, 1] = False
    vectors, labels = raw[valid], torch.arange(4)[:, None].expand(4, 3)[valid]
    distance = LpDistance(power=2)
    expected = library.TripletMarginLoss(0.3, distance=distance)(vectors, labels, BatchHardMiner()(vectors, labels))
    settings = {"margin": 0.3, "distance": distance}
    ours = create("library", name="TripletMarginLoss", settings=settings, miner="BatchHardMiner")
    assert ours(batch_of(raw, valid=valid))["total"].item() == pytest.approx(expected.item(), abs=1e-9)
    assert WithLabels(ours)(vectors, labels).item() == pytest.approx(expected.item(), abs=1e-9)


@pytest.mark.slow
def test_a_run_follows_the_one_with_our_equal_loss(tmp_path: Path) -> None:
    settings = {"name": "MultiSimilarityLoss", "settings": {"beta": 40}, "miner": "MultiSimilarityMiner"}
    common = {"sec": 0.1, "precision": "float64", "lr": 0.1}
    _, theirs = short_run("hardnet", tmp_path / "theirs", loss="library", loss_settings=settings, **common)
    _, ours = short_run("hardnet", tmp_path / "ours", loss="multi-similarity", **common)
    assert theirs == pytest.approx(ours, rel=1e-6)


def test_it_says_that_it_cannot_be_recorded() -> None:
    assert not create("library").fixed_shapes
    assert not SEC(create("library")).fixed_shapes
    assert SEC(create("semihard")).fixed_shapes


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"name": "TripletMarginLos"},
            "no loss of pytorch-metric-learning called 'TripletMarginLos'; did you mean Trip",
        ),
        ({"miner": "BatchHardMinr"}, "no miner of pytorch-metric-learning called 'BatchHardMinr'; did you mean Batch"),
        ({"name": "BaseMetricLossFunction"}, "no loss of pytorch-metric-learning called"),
        ({"settings": {"magrin": 1}}, "ContrastiveLoss of pytorch-metric-learning cannot be made with .*magrin"),
        ({"name": "ProxyNCALoss", "settings": {"num_classes": 3, "embedding_size": 8}}, "learns weights of its own"),
    ],
)
def test_what_does_not_fit_is_named(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        create("library", **settings)


def test_ignored_pairs_are_refused() -> None:
    with pytest.raises(ValueError, match=r"batch\.ignore must be None"):
        create("library")(batch_of(random_raw(), ignore=torch.zeros(12, 12, dtype=torch.bool)))
