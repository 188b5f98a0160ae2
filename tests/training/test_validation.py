"""FPR95 and confusion on held-out points, for float and for binary networks, against a direct count."""

import pytest
import torch
from patchprint.training.validation import Validation

from patchprint import networks
from training_data import images


@pytest.mark.parametrize("kind", ["float", "binary"])
def test_scores_equal_a_direct_count(kind):
    torch.manual_seed(0)
    network = networks.create("hardnet", width=4, dim=32, kind=kind)
    source = images().split("val")
    validation = Validation(source, pairs=40, seed=3)
    assert validation.count == 20
    assert (validation.views[:, 0] != validation.views[:, 1]).all()
    patches = source.sample(validation.points, validation.views, 32)
    network.eval()
    with torch.no_grad():
        a, b = (network(patches[:, view]).double() for view in (0, 1))
    distance = torch.cdist(a, b)
    own = distance.diagonal()
    threshold = own.sort().values[18]  # the 19th of 20 positives
    others = (a - b.roll(1, 0)).norm(dim=1)
    scores = validation.measure(network)
    assert scores.fpr95 == pytest.approx(float((others <= threshold + 1e-9).double().mean()))
    confused = ((distance <= own[:, None] + 1e-9).sum(1) > 1).double().mean()
    assert scores.confusion == pytest.approx(float(confused))


def test_pairs_depend_on_the_seed_alone():
    source = images().split("val")
    one, same, other = (Validation(source, 40, seed) for seed in (1, 1, 2))
    assert torch.equal(one.points, same.points)
    assert not torch.equal(one.points, other.points)


def test_too_few_points_give_no_validation():
    source = images().split("val")
    assert Validation(source.select(torch.tensor([0])), 40, 0).count == 0
