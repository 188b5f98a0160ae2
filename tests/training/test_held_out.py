"""FPR95 and confusion on held-out points, for float and for binary networks, against a direct count."""

import pytest
import torch

from patchprint import networks
from patchprint.training.held_out import HeldOutPoints
from support.training_data import images


@pytest.mark.parametrize("kind", ["float", "binary"])
def test_scores_equal_a_direct_count(kind):
    torch.manual_seed(0)
    network = networks.create("hardnet", width=4, dim=32, kind=kind)
    source = images().split("val")
    held_out = HeldOutPoints(source, most=20, seed=3)
    assert len(held_out) == 20
    assert (held_out.views[:, 0] != held_out.views[:, 1]).all()
    patches = source.sample(held_out.points, held_out.views, 32)
    network.eval()
    with torch.no_grad():
        a, b = (network(patches[:, view]).double() for view in (0, 1))
    distance = torch.cdist(a, b)
    own = distance.diagonal()
    threshold = own.sort().values[18]  # the 19th of 20 positives
    others = (a - b.roll(1, 0)).norm(dim=1)
    scores = held_out.measure(network)
    assert scores.fpr95 == pytest.approx(float((others <= threshold + 1e-9).double().mean()))
    tied = ((distance - distance.amin(1, keepdim=True)) < 1e-9).double()
    right = tied.diagonal() / tied.sum(1)
    assert scores.confusion == pytest.approx(1 - float(right.mean()))


def test_pairs_depend_on_the_seed_alone():
    source = images().split("val")
    one, same, other = (HeldOutPoints(source, 20, seed) for seed in (1, 1, 2))
    assert torch.equal(one.points, same.points)
    assert not torch.equal(one.points, other.points)


def test_too_few_points_give_no_validation():
    source = images().split("val")
    assert len(HeldOutPoints(source.select(torch.tensor([0])), 20, 0)) == 0
