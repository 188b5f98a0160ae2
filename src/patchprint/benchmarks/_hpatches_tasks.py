"""The tasks of HPatches: which patches are compared. Read from files in the released format, or drawn with a seed.

Released files: ``verif_pos_split-a.csv``, ``verif_neg_intra_split-a.csv`` and ``verif_neg_inter_split-a.csv`` with the
columns s1,t1,idx1,s2,t2,idx2, and ``retr_queries_split-a.csv`` and ``retr_distractors_split-a.csv`` with s,idx. Where they are
not given, as many entries are drawn as there are, at most the released numbers.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from patchprint.errors import UserError
from patchprint.patches.sources.hpatches_splits import Split, is_test

VERIFICATION_PAIRS = 1_000_000
QUERIES, DISTRACTORS = 10_000, 20_000
SMALLEST_STD = 10.0  # of the pixels, 0 to 255: flat patches make no fair query


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


def test_sequences(split: Split, names: Sequence[str]) -> list[str]:
    """Those of ``names`` that a split tests on; "full" takes all, whatever they are called."""
    chosen = [name for name in names if split == "full" or is_test(split, name)]
    if not chosen:
        raise UserError(f"split {split!r} is empty: none of its sequences is among {', '.join(list(names)[:8])} ...")
    return chosen


def draw(sizes: Sequence[int], contrast: Sequence[np.ndarray], seed: int) -> Tasks:
    """Tasks for sequences of so many patches; ``contrast`` is the pixel std of the reference patches of each, (N,)."""
    rng = np.random.default_rng([seed, 0x49A7])
    sequence = np.repeat(np.arange(len(sizes)), sizes)
    patch = np.concatenate([np.arange(size) for size in sizes])
    images = np.array([(i, j) for i in range(5) for j in range(i + 1, 5)])
    chosen = rng.permutation(len(sequence) * len(images))[:VERIFICATION_PAIRS]
    row, pair = chosen // len(images), images[chosen % len(images)]
    positives = _columns(sequence[row], pair[:, 0], patch[row], sequence[row], pair[:, 1], patch[row])
    textured = rng.permutation(np.flatnonzero(np.concatenate(contrast) > SMALLEST_STD))
    queries = textured[: min(QUERIES, len(textured) // 3)]
    distractors = textured[len(queries) : len(queries) + DISTRACTORS]
    return Tasks(
        positives=positives,
        intra=_draw_negatives(rng, sequence, patch, np.asarray(sizes), len(positives), same_sequence=True),
        inter=_draw_negatives(rng, sequence, patch, np.asarray(sizes), len(positives), same_sequence=False),
        queries=np.stack([sequence[queries], patch[queries]], 1),
        distractors=np.stack([sequence[distractors], patch[distractors]], 1),
    )


def read(folder: Path, split: Split, names: Sequence[str], sizes: Sequence[int]) -> Tasks:
    """Tasks from released files, which must name only sequences and patches that are there."""
    number = {name: index for index, name in enumerate(names)}

    def table(stem: str, columns: str) -> np.ndarray:
        path = folder / f"{stem}_split-{split}.csv"
        if not path.is_file():
            raise UserError(f"{path} is missing; --tasks needs the task files of split {split!r}")
        rows = _read_rows(path, columns.split(","), number)
        for s, i in ((0, 2), (3, 5)) if len(columns) > 5 else ((0, 1),):
            if len(rows) and (rows[:, i] >= np.asarray(sizes)[rows[:, s]]).any():
                raise UserError(f"{path} names a patch that the data does not have; are these the tasks of this data?")
        return rows

    pairs, single = "s1,t1,idx1,s2,t2,idx2", "s,idx"
    return Tasks(
        positives=table("verif_pos", pairs),
        intra=table("verif_neg_intra", pairs),
        inter=table("verif_neg_inter", pairs),
        queries=table("retr_queries", single),
        distractors=table("retr_distractors", single),
    )


def _read_rows(path: Path, columns: list[str], number: dict[str, int]) -> np.ndarray:
    with open(path, newline="", encoding="utf-8") as stream:
        reader = csv.reader(stream)
        header = [cell.strip() for cell in next(reader, [])]
        if header != columns:
            raise UserError(f"{path} starts with {','.join(header)!r}, expected {','.join(columns)!r}")
        try:
            rows = [
                [number[cell] if name.startswith("s") else int(cell) for name, cell in zip(columns, row, strict=True)]
                for row in reader
                if row
            ]
        except KeyError as error:
            raise UserError(f"{path} names the sequence {error.args[0]!r}, which the data does not have") from None
        except ValueError:
            raise UserError(f"{path} is damaged; expected lines of {','.join(columns)}") from None
    return np.array(rows, dtype=np.int64).reshape(-1, len(columns))


def _draw_negatives(
    rng: np.random.Generator,
    sequence: np.ndarray,
    patch: np.ndarray,
    sizes: np.ndarray,
    count: int,
    same_sequence: bool,
) -> np.ndarray:
    """Pairs of different patches (L, 6), of one sequence or of two; without replacement is not worth the memory."""
    first = rng.integers(0, len(sequence), count)
    if same_sequence:
        size = sizes[sequence[first]]
        keep = size > 1
        first, size = first[keep], size[keep]
        start = (np.cumsum(sizes) - sizes)[sequence[first]]
        second = start + (patch[first] + 1 + rng.integers(0, np.maximum(size - 1, 1))) % size
    else:
        size = sizes[sequence[first]]
        keep = size < len(sequence)
        first, size = first[keep], size[keep]
        after = (np.cumsum(sizes))[sequence[first]]
        second = (after + rng.integers(0, np.maximum(len(sequence) - size, 1))) % len(sequence)
    images = rng.integers(0, 5, (2, len(first)))
    return _columns(sequence[first], images[0], patch[first], sequence[second], images[1], patch[second])


def _columns(*columns: np.ndarray) -> np.ndarray:
    return np.stack(columns, axis=1).astype(np.int64)
