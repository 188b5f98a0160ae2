"""Average precision against the fact sheet, scikit-learn, and every order of tied entries written out."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from patchprint.metrics.average_precision import Definition, average_precision, mean_average_precision, precision_recall


def plain_average_precision(labels: tuple[int, ...], num_positives: float, definition: str) -> float:
    """The textbook loop over one fixed order."""
    found, total, previous = 0, 0.0, 1.0
    for rank, label in enumerate(labels, start=1):
        found += label
        precision = found / rank
        if label:
            total += precision if definition == "matlab" else (precision + previous) / 2
        previous = precision
    return total / num_positives


@pytest.mark.parametrize(("labels", "positives", "expected"), [([1, 0, 1, 0], 4, 0.39583), ([0, 1, 1, 0], 2, 0.41667)])
def test_cases_of_the_fact_sheet(labels: list[int], positives: int, expected: float) -> None:
    value = average_precision(np.arange(4.0), labels, positives, definition="python")
    assert value == pytest.approx(expected, abs=5e-6)


@pytest.mark.parametrize("definition", ["matlab", "python"])
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 1)), min_size=1, max_size=6), st.integers(0, 2))
@settings(max_examples=40, deadline=None)
def test_ties_are_the_mean_over_all_orders(definition: Definition, entries: list[tuple[int, int]], missed: int) -> None:
    positives = sum(label for _, label in entries) + missed
    if positives == 0:
        return
    orders = [order for order in itertools.permutations(entries) if list(order) == sorted(order, key=lambda e: e[0])]
    wanted = np.mean([plain_average_precision(tuple(e[1] for e in order), positives, definition) for order in orders])
    distance, labels = zip(*entries, strict=True)
    assert average_precision(distance, labels, positives, definition) == pytest.approx(wanted, abs=1e-12)


def test_probabilities_are_the_mean_over_outcomes() -> None:
    chances, distance = np.array([0.5, 1.0, 0.25, 0.0]), np.array([0.0, 1.0, 1.0, 2.0])
    wanted = 0.0
    for outcome in itertools.product([0, 1], repeat=4):
        weight = np.prod([q if o else 1 - q for q, o in zip(chances, outcome, strict=True)])
        wanted += weight * average_precision(distance, outcome, 4)
    assert average_precision(distance, chances, 4) == pytest.approx(wanted, abs=1e-12)


def test_against_scikit_learn() -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(0)
    distance, labels = rng.random(500), rng.random(500) < 0.3
    wanted = metrics.average_precision_score(labels, -distance)
    assert average_precision(distance, labels) == pytest.approx(wanted, abs=1e-12)


@pytest.mark.parametrize("definition", ["matlab", "python"])
def test_constant_descriptors_score_the_base_rate(definition: Definition) -> None:
    labels = np.arange(20_000) < 2000
    assert average_precision(np.zeros(20_000), labels, definition=definition) == pytest.approx(0.1, abs=1e-3)
    # The released scripts call the same list perfect, because its positives come first in the file.
    assert average_precision(np.zeros(20_000), labels, definition=definition, ties="file-order") == 1.0


def test_order_does_not_matter() -> None:
    rng = np.random.default_rng(2)
    distance, labels = rng.integers(0, 12, 300).astype(float), rng.random(300) < 0.4
    order = rng.permutation(300)
    assert average_precision(distance[order], labels[order]) == pytest.approx(
        average_precision(distance, labels), abs=1e-12
    )


def test_nothing_to_find() -> None:
    assert np.isnan(average_precision([1.0, 2.0], [0, 0]))
    assert average_precision([], [], 5) == 0.0
    assert mean_average_precision([0.5, float("nan"), 1.0]) == 0.75


def test_curve_has_one_point_per_distance() -> None:
    precision, recall = precision_recall([1.0, 2.0, 2.0, 3.0], [1, 0, 1, 0], 4)
    np.testing.assert_allclose(precision, [1.0, 2 / 3, 0.5])
    np.testing.assert_allclose(recall, [0.25, 0.5, 0.5])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(([1.0], [1, 0]), "same shape"), (([1.0, 2.0], [1, 1], 1), "num_positives is 1"), (([float("nan")], [1]), "NaN")],
)
def test_bad_input_is_named(arguments: tuple, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        average_precision(*arguments)
