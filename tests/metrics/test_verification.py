"""FPR95 and ROC area against hand-counted cases, scikit-learn, and what ties must do."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from patchprint.metrics.verification import (
    FPR95_VARIANTS,
    curves,
    fpr95,
    fpr95_hardnet,
    fpr95_hynet,
    fpr95_sdgmnet,
    roc_auc,
)


def random_pairs(seed: int = 0, count: int = 2000, levels: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    matching = rng.random(count) < 0.4
    distance = np.where(matching, rng.normal(0.7, 0.2, count), rng.normal(1.2, 0.2, count)).clip(0, 2)
    return (distance if levels is None else np.round(distance * levels) / levels), matching


def test_counted_by_hand() -> None:
    # 20 matching pairs at 1..20, so 95 % recall is reached at 19; negatives at or below 19: three of four.
    distance = [*range(1, 21), 0.5, 18.5, 19.0, 30.0]
    labels = [True] * 20 + [False] * 4
    assert fpr95(distance, labels) == 0.75
    assert fpr95_hynet(distance, labels) == 0.75  # threshold 20
    assert fpr95_hardnet(distance, labels) == 0.5  # the negative tied at 19 comes later in the file


def test_hynet_looks_one_positive_too_far() -> None:
    distance = [*range(1, 21), 19.5]
    labels = [True] * 20 + [False]
    assert fpr95(distance, labels) == 0.0
    assert fpr95_hynet(distance, labels) == 1.0


def test_rank_is_exact_where_floats_are_not() -> None:
    # 0.95 * 140 is 133.0 exactly in integers; the 134th matching pair must not be needed.
    distance = [*range(1, 141), 133.5]
    assert fpr95(distance, [True] * 140 + [False]) == 0.0


def test_constant_descriptors_are_not_perfect() -> None:
    labels = np.arange(1000) < 500
    assert fpr95(np.zeros(1000), labels) == 1.0
    assert roc_auc(np.zeros(1000), labels) == 0.5
    assert fpr95_hardnet(np.zeros(1000), labels) == 0.0  # the published flaw, kept under its name


def test_variants_agree_without_ties() -> None:
    distance, labels = random_pairs(count=20_000)
    values = {name: function(distance, labels) for name, function in FPR95_VARIANTS.items()}
    assert values["hardnet"] == pytest.approx(values["tie-safe"], abs=1e-9)
    assert all(value == pytest.approx(values["tie-safe"], abs=2e-3) for value in values.values())


def test_sdgmnet_score_is_coarse() -> None:
    distance = np.array([0.001, 0.0005])
    # Both distances round to one float32 score, so file order decides against the truth.
    assert fpr95(distance, [False, True]) == 0.0
    assert fpr95_sdgmnet(distance, [False, True]) == 1.0


def test_sdgmnet_score_knows_no_bits() -> None:
    """Above a distance of 4.69 the score falls again, and at the square root of 22 it is a division by zero."""
    with pytest.raises(ValueError, match="at most 2 apart, but two are 12 apart"):
        fpr95_sdgmnet([3.0, 12.0, 5.0], [True, False, True])
    assert fpr95_sdgmnet([0.0, 2.0], [True, False]) == 0.0


def test_ties_in_the_order_of_the_file() -> None:
    distance, labels = random_pairs(3, levels=4)
    order = np.argsort(labels, kind="stable")  # non-matching pairs first, as in the scripts of HPatches
    strict = np.mean(distance[labels][:, None] < distance[~labels][None])
    assert roc_auc(distance[order], labels[order], "file-order") == pytest.approx(strict, abs=1e-12)
    assert roc_auc(distance[order[::-1]], labels[order[::-1]], "file-order") > roc_auc(distance, labels) > strict


@pytest.mark.parametrize("levels", [None, 32])
def test_against_scikit_learn(levels: int | None) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    distance, labels = random_pairs(1, levels=levels)
    assert roc_auc(distance, labels) == pytest.approx(metrics.roc_auc_score(labels, -distance), abs=1e-12)
    false_rate, true_rate, _ = metrics.roc_curve(labels, -distance, drop_intermediate=False)
    assert fpr95(distance, labels) == pytest.approx(false_rate[np.argmax(true_rate >= 0.95 - 1e-12)], abs=1e-12)


@given(st.integers(0, 10_000), st.sampled_from([None, 8]))
@settings(max_examples=30, deadline=None)
def test_order_does_not_matter(seed: int, levels: int | None) -> None:
    distance, labels = random_pairs(seed, 200, levels)
    order = np.random.default_rng(seed + 1).permutation(200)
    assert fpr95(distance[order], labels[order]) == fpr95(distance, labels)
    assert roc_auc(distance[order], labels[order]) == pytest.approx(roc_auc(distance, labels), abs=1e-12)


def test_tensors_are_taken() -> None:
    distance, labels = random_pairs()
    assert fpr95(torch.tensor(distance), torch.tensor(labels)) == fpr95(distance, labels)


@pytest.mark.parametrize(
    ("distance", "labels", "message"),
    [
        ([1.0, 2.0], [True, True], "2 of 2 matching"),
        ([1.0, float("nan")], [True, False], "1 of 2 distances are NaN"),
        ([1.0, 2.0, 3.0], [True, False], "same shape"),
    ],
)
def test_bad_input_is_named(distance: list[float], labels: list[bool], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fpr95(distance, labels)


def test_curves_counted_by_hand() -> None:
    # Ten positives at 0..9, ten negatives at 5.5, 6.5, ...: one negative allowed reaches the positives below 6.5.
    distance = np.concatenate([np.arange(10.0), np.arange(10.0) + 5.5])
    found = curves(distance, np.arange(20) < 10)
    roc = dict(zip(found["roc"]["fpr"], found["roc"]["recall"], strict=True))
    assert roc[0.0] == 0.6 and roc[0.1] == 0.7 and roc[1.0] == 1.0
    assert min(rate for rate in roc if rate) == 0.1, "ten negatives tell no smaller rate"
    precision = dict(zip(found["precision_recall"]["recall"], found["precision_recall"]["precision"], strict=True))
    assert precision[0.5] == 1.0 and precision[0.7] == 0.875 and precision[1.0] == round(10 / 14, 5)


@pytest.mark.parametrize("levels", [None, 8])
def test_curves_agree_with_fpr95_and_rise(levels: int | None) -> None:
    distance, matching = random_pairs(levels=levels)
    roc = curves(distance, matching)["roc"]
    assert roc["recall"] == sorted(roc["recall"])
    reached = [rate for rate, recall in zip(roc["fpr"], roc["recall"], strict=True) if recall >= 0.95]
    missed = [rate for rate, recall in zip(roc["fpr"], roc["recall"], strict=True) if recall < 0.95]
    assert max(missed) < fpr95(distance, matching) + 1e-6 and min(reached) >= fpr95(distance, matching) - 1e-6


def test_equal_distances_are_no_curve_to_be_proud_of() -> None:
    found = curves(np.ones(20), np.arange(20) < 10)
    assert set(found["roc"]["recall"][:-1]) == {0.0} and set(found["precision_recall"]["precision"]) == {0.5}
