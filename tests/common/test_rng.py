"""Stateless random numbers: repeatable, uniform, independent between keys."""

import pytest
import torch

from patchprint.common import rng


def test_numbers_depend_on_the_key_alone() -> None:
    step = torch.tensor(41)
    assert torch.equal(rng.uniform(rng.key(7, step), (100,)), rng.uniform(rng.key(7, 41), (100,)))
    assert not torch.equal(rng.uniform(rng.key(7, 41), (100,)), rng.uniform(rng.key(7, 42), (100,)))
    assert not torch.equal(rng.uniform(rng.key(7, 41), (100,)), rng.uniform(rng.key(8, 41), (100,)))


def test_pinned_values_do_not_change_between_versions() -> None:
    # A resumed run must see the batches of the run that it resumes, whatever version wrote the checkpoint.
    assert rng.bits(rng.key(0, 0), (3,)).tolist() == [600419499, 4049471205, 4009216876]


@pytest.mark.parametrize("seed", [0, 1, 12345])
def test_uniform_is_flat_and_uncorrelated(seed: int) -> None:
    values = rng.uniform(rng.key(seed, 3), (200_000,))
    counts = torch.histc(values, bins=20, min=0, max=1)
    assert (counts - 10_000).abs().max() < 500  # five standard deviations
    other = rng.uniform(rng.key(seed, 4), (200_000,))
    assert torch.corrcoef(torch.stack([values, other]))[0, 1].abs() < 0.012
    assert torch.corrcoef(torch.stack([values[:-1], values[1:]]))[0, 1].abs() < 0.012


def test_normal_moments() -> None:
    values = rng.normal(rng.key(1, 1), (200_000,))
    assert values.mean().abs() < 0.012
    assert (values.std() - 1).abs() < 0.01


def test_integers_reach_every_value_below_a_tensor_of_bounds() -> None:
    high = torch.tensor([1, 2, 7])
    values = rng.integers(rng.key(2), high, (5000, 3))
    assert values.min() == 0
    assert values.amax(0).tolist() == [0, 1, 6]


def test_permutation_holds_every_index_once() -> None:
    order = rng.permutation(rng.key(5, 9), 10_000)
    assert torch.equal(order.sort().values, torch.arange(10_000))
    assert (order == torch.arange(10_000)).sum() < 10


def test_compiles_into_one_graph() -> None:
    def draw(step: torch.Tensor) -> torch.Tensor:
        return rng.normal(rng.fold_in(rng.key(3, step), 1), (16,))

    step = torch.tensor(5)
    assert torch.equal(torch.compile(draw, backend="aot_eager", fullgraph=True)(step), draw(step))


def test_rows_that_are_left_out_change_nothing_in_the_others():
    key = rng.key(3)
    for draw in (rng.bits, rng.uniform, rng.normal):
        assert torch.equal(draw(key, (6, 4))[2:5], draw(key, (3, 4), first=2))
