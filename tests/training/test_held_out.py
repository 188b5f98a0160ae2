"""FPR95 and confusion on held-out points against a direct count; test sets, each on its official pairs."""

import pytest
import torch

from patchprint import networks
from patchprint.training import held_out as judges
from patchprint.training.held_out import HeldOutPoints
from support import benchmark_data, image_sets
from support.benchmark_data import scores_of
from support.training_data import images
from support.ubc_sets import write_ubc


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
    assert scores["fpr95"] == pytest.approx(float((others <= threshold + 1e-9).double().mean()))
    tied = ((distance - distance.amin(1, keepdim=True)) < 1e-9).double()
    right = tied.diagonal() / tied.sum(1)
    assert scores["confusion"] == pytest.approx(1 - float(right.mean()))


def test_pairs_depend_on_the_seed_alone():
    source = images().split("val")
    one, same, other = (HeldOutPoints(source, 20, seed) for seed in (1, 1, 2))
    assert torch.equal(one.points, same.points)
    assert not torch.equal(one.points, other.points)


def test_too_few_points_give_no_validation():
    source = images().split("val")
    assert len(HeldOutPoints(source.select(torch.tensor([0])), 20, 0)) == 0


def judge_of(*folders, most=40):
    return judges.create_for_test_sets([str(folder) for folder in folders], torch.device("cpu"), 12.0, most, seed=0)


@pytest.mark.parametrize("kind", ["float", "binary"])
def test_test_sets_are_scored_as_the_benchmark_scores_them(kind, tmp_path):
    torch.manual_seed(0)
    network = networks.create("hardnet", width=4, dim=32, kind=kind)
    for seed, name in enumerate(("liberty", "yosemite")):
        write_ubc(tmp_path / name, seed=seed)
    judge = judge_of(tmp_path / "liberty", tmp_path / "yosemite")
    assert len(judge) == 2 * 60, "official pairs, not as many as were asked for"
    measured = judge.measure(network)
    one, other = (scores_of("ubc", network, tmp_path / name)["fpr95"] / 100 for name in ("liberty", "yosemite"))
    assert one != other
    assert measured == pytest.approx({"fpr95": (one + other) / 2, "fpr95/liberty": one, "fpr95/yosemite": other})
    assert judges.score(measured) == pytest.approx((one + other) / 2), "the mean over the sets chooses"


def test_sets_of_one_name_are_told_apart(tmp_path):
    for folder in ("one", "two"):
        write_ubc(tmp_path / folder / "patches")
    judge = judge_of(tmp_path / "one" / "patches", tmp_path / "two" / "patches")
    assert list(judge.judges) == ["patches", str(tmp_path / "two" / "patches")]


def test_of_a_store_with_a_test_part_that_part_judges(tmp_path):
    """Without official pairs as many as asked for are drawn; images are searched for among each other."""
    benchmark_data.write_store(tmp_path / "all")
    images().save(tmp_path / "photos")
    assert [len(each) for each in judge_of(tmp_path / "all", tmp_path / "photos").judges.values()] == [40, 40]
    (birds,) = judge_of(image_sets.write_store(tmp_path / "birds"), most=1000).judges.values()
    assert len(birds) == 36 and sorted(set(birds.source.label.tolist())) == list(range(6, 12))
