"""The three tasks of HPatches: verification, matching, retrieval, at three strengths of geometric noise.

Every average precision is given in both definitions, ``python`` (trapezoid, the released scripts) and ``matlab`` (mean
precision at positives, the figures of the paper). Equal distances count with the expectation over their orders, or, with
``ties`` "official", as the released scripts have it: their sort is stable, so non-matching pairs come first in verification,
the first patch in matching, the positives in retrieval. Of a single sequence there is no retrieval, since the distractors of a
query are patches of other sequences.

Which patches are compared is read from the released task files or drawn. Released files: ``verif_pos_split-a.csv``,
``verif_neg_intra_split-a.csv`` and ``verif_neg_inter_split-a.csv`` with the columns s1,t1,idx1,s2,t2,idx2, and
``retr_queries_split-a.csv`` and ``retr_distractors_split-a.csv`` with s,idx. Where they are not given, tasks are drawn as the
released generator draws (hpatches/hpatches-benchmark at commit e0c993c, ``gen_verif`` and ``gen_retrieval``), as many as there
are, at most the released numbers.
"""

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch

from patchprint.benchmarks._benchmark import Benchmark, Run, Scores
from patchprint.benchmarks._stores import describe_patches, open_patches
from patchprint.common.errors import UserError, parsing
from patchprint.common.progress import note
from patchprint.data import PatchStore
from patchprint.data.builders.hpatches_patches import Split, is_test, published_split
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

# Released task files: the beginning of their names, and their columns.
_PAIRS = "s1,t1,idx1,s2,t2,idx2"
TASK_FILES = {
    "positives": ("verif_pos", _PAIRS),
    "intra": ("verif_neg_intra", _PAIRS),
    "inter": ("verif_neg_inter", _PAIRS),
    "queries": ("retr_queries", "s,idx"),
    "distractors": ("retr_distractors", "s,idx"),
}
LAST_IMAGE = 5
# Of drawn tasks.
VERIFICATION_PAIRS = 1_000_000
QUERIES, DISTRACTORS = 10_000, 20_000
DRAWN_IMAGES = 5  # the reference and the first four of a level; the generator leaves the fifth out
SMALLEST_STD = 10.0  # of the pixels, 0 to 255: flat patches make no fair query


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


@dataclass(frozen=True, eq=False)
class Tasks:
    """Everything as indices: sequence s, image t (0 the reference, k the k-th of a level), patch idx.

    Shape:
        positives, intra, inter (L, 6) int64: s1, t1, idx1, s2, t2, idx2; queries (Q, 2), distractors (R, 2): s, idx.
    """

    positives: np.ndarray
    intra: np.ndarray
    inter: np.ndarray
    queries: np.ndarray
    distractors: np.ndarray


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
        names = test_sequences(settings.split, store.scene_names)
        scene = store.scene.cpu()
        points = [(scene == store.scene_names.index(name)).nonzero()[:, 0] for name in names]
        sizes = [len(of_sequence) for of_sequence in points]
        descriptors = [_descriptors(run, store, *named) for named in zip(names, points, strict=True)]
        if settings.tasks is None:
            tasks = draw_tasks(sizes, [_contrast(store, of_sequence) for of_sequence in points], run.seed)
        else:
            tasks = read_tasks(settings.tasks, settings.split, names, sizes)
        ties: Ties = "file-order" if settings.ties == "official" else "expectation"
        scores: Scores = {
            "verification": verification(descriptors, tasks, ties),
            "matching": matching(descriptors, names, ties),
        }
        if len(names) > 1:
            scores["retrieval"] = retrieval(descriptors, tasks, settings.list_length, ties)
        else:
            note(f"{names[0]} is the only sequence: no retrieval, which takes its distractors from other sequences")
        for task in scores:
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
        tasks = [task for task in TASKS if task in scores]
        spread = {f"{task} easy-tough": scores[task]["easy_minus_tough"]["python"] for task in tasks}
        return {task: scores[task]["map"]["python"] for task in tasks} | spread

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
    store = open_patches(run, "all")
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
        found = describe_patches(run, store, points.repeat(VIEWS), views).numpy()
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


def test_sequences(split: Split, names: Sequence[str]) -> list[str]:
    """Those of ``names`` that a split tests on; "full" takes all, whatever they are called."""
    chosen = [name for name in names if split == "full" or is_test(split, name)]
    if not chosen:
        raise UserError(f"split {split!r} is empty: none of its sequences is among {', '.join(list(names)[:8])} ...")
    return chosen


