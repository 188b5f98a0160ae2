"""Matches of many pairs of photos, from stored features."""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path

from tqdm import tqdm

from patchprint.errors import UserError
from patchprint.features.matching import Mode, match
from patchprint.features.two_view import Kind, verify
from patchprint.types import Features, Matches

Pair = tuple[str, str]
_KEPT = 64  # photos whose features stay in memory


def choose_pairs(names: list[str], pairs: str | Path) -> list[Pair]:
    """All pairs ("exhaustive"), or those of a text file with two names per line (names with spaces: tab between them)."""
    if str(pairs) == "exhaustive":
        return list(itertools.combinations(names, 2))
    try:
        lines = Path(pairs).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        raise UserError(
            f"--pairs takes 'exhaustive' or a text file with two names per line; {pairs} is neither"
        ) from None
    known, chosen = set(names), []
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        words = line.rstrip("\n").split("\t") if "\t" in line else line.split()
        if len(words) != 2:
            raise UserError(f"{pairs}, line {number}: expected two names, got {len(words)}")
        for word in words:
            if word not in known:
                raise UserError(f"{pairs}, line {number}: there are no features of {word}")
        chosen.append((words[0], words[1]))
    return list(dict.fromkeys(chosen))


def match_pairs(
    features: Mapping[str, Features],
    pairs: list[Pair],
    mode: Mode = "mutual+ratio",
    ratio: float | None = None,
    geometry: Kind | None = None,
    fewest: int = 0,
    device: str = "cpu",
) -> dict[Pair, Matches]:
    """Match pairs, verified where a ``geometry`` is asked for; pairs with fewer than ``fewest`` matches come out empty."""
    recent: OrderedDict[str, Features] = OrderedDict()
    result = {}
    for first, second in tqdm(pairs, desc="matching", unit="pair", disable=None):
        a, b = (_remember(recent, name, features.__getitem__) for name in (first, second))
        found = match(a, b, mode, ratio, device=device)
        if geometry is not None:
            found = verify(a, b, found, geometry)
        count = len(found) if found.num_inliers is None else found.num_inliers
        result[first, second] = found if count >= fewest else Matches(found.indices[:0], found.distance[:0])
    return result


def _remember(recent: OrderedDict[str, Features], name: str, read: Callable[[str], Features]) -> Features:
    if name in recent:
        recent.move_to_end(name)
    else:
        recent[name] = read(name)
        if len(recent) > _KEPT:
            recent.popitem(last=False)
    return recent[name]
