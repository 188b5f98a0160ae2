"""Recall at K on cases that can be counted by hand, against every order of equals, and with a gallery."""

import itertools
import math

import numpy as np
import pytest
import torch
from torch import Tensor

from patchprint.metrics import recall as retrieval
from patchprint.metrics.recall import recall_at
from support.loss_batches import on_circle


def classes(text: str) -> Tensor:
    """One letter a label."""
    return torch.tensor([ord(letter) for letter in text])


def test_counted_by_hand() -> None:
    # 0 has 10 nearest, 40 has 17: found at once. 10 has 17 before 0, and 17 has 10 and 0 before 40.
    recall = recall_at(on_circle(0, 10, 17, 40), classes("aabb"), (1, 2, 3))
    assert recall.at == {1: 0.5, 2: 0.75, 3: 1.0}
    assert (recall.queries, recall.alone) == (4, 0)


def test_no_image_is_its_own_neighbor() -> None:
    """All positives lie beyond a right angle: a query that were its own positive, of similarity 1 or 0, would be found at 1."""
    recall = recall_at(on_circle(0, 180, 120, 240), classes("aabb"), (1, 2, 3))
    # 0 and 180 have both b's nearer; 120 and 240 have 180 nearer, and 0 exactly as near as each other.
    assert recall.at == {1: 0.0, 2: 0.25, 3: 1.0}


def test_duplicates_of_other_classes_are_neighbors() -> None:
    """Excluded is the query itself, not everything at distance zero."""
    assert recall_at(on_circle(0, 0, 30, 30), classes("abab"), (1, 2, 3)).at == {1: 0.0, 2: 0.5, 3: 1.0}


@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_equals_count_as_the_mean_over_their_orders(k: int) -> None:
    # One query of class a at the origin; the gallery holds one nearer item, then five equals, of which two are right.
    distance = [0.1, 0.5, 0.5, 0.5, 0.5, 0.5, 0.9]
    labels = "bbabab" + "a"
    orders = [[labels[0], *(labels[1 + i] for i in order), labels[6]] for order in itertools.permutations(range(5))]
    wanted = np.mean(["a" in order[:k] for order in orders])
    gallery = torch.tensor([[d] for d in distance])
    query = torch.zeros(1, 1)
    assert recall_at(query, classes("a"), (k,), gallery, classes(labels)).at[k] == pytest.approx(wanted, abs=1e-12)
    strict = recall_at(query, classes("a"), (k,), gallery, classes(labels), ties="strict")
    assert strict.at[k] == (k > 1)


def test_a_collapsed_network_scores_chance() -> None:
    labels = torch.arange(10).repeat_interleave(5)
    same = torch.nn.functional.normalize(torch.ones(50, 7), dim=1)
    recall = recall_at(same, labels, (1, 4))
    assert recall.at[1] == pytest.approx(4 / 49)
    assert recall.at[4] == pytest.approx(1 - math.comb(45, 4) / math.comb(49, 4))
    assert recall_at(same, labels, (1,), ties="strict").at[1] == 1


def test_queries_against_a_gallery() -> None:
    # An image of the gallery that equals the query is another file, and counts.
    recall = recall_at(on_circle(0, 90), classes("ab"), (1, 2), on_circle(0, 80, 60), classes("aab"))
    assert recall.at == {1: 0.5, 2: 1.0}


def test_queries_with_nothing_to_find_are_counted_apart() -> None:
    recall = recall_at(on_circle(0, 10, 50), classes("aab"), (1,))
    assert recall == retrieval.Recall({1: 1.0}, 2, 1)
    nothing = recall_at(on_circle(0, 10), classes("ab"), (1,))
    assert math.isnan(nothing.at[1])
    assert (nothing.queries, nothing.alone) == (0, 2)


def test_chunks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = torch.Generator().manual_seed(0)
    vectors = torch.nn.functional.normalize(torch.randn(60, 8, generator=generator), dim=1)
    labels = torch.randint(0, 6, (60,), generator=generator)
    whole = recall_at(vectors, labels)
    similarity = vectors.double() @ vectors.double().T
    for k, value in whole.at.items():
        hits = 0
        for i in range(60):
            others = [j for j in range(60) if j != i]
            best = max(similarity[i, j] for j in others if labels[j] == labels[i])
            hits += sum(bool(similarity[i, j] > best) for j in others) < k
        assert value == pytest.approx(hits / 60, abs=1e-12)
    monkeypatch.setattr(retrieval, "_CHUNK_CELLS", 7 * 60)
    assert recall_at(vectors, labels) == whole


def test_bad_input_is_one_sentence() -> None:
    vectors, labels = on_circle(0, 10), classes("aa")
    with pytest.raises(ValueError, match="must be"):
        recall_at(vectors, classes("a"))
    with pytest.raises(ValueError, match="not finite"):
        recall_at(vectors * torch.nan, labels)
    with pytest.raises(ValueError, match="gallery needs its labels"):
        recall_at(vectors, labels, gallery=vectors)
    with pytest.raises(ValueError, match="at least 1"):
        recall_at(vectors, labels, (0,))
