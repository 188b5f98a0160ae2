"""Tasks of HPatches: which patches are compared; read from the released files, or drawn with a seed.

Released files: ``verif_pos_split-a.csv``, ``verif_neg_intra_split-a.csv`` and ``verif_neg_inter_split-a.csv`` with the
columns s1,t1,idx1,s2,t2,idx2, and ``retr_queries_split-a.csv`` and ``retr_distractors_split-a.csv`` with s,idx. Where they are
not given, they are drawn as the released generator draws (hpatches/hpatches-benchmark at commit e0c993c, ``gen_verif`` and
``gen_retrieval``), as many as there are, at most the released numbers.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from patchprint.common.errors import UserError, parsing
from patchprint.data.builders.hpatches_patches import Split, is_test

VERIFICATION_PAIRS = 1_000_000
QUERIES, DISTRACTORS = 10_000, 20_000
DRAWN_IMAGES = 5  # the reference and the first four of a level; the generator leaves the fifth out
LAST_IMAGE = 5
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


def read(folder: Path, split: Split, names: Sequence[str], sizes: Sequence[int]) -> Tasks:
    """Tasks from released files, which must name only sequences and patches that are there."""
    number = {name: index for index, name in enumerate(names)}

    def table(stem: str, columns: str) -> np.ndarray:
        path = folder / f"{stem}_split-{split}.csv"
        if not path.is_file():
            raise UserError(f"{path} is missing; --tasks needs the task files of split {split!r}")
        return _read_rows(path, columns.split(","), number, np.asarray(sizes))

    pairs, single = "s1,t1,idx1,s2,t2,idx2", "s,idx"
    return Tasks(
        positives=table("verif_pos", pairs),
        intra=table("verif_neg_intra", pairs),
        inter=table("verif_neg_inter", pairs),
        queries=table("retr_queries", single),
        distractors=table("retr_distractors", single),
    )


def _read_rows(path: Path, columns: list[str], number: dict[str, int], sizes: np.ndarray) -> np.ndarray:
    """The lines of a task file (L, C), each checked against the sequences that are there and their numbers of patches."""
    lines = []
    with parsing(path, "a task file of HPatches"), open(path, newline="", encoding="utf-8") as stream:
        reader = csv.reader(stream)
        header = [cell.strip() for cell in next(reader, [])]
        if header != columns:
            raise UserError(f"{path} starts with {','.join(header)!r}, expected {','.join(columns)!r}")
        try:
            rows = []
            for row in filter(None, reader):
                lines.append(reader.line_num)
                cells = zip(columns, row, strict=True)
                rows.append([number[cell] if name.startswith("s") else int(cell) for name, cell in cells])
        except KeyError as error:
            raise UserError(
                f"line {lines[-1]} of {path} names the sequence {error.args[0]!r}, which the data does not have"
            ) from None
        except ValueError:
            raise UserError(f"line {reader.line_num} of {path} is damaged; expected {','.join(columns)}") from None
        table = np.array(rows, dtype=np.int64).reshape(-1, len(columns))
    for place, name in enumerate(columns):
        if name.startswith("t"):
            wrong = (table[:, place] < 0) | (table[:, place] > LAST_IMAGE)
            complaint = f"names an image that is none of 0 (the reference) to {LAST_IMAGE}"
        elif name.startswith("idx"):
            sequence = table[:, columns.index(name.replace("idx", "s"))]
            wrong = (table[:, place] < 0) | (table[:, place] >= sizes[sequence])
            complaint = "names a patch that the data does not have; are these the tasks of this data?"
        else:
            continue
        if wrong.any():
            first = int(np.argmax(wrong))
            raise UserError(f"line {lines[first]} of {path}, {name} {table[first, place]}, {complaint}")
    return table


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
