"""Which pairs of photos are matched, and what comes out for each of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from patchprint.features import match, pair_lists
from patchprint.types import Features
from support.made_features import descriptors, features

NAMES = ["a.png", "b.png", "my c.png"]


def test_every_pair_once() -> None:
    assert pair_lists.choose_pairs(NAMES, "exhaustive") == [
        ("a.png", "b.png"),
        ("a.png", "my c.png"),
        ("b.png", "my c.png"),
    ]


def test_pairs_of_a_file_with_comments_tabs_and_repetitions(tmp_path: Path) -> None:
    (tmp_path / "p.txt").write_text("# pairs\na.png b.png\n\na.png\tmy c.png\na.png b.png\n")
    assert pair_lists.choose_pairs(NAMES, tmp_path / "p.txt") == [("a.png", "b.png"), ("a.png", "my c.png")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a.png b.png\na.png my c.png\n", "line 2: expected two names, got 3"),
        ("a.png d.png\n", "line 1: there are no features of d.png"),
    ],
)
def test_wrong_lines_are_named(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "p.txt").write_text(text)
    with pytest.raises(ValueError, match=message):
        pair_lists.choose_pairs(NAMES, tmp_path / "p.txt")
    with pytest.raises(ValueError, match="takes 'exhaustive' or a text file"):
        pair_lists.choose_pairs(NAMES, tmp_path / "nothing.txt")


class Read(Mapping[str, Features]):
    """Features that count how often they are read."""

    def __init__(self) -> None:
        self.items_by_name = {str(seed): features(descriptors(40, seed=seed)) for seed in range(3)}
        self.reads: list[str] = []

    def __getitem__(self, name: str) -> Features:
        self.reads.append(name)
        return self.items_by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.items_by_name)

    def __len__(self) -> int:
        return len(self.items_by_name)


def test_pairs_are_matched_as_two_photos_are_and_features_read_once() -> None:
    stored = Read()
    pairs = pair_lists.choose_pairs(list(stored), "exhaustive")
    found = pair_lists.match_pairs(stored, pairs, "mutual")
    assert sorted(stored.reads) == ["0", "1", "2"]
    for (a, b), matches in found.items():
        assert matches.indices.equal(match(stored.items_by_name[a], stored.items_by_name[b], "mutual").indices)
        assert len(matches) > 0


def test_no_more_photos_than_allowed_stay_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pair_lists, "_KEPT", 1)
    stored = Read()
    pair_lists.match_pairs(stored, [("0", "1"), ("0", "2")], "mutual")
    assert stored.reads == ["0", "1", "0", "2"]


def test_pairs_with_too_few_matches_come_out_empty() -> None:
    stored = Read()
    count = len(pair_lists.match_pairs(stored, [("0", "1")], "mutual")["0", "1"])
    for fewest, expected in ((count, count), (count + 1, 0)):
        (matches,) = pair_lists.match_pairs(stored, [("0", "1")], "mutual", fewest=fewest).values()
        assert len(matches) == expected