def draw_tasks(sizes: Sequence[int], contrast: Sequence[np.ndarray], seed: int) -> Tasks:
    """Tasks for sequences of so many patches; ``contrast`` is the pixel std of the reference patches of each, (N,).

    A draw is a sequence (each as likely as any other, however large), two patches of it and two images: the first patch in both
    images is a positive, the two patches are a negative of one sequence, and the first with a patch of another sequence is a
    negative of two. So no negative lies in one and the same image. Unlike the generator, which draws the second sequence from
    all, the last kind never names one sequence twice.
    """
    rng = np.random.default_rng([seed, 0x49A7])
    size = np.asarray(sizes)
    large = np.flatnonzero(size > 1)
    if len(large) == 0:
        raise UserError("no sequence has two patches, so there are no pairs to draw")
    count = min(VERIFICATION_PAIRS, int(size.sum()) * DRAWN_IMAGES * (DRAWN_IMAGES - 1) // 2)
    s1 = rng.choice(large, count)
    i1, i2 = _two_of(rng, size[s1])
    t1, t2 = _two_of(rng, np.full(count, DRAWN_IMAGES))
    s2 = _two_of(rng, np.full(count, len(size)), s1)[1] if len(size) > 1 else np.zeros(0, np.int64)
    elsewhere = rng.integers(0, size[s2])
    some = slice(len(s2))  # none, where there is but one sequence
    queries, distractors = _draw_lists(rng, size, np.concatenate(contrast) > SMALLEST_STD)
    return Tasks(
        positives=np.stack([s1, t1, i1, s1, t2, i1], 1),
        intra=np.stack([s1, t1, i1, s1, t2, i2], 1),
        inter=np.stack([s1[some], t1[some], i1[some], s2, t2[some], elsewhere], 1),
        queries=queries,
        distractors=distractors,
    )


def read_tasks(folder: Path, split: Split, names: Sequence[str], sizes: Sequence[int]) -> Tasks:
    """Tasks from released files, which must name only sequences and patches that are there."""
    return Tasks(
        **{
            part: _read_rows(folder / f"{stem}_split-{split}.csv", columns.split(","), names, sizes)
            for part, (stem, columns) in TASK_FILES.items()
        }
    )


def _read_rows(path: Path, columns: list[str], names: Sequence[str], sizes: Sequence[int]) -> np.ndarray:
    """The lines of a task file (L, C), each checked against the sequences that are there and their numbers of patches."""
    if not path.is_file():
        raise UserError(f"{path} is missing; --tasks needs the task files of its split")
    number, rows = {name: index for index, name in enumerate(names)}, []
    with parsing(path, "a task file of HPatches"), open(path, newline="", encoding="utf-8") as stream:
        reader = csv.reader(stream)
        header = [cell.strip() for cell in next(reader, [])]
        if header != columns:
            raise UserError(f"{path} starts with {','.join(header)!r}, expected {','.join(columns)!r}")
        for row in filter(None, reader):
            line = f"line {reader.line_num} of {path}"
            try:
                cells = zip(columns, row, strict=True)
                values = {name: number[cell] if name.startswith("s") else int(cell) for name, cell in cells}
            except KeyError as error:
                raise UserError(f"{line} names the sequence {error}, which the data does not have") from None
            except ValueError:
                raise UserError(f"{line} is damaged; expected {','.join(columns)}") from None
            for name, value in values.items():
                if name.startswith("t") and not 0 <= value <= LAST_IMAGE:
                    what = f"an image that is none of 0 (the reference) to {LAST_IMAGE}"
                    raise UserError(f"{line}, {name} {value}, names {what}")
                if name.startswith("idx") and not 0 <= value < sizes[values[name.replace("idx", "s")]]:
                    what = "a patch that the data does not have; are these the tasks of this data?"
                    raise UserError(f"{line}, {name} {value}, names {what}")
            rows.append(list(values.values()))
    return np.array(rows, dtype=np.int64).reshape(-1, len(columns))


def _two_of(
    rng: np.random.Generator, count: np.ndarray, first: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Two different numbers below each count (N,), of which the first may be given."""
    one = rng.integers(0, count) if first is None else first
    return one, (one + 1 + rng.integers(0, count - 1)) % count


def _draw_lists(rng: np.random.Generator, sizes: np.ndarray, textured: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Queries (Q, 2) and distractors (R, 2), s and idx, each patch at most once.

    Exponential times, longer for the patches of a larger sequence, come in the order in which patches first occur when a
    sequence is drawn, then one of its patches, again and again.
    """
    sequence = np.repeat(np.arange(len(sizes)), sizes)
    patch = np.concatenate([np.arange(size) for size in sizes])
    order = np.argsort(rng.exponential(size=len(sequence)) * sizes[sequence])
    chosen = order[textured[order]]
    both = np.stack([sequence[chosen], patch[chosen]], 1)
    count = min(QUERIES, len(both) // 3)
    return both[:count], both[count : count + DISTRACTORS]
