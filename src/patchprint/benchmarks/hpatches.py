"""The three tasks of HPatches: verification, matching, retrieval, at three strengths of geometric noise.

Every average precision is given in both definitions, ``python`` (trapezoid, the released scripts) and ``matlab`` (mean
precision at positives, the figures of the paper). Equal distances count with the expectation over their orders, or, with
``ties`` "official", as the released scripts have it: their sort is stable, so non-matching pairs come first in verification,
the first patch in matching, the positives in retrieval.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch

from patchprint.benchmarks import _hpatches_tasks
from patchprint.benchmarks._benchmark import Benchmark, Run, Scores
from patchprint.benchmarks._hpatches_tasks import Tasks
from patchprint.benchmarks._patches import describe, open_for
from patchprint.common.errors import UserError
from patchprint.data import PatchStore
from patchprint.data.builders.hpatches_patches import Split, published_split
from patchprint.metrics.average_precision import Definition, Ties, average_precision
from patchprint.metrics.verification import roc_auc
from patchprint.ops.distances import chance_of_same_index, distance_matrix, nearest, pair_distances

# HPatches, split full or a (the literature mixes them), trained on Liberty: matching, retrieval, verification in percent.
PUBLISHED: dict[str, dict[str, float]] = {
    "RootSIFT": {"matching": 27.22, "retrieval": 42.49},
    "TFeat": {"matching": 32.64, "retrieval": 52.03},
    "L2-Net": {"matching": 40.82, "retrieval": 59.64},
    "L2-Net+": {"matching": 45.04, "retrieval": 63.37},
    "HardNet+ (NIPS)": {"verification": 87.12, "matching": 50.38, "retrieval": 66.82},
    "HardNet+": {"verification": 88.43, "matching": 52.76, "retrieval": 69.66},
    # From here on as HyNet's authors measured them.
    "HardNet (batch norm)": {"matching": 50.56},
    "HardNet (FRN)": {"matching": 51.89},
    "SOSNet (batch norm)": {"matching": 51.02},
    "SOSNet (FRN)": {"matching": 52.12},
}

TASKS = ("verification", "matching", "retrieval")
LEVELS = {"easy": 1, "hard": 6, "tough": 11}  # first of the five images of a level; 0 is the reference
KINDS = {"illum": "i_", "view": "v_"}  # what changes along a sequence, and how its name begins
VIEWS = 16
POSITIVES = 5  # in a retrieval list
NEGATIVES_PER_POSITIVE = 5  # in the imbalanced task, which takes the first positives of the list
_CHUNK = 256


@dataclass(frozen=True)
class Settings:
    # Which sequences: the test parts of the three published splits, all, or one kind of change.
    split: Split = "full"
    # Folder with task files in the released CSV format; drawn with the seed if not given.
    tasks: Path | None = None
    # Length of a retrieval list, positives included.
    list_length: int = 20_000
    # Equal distances count with the expectation over their orders (fair), or as the released scripts sort them (official).
    ties: Literal["fair", "official"] = "fair"


class HPatches(Benchmark):
    """Patch verification, matching and retrieval at three strengths of noise."""

    settings = Settings
    scoring = frozenset({"split", "tasks", "list_length", "ties"})

    def evaluate(self, run: Run, settings: Settings) -> Scores:
        """Scores of each task by level, their means, and the difference easy minus tough."""
        if settings.list_length <= POSITIVES:
            raise UserError(
                f"--list-length {settings.list_length} leaves no room for distractors beside the {POSITIVES} positives"
            )
        store = _open(run)
        names = _hpatches_tasks.test_sequences(settings.split, store.scene_names)
        scene = store.scene.cpu().numpy()
        sizes = [int((scene == store.scene_names.index(name)).sum()) for name in names]
        descriptors, contrast = [], []
        for name in names:
            points = torch.from_numpy(np.flatnonzero(scene == store.scene_names.index(name)))
            descriptors.append(_descriptors(run, store, name, points))
            contrast.append(_contrast(store, points))
        if settings.tasks is None:
            tasks = _hpatches_tasks.draw(sizes, contrast, run.seed)
        else:
            tasks = _hpatches_tasks.read(settings.tasks, settings.split, names, sizes)
        ties: Ties = "file-order" if settings.ties == "official" else "expectation"
        scores: Scores = {
            "verification": verification(descriptors, tasks, ties),
            "matching": matching(descriptors, names, ties),
            "retrieval": retrieval(descriptors, tasks, settings.list_length, ties),
        }
        for task in TASKS:
            scores[task]["map"] = _mean_of(scores[task][level] for level in LEVELS)
            scores[task]["easy_minus_tough"] = {
                d: scores[task]["easy"][d] - scores[task]["tough"][d] for d in get_args(Definition)
            }
        for kind in KINDS.keys() & scores["matching"]["easy"]:
            scores["matching"][kind] = _mean_of(scores["matching"][level][kind] for level in LEVELS)
        counts = {"sequences": len(names), "points": sum(sizes), "positives": len(tasks.positives)}
        counts |= {"queries": len(tasks.queries), "distractors": len(tasks.distractors)}
        return {**scores, "counts": counts, "published_split": published_split(names)}

    def headline(self, scores: Scores) -> dict[str, float]:
        spread = {f"{task} easy-tough": scores[task]["easy_minus_tough"]["python"] for task in TASKS}
        return {task: scores[task]["map"]["python"] for task in TASKS} | spread

    def published(self, result: dict[str, Any]) -> dict[str, dict[str, float]]:
        """Beside the published sequences only; verification and retrieval only with the released lists."""
        if result["scores"].get("published_split") is None:
            return {}
        shown = TASKS if result["settings"]["tasks"] else ("matching",)
        return {
            name: {task: value / 100 for task, value in row.items() if task in shown} for name, row in PUBLISHED.items()
        }


def verification(descriptors: list[np.ndarray], tasks: Tasks, ties: Ties = "expectation") -> Scores:
    """Per level: AP with a fifth as many positives as negatives, and ROC area with as many, for both kinds of negatives."""
    scores: Scores = {}
    for level, first in LEVELS.items():
        positive = _pair_distances(descriptors, tasks.positives, first)
        parts = {}
        for kind, rows in (("inter", tasks.inter), ("intra", tasks.intra)):
            if len(rows) == 0:
                continue
            negative = _pair_distances(descriptors, rows, first)
            few = max(len(negative) // NEGATIVES_PER_POSITIVE, 1)
            distance = np.concatenate([negative, positive])
            is_match = np.arange(len(distance)) >= len(negative)
            some = slice(len(negative) + few)
            parts[kind] = {
                **_both_definitions(distance[some], is_match[some], ties=ties),
                "balanced_roc_auc": roc_auc(distance, is_match, ties),
            }
        scores[level] = {**parts, **_mean_of(parts.values())}
    return scores


def matching(descriptors: list[np.ndarray], names: list[str], ties: Ties = "expectation") -> Scores:
    """Per level: nearest neighbor of each reference patch in each image, ranked by distance; misses cap the recall."""
    scores: Scores = {}
    for level, first in LEVELS.items():
        values: dict[str, list[dict[str, float]]] = {}
        for name, sequence in zip(names, descriptors, strict=True):
            for image in range(first, first + 5):
                distance, correct = _nearest_is_same(sequence[0], sequence[image], ties)
                values.setdefault(name, []).append(_both_definitions(distance, correct, len(distance), ties))
        scores[level] = _mean_of(value for of_sequence in values.values() for value in of_sequence)
        for kind, prefix in KINDS.items():
            chosen = [value for name in names if name.startswith(prefix) for value in values[name]]
            if chosen:
                scores[level][kind] = _mean_of(chosen)
    return scores


def retrieval(descriptors: list[np.ndarray], tasks: Tasks, list_length: int, ties: Ties = "expectation") -> Scores:
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
            found = np.concatenate([descriptors[s][first : first + POSITIVES, i] for s, i in rows])
            positive = pair_distances(np.repeat(query, POSITIVES, axis=0), found).reshape(-1, POSITIVES)
            for (s, _), near, far in zip(rows, positive, matrix, strict=True):
                distance = np.concatenate([near, far[tasks.distractors[:, 0] != s][: list_length - POSITIVES]])
                values[level].append(_both_definitions(distance, np.arange(len(distance)) < POSITIVES, ties=ties))
    return {level: _mean_of(values[level]) for level in LEVELS}


def _open(run: Run) -> PatchStore:
    if not (run.folder / "manifest.json").is_file() and list(run.folder.glob("*/ref.png")):
        raise UserError(f"{run.folder} holds released strips; first: patchprint data build hpatches {run.folder} OUT")
    store = open_for(run, "all")
    if not isinstance(store, PatchStore) or not bool((store.num_views == VIEWS).all()):
        raise UserError(
            f"{run.folder} is not HPatches data (16 views of each point); make it with patchprint data build hpatches "
            f"or hpatches-sequences"
        )
    return store


def _descriptors(run: Run, store: PatchStore, name: str, points: torch.Tensor) -> np.ndarray:
    """Descriptors of one sequence, (16, N, D)."""

    def compute() -> dict[str, np.ndarray]:
        views = torch.arange(VIEWS).repeat_interleave(len(points))
        found = describe(run, store, points.repeat(VIEWS), views).numpy()
        return {"descriptors": found.reshape(VIEWS, len(points), -1)}

    return run.predictions(name, compute)["descriptors"]


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


def _nearest_is_same(a: np.ndarray, b: np.ndarray, ties: Ties) -> tuple[np.ndarray, np.ndarray]:
    """Distance to the nearest row of b, and whether (or with which chance) it is the same row as in a, both (N,)."""
    if ties == "expectation":
        return chance_of_same_index(a, b)
    distance, index = (found[:, 0].numpy() for found in nearest(torch.as_tensor(a), torch.as_tensor(b), exact=True))
    return distance, index == np.arange(len(a))


def _both_definitions(
    distance: np.ndarray, correct: np.ndarray, num_positives: int | None = None, ties: Ties = "expectation"
) -> dict[str, float]:
    return {d: average_precision(distance, correct, num_positives, d, ties) for d in get_args(Definition)}


def _mean_of(scores: Iterable[dict[str, Any]]) -> dict[str, float]:
    """The mean of each definition over several scores."""
    values = list(scores)
    return {d: float(np.mean([value[d] for value in values])) for d in get_args(Definition)}
