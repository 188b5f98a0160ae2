"""The three tasks of HPatches: verification, matching, retrieval, at three strengths of geometric noise.

Every average precision is given in both definitions, ``python`` (trapezoid, the released scripts) and ``matlab`` (mean
precision at positives, the figures of the paper), with ties as the expectation over their orders.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch

from patchprint.benchmarks import hpatches_tasks
from patchprint.benchmarks.descriptors import chance_of_same_index, distance_matrix, pair_distances
from patchprint.benchmarks.hpatches_tasks import Tasks
from patchprint.benchmarks.setup import Setup
from patchprint.benchmarks.stored import describe, open_for
from patchprint.errors import UserError
from patchprint.metrics.ranking import Definition, average_precision
from patchprint.metrics.verification import roc_auc
from patchprint.patches import PatchStore
from patchprint.patches.sources.hpatches_splits import Split

LEVELS = {"easy": 1, "hard": 6, "tough": 11}  # first of the five images of a level; 0 is the reference
VIEWS = 16
POSITIVES_PER_NEGATIVE = 5  # the imbalanced task takes the first fifth as many positives as negatives
_CHUNK = 256

Scores = dict[str, Any]


@dataclass(frozen=True)
class Settings:
    # Which sequences: the test parts of the three published splits, all, or one kind of change.
    split: Split = "full"
    # Folder with task files in the released CSV format; drawn with the seed if not given.
    tasks: Path | None = None
    # Length of a retrieval list, positives included.
    list_length: int = 20_000


def evaluate(setup: Setup, settings: Settings) -> Scores:
    """Scores of each task by level, their means, and the difference easy minus tough."""
    store = _open(setup)
    names = hpatches_tasks.test_sequences(settings.split, store.scene_names)
    scene = store.scene.cpu().numpy()
    sizes = [int((scene == store.scene_names.index(name)).sum()) for name in names]
    descriptors, contrast = [], []
    for name in names:
        points = torch.from_numpy(np.flatnonzero(scene == store.scene_names.index(name)))
        descriptors.append(_descriptors(setup, store, name, points))
        contrast.append(_contrast(store, points))
    if settings.tasks is None:
        tasks = hpatches_tasks.draw(sizes, contrast, setup.seed)
    else:
        tasks = hpatches_tasks.read(settings.tasks, settings.split, names, sizes)
    scores: Scores = {
        "verification": verification(descriptors, tasks),
        "matching": matching(descriptors, names),
        "retrieval": retrieval(descriptors, tasks, settings.list_length),
    }
    for task in ("verification", "matching", "retrieval"):
        scores[task]["map"] = {d: _mean(scores[task][level][d] for level in LEVELS) for d in get_args(Definition)}
        scores[task]["easy_minus_tough"] = {
            d: scores[task]["easy"][d] - scores[task]["tough"][d] for d in get_args(Definition)
        }
    counts = {"sequences": len(names), "points": sum(sizes), "positives": len(tasks.positives)}
    return {**scores, "counts": {**counts, "queries": len(tasks.queries), "distractors": len(tasks.distractors)}}


def verification(descriptors: list[np.ndarray], tasks: Tasks) -> Scores:
    """Per level: AP with a fifth as many positives as negatives, and ROC area with as many, for both kinds of negatives."""
    scores: Scores = {}
    for level, first in LEVELS.items():
        positive = _pair_distances(descriptors, tasks.positives, first)
        parts = {}
        for kind, rows in (("inter", tasks.inter), ("intra", tasks.intra)):
            if len(rows) == 0:
                continue
            negative = _pair_distances(descriptors, rows, first)
            few = positive[: max(len(negative) // POSITIVES_PER_NEGATIVE, 1)]
            parts[kind] = {
                **_both_definitions(np.concatenate([few, negative]), np.arange(len(few) + len(negative)) < len(few)),
                "balanced_roc_auc": roc_auc(
                    np.concatenate([positive, negative]), np.arange(len(positive) + len(negative)) < len(positive)
                ),
            }
        scores[level] = {**parts, **{d: _mean(part[d] for part in parts.values()) for d in get_args(Definition)}}
    return scores


def matching(descriptors: list[np.ndarray], names: list[str]) -> Scores:
    """Per level: nearest neighbour of each reference patch in each image, ranked by distance; misses cap the recall."""
    scores: Scores = {}
    for level, first in LEVELS.items():
        values: dict[str, list[dict[str, float]]] = {}
        for name, sequence in zip(names, descriptors, strict=True):
            for image in range(first, first + 5):
                distance, chance = chance_of_same_index(sequence[0], sequence[image])
                values.setdefault(name, []).append(_both_definitions(distance, chance, len(distance)))
        flat = [value for of_sequence in values.values() for value in of_sequence]
        scores[level] = {d: _mean(value[d] for value in flat) for d in get_args(Definition)}
        for kind, prefix in (("illum", "i_"), ("view", "v_")):
            chosen = [value for name in names if name.startswith(prefix) for value in values[name]]
            if chosen:
                scores[level][kind] = {d: _mean(value[d] for value in chosen) for d in get_args(Definition)}
    return scores


def retrieval(descriptors: list[np.ndarray], tasks: Tasks, list_length: int) -> Scores:
    """Per level: the five images of a reference patch among reference patches of other sequences."""
    if len(tasks.queries) == 0 or len(tasks.distractors) == 0:
        raise UserError("there are no queries or no distractors for retrieval: the sequences are too small or too flat")
    distractors = np.stack([descriptors[s][0, i] for s, i in tasks.distractors])
    values: dict[str, list[dict[str, float]]] = {level: [] for level in LEVELS}
    for start in range(0, len(tasks.queries), _CHUNK):
        rows = tasks.queries[start : start + _CHUNK]
        query = np.stack([descriptors[s][0, i] for s, i in rows])
        matrix = distance_matrix(query, distractors).cpu().numpy()
        for level, first in LEVELS.items():
            found = np.concatenate([descriptors[s][first : first + 5, i] for s, i in rows])
            positive = pair_distances(np.repeat(query, 5, axis=0), found).reshape(-1, 5)
            for (s, _), near, far in zip(rows, positive, matrix, strict=True):
                distance = np.concatenate([near, far[tasks.distractors[:, 0] != s][: list_length - 5]])
                values[level].append(_both_definitions(distance, np.arange(len(distance)) < 5))
    return {level: {d: _mean(v[d] for v in values[level]) for d in get_args(Definition)} for level in LEVELS}


def _open(setup: Setup) -> PatchStore:
    if not (setup.data / "manifest.json").is_file() and list(setup.data.glob("*/ref.png")):
        raise UserError(f"{setup.data} holds released strips; first: patchprint data build hpatches {setup.data} OUT")
    store = open_for(setup, "all")
    if not isinstance(store, PatchStore) or not bool((store.num_views == VIEWS).all()):
        raise UserError(
            f"{setup.data} is not HPatches data (16 views of each point); make it with patchprint data build hpatches "
            f"or hpatches-sequences"
        )
    return store


def _descriptors(setup: Setup, store: PatchStore, name: str, points: torch.Tensor) -> np.ndarray:
    """Prints of one sequence, (16, N, D)."""

    def compute() -> dict[str, np.ndarray]:
        views = torch.arange(VIEWS).repeat_interleave(len(points))
        found = describe(setup, store, points.repeat(VIEWS), views).numpy()
        return {"descriptors": found.reshape(VIEWS, len(points), -1)}

    return setup.predictions({"hpatches": name}, compute)["descriptors"]


def _contrast(store: PatchStore, points: torch.Tensor) -> np.ndarray:
    """Standard deviation of the pixels, 0 to 255, of the reference patches, (N,)."""
    rows = store.observation(
        points.to(store.device), torch.zeros(len(points), 1, dtype=torch.int64, device=store.device)
    )
    return store.patches[rows[:, 0].cpu().numpy()].reshape(len(points), -1).std(axis=1)


def _pair_distances(descriptors: list[np.ndarray], rows: np.ndarray, first: int) -> np.ndarray:
    """Distances of task rows (L, 6) at a level, (L,); image 0 is the reference at every level."""
    order = np.lexsort((rows[:, 3], rows[:, 0]))
    borders = np.flatnonzero(np.any(np.diff(rows[order][:, [0, 3]], axis=0) != 0, axis=1)) + 1
    distance = np.zeros(len(rows))
    for here in np.split(order, borders):
        t1, i1, t2, i2 = rows[here][:, [1, 2, 4, 5]].T
        one = descriptors[rows[here[0], 0]][np.where(t1 == 0, 0, first + t1 - 1), i1]
        two = descriptors[rows[here[0], 3]][np.where(t2 == 0, 0, first + t2 - 1), i2]
        distance[here] = pair_distances(one, two)
    return distance


def _both_definitions(distance: np.ndarray, correct: np.ndarray, num_positives: int | None = None) -> dict[str, float]:
    return {d: average_precision(distance, correct, num_positives, definition=d) for d in get_args(Definition)}


def _mean(values: Iterator[float]) -> float:
    return float(np.mean(list(values)))
