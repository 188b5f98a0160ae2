"""Probes: distributions of known descriptors, and the weights of the loss."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from patchprint.benchmarks import Run
from patchprint.common.errors import UserError
from patchprint.features.model import Model
from patchprint.losses.sdgm import SDGMLoss, Spread
from patchprint.networks import ModelInfo
from patchprint.studies._measures import PROBES
from support.benchmark_data import write_store
from support.fake_models import BinaryPixels, CountingPixels


class ThreeValues(Model):
    """The descriptor (1, -1, b) / sqrt(3), where b is 1 for a patch brighter than the middle and -1 for a darker one."""

    info = ModelInfo("three", network="", dim=3, sha256="t0")

    def describe_patches(self, patches: Tensor) -> Tensor:
        bright = torch.where(patches.mean((1, 2, 3)) > 0.5, 1.0, -1.0)
        return torch.stack([torch.ones_like(bright), -torch.ones_like(bright), bright], 1) / math.sqrt(3)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("probes") / "store"
    write_store(folder, points=30, views=3, noise=60.0)
    return folder


def found(probe: str, model: Model, store: Path, **settings: Any) -> dict[str, Any]:
    benchmark = PROBES[probe]()
    chosen = benchmark.settings(**settings)
    return benchmark.evaluate(Run(benchmark, chosen, model, (store,)), chosen)


def test_signs_have_their_means(store: Path) -> None:
    scores = found("values", ThreeValues(), store)
    one, minus_one, between = scores["bit_means"]["y"]
    assert (one, minus_one) == (1.0, -1.0)
    assert abs(between) < 1
    assert scores["largest_bit_mean"] == 1.0
    assert scores["mean_bit_mean"] == pytest.approx((2 + abs(between)) / 3, rel=1e-3)
    assert scores["mean"] == pytest.approx(between / 3 / math.sqrt(3), abs=1e-4)
    assert scores["patches"] == 60


def test_negatives_are_the_hardest_of_their_batch(store: Path) -> None:
    large, small = (found("angles", CountingPixels(), store, batch=batch)["statistics"] for batch in (60, 10))
    assert large["negative"]["mean"] < small["negative"]["mean"]
    assert large["positive"]["mean"] == pytest.approx(small["positive"]["mean"])
    for statistics in (large, small):
        difference = statistics["positive"]["mean"] - statistics["negative"]["mean"]
        assert statistics["relative"]["mean"] == pytest.approx(difference, abs=1e-5)


def test_weights_are_those_of_the_loss(store: Path) -> None:
    scores = found("angles", CountingPixels(), store)
    spreads = [Spread(torch.tensor(each["mean"]), torch.tensor(each["std"])) for each in scores["statistics"].values()]
    x = torch.tensor(scores["map"]["x"], dtype=torch.float32)
    across, up = x[None].expand(50, 50), x[:, None].expand(50, 50)
    positive, negative = SDGMLoss().weights(across, up, *spreads)
    coupled = SDGMLoss(self_weight="theta").weights(across, up, *spreads)[0]
    cells = torch.tensor(scores["map"]["z"])
    assert torch.allclose(cells * coupled, positive * negative, atol=2e-3)
    assert cells.max() > 0
    of_triplet = scores["weights"]["relative"]
    kept = [y for y in of_triplet["y"] if y > 0]
    assert kept == sorted(kept)
    assert min(kept) == pytest.approx(0.6, abs=0.05)
    assert of_triplet["y"][0] == 0


def test_sets_that_cannot_be_measured_are_refused(store: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="binary has binary descriptors"):
        found("values", BinaryPixels(), store)
    write_store(tmp_path / "few", scenes=1, points=3, views=2)
    with pytest.raises(UserError, match="3 points with two views"):
        found("angles", CountingPixels(), tmp_path / "few")
