"""Which pairs of photos are matched, and what comes out for each of them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from patchprint.common.errors import UserError
from patchprint.common.types import Features
from patchprint.matching import match, pair_selection
from patchprint.matching.pair_selection import MatchRule
from support.graph_weights import framed, moved, write_weights
from support.made_features import descriptors, features

NAMES = ["a.png", "b.png", "my c.png"]
BLANK = features(descriptors(1))


def choose(names: list[str], pairs: str | Path, neighbors: int | None = None) -> list[pair_selection.Pair]:
    return pair_selection.choose_pairs(dict.fromkeys(names, BLANK), pairs, neighbors)


def test_every_pair_once() -> None:
    assert choose(NAMES, "exhaustive") == [("a.png", "b.png"), ("a.png", "my c.png"), ("b.png", "my c.png")]


def test_pairs_of_a_file_with_comments_tabs_and_repetitions(tmp_path: Path) -> None:
    (tmp_path / "p.txt").write_text("# pairs\na.png b.png\n\na.png\tmy c.png\na.png b.png\n")
    assert choose(NAMES, tmp_path / "p.txt") == [("a.png", "b.png"), ("a.png", "my c.png")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a.png b.png\na.png my c.png\n", "line 2: expected two names, got 3"),
        ("a.png d.png\n", "line 1: there is no image d.png"),
    ],
)
def test_wrong_lines_are_named(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "p.txt").write_text(text)
    with pytest.raises(ValueError, match=message):
        choose(NAMES, tmp_path / "p.txt")
    with pytest.raises(ValueError, match="takes exhaustive, sequential, retrieval, gps, or a text file"):
        choose(NAMES, tmp_path / "nothing.txt")


def test_sequences_follow_the_numbers_in_names() -> None:
    names = ["p10.png", "p9.png", "p2.png", "p1.png"]
    in_order = ["p1.png", "p2.png", "p9.png", "p10.png"]
    assert choose(names, "sequential", 1) == list(itertools.pairwise(in_order))
    assert len(choose(names, "sequential", 2)) == 5
    assert sorted(choose(names, "sequential")) == sorted(itertools.combinations(in_order, 2))


def test_retrieval_pairs_what_looks_alike() -> None:
    stored = {f"{scene}{view}": features(descriptors(60, seed=scene)) for scene in range(3) for view in range(2)}
    assert {("00", "01"), ("10", "11"), ("20", "21")} <= set(pair_selection.choose_pairs(stored, "retrieval", 1))
    assert len(pair_selection.choose_pairs(stored, "retrieval")) == 15


def test_neighbors_are_counted_where_they_mean_something() -> None:
    with pytest.raises(ValueError, match="belongs to the pairs sequential, retrieval, gps, not to exhaustive"):
        choose(NAMES, "exhaustive", 3)
    with pytest.raises(ValueError, match="at least 1 neighbor"):
        choose(NAMES, "retrieval", 0)


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


@pytest.mark.parametrize(("most", "reads"), [(64, "012"), (1, "010201")])
def test_recent_features_stay_in_memory(most: int, reads: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pair_selection, "_CACHED", most)
    stored = Read()
    cached = pair_selection.CachedFeatures(stored)
    for name in "0100201":
        assert cached[name] is stored.items_by_name[name]
    assert "".join(stored.reads) == reads


def test_pairs_with_too_few_matches_come_out_empty() -> None:
    a, b = features(descriptors(40, seed=0)), features(descriptors(40, seed=1))
    found = MatchRule("mutual")(a, b)
    assert found.indices.equal(match(a, b, "mutual").indices) and len(found) > 0
    for fewest, expected in ((len(found), len(found)), (len(found) + 1, 0)):
        assert len(MatchRule("mutual", fewest=fewest)(a, b)) == expected


def test_a_rule_passes_its_tolerance_on(tmp_path: Path) -> None:
    a, weights = framed(60), write_weights(tmp_path / "w.safetensors")
    b = moved(a, 0.4, 1.3, torch.arange(60))
    for tolerance in (1.0, 40.0):
        expected = match(a, b, "graph", weights=weights, tolerance=tolerance)
        assert MatchRule(weights, tolerance=tolerance)(a, b).indices.equal(expected.indices)
    with pytest.raises(UserError, match="tolerance"):
        MatchRule("mutual", tolerance=1.0)(a, b)


def flight(folder: Path) -> dict[str, Features]:
    """Two lines of four images, 100 m apart and flown to and fro, 20 m between images; one has no position."""
    stored = {}
    for number in range(8):
        line, along = divmod(number, 4)
        east, north = (20 * (3 - along if line else along) + 5 * line, 100 * line)
        path = folder / f"{number}.jpg"
        exif = Image.Exif()
        if number != 6:
            write_gps(exif, -33.86 + north / 111_195, 151.21 + east / 111_195 / 0.8304)
        Image.fromarray(np.zeros((8, 8), np.uint8)).save(path, exif=exif)
        stored[path.name] = replace(features(descriptors(60, seed=number % 6)), image_path=path)
    return stored


def write_gps(exif: Image.Exif, latitude: float, longitude: float) -> None:
    values = exif.get_ifd(0x8825)
    for place, angle, directions in ((1, latitude, "NS"), (3, longitude, "EW")):
        minutes, seconds = divmod(abs(angle) * 3600, 60)
        values[place] = directions[angle < 0]
        values[place + 1] = (float(minutes // 60), float(minutes % 60), round(seconds, 5))


def test_positions_pair_what_is_near_and_the_rest_by_descriptors(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stored = flight(tmp_path)
    pairs = pair_selection.choose_pairs(stored, "gps", 1)
    placed = [(int(a[0]), int(b[0])) for a, b in pairs if "6.jpg" not in (a, b)]
    assert placed == [(0, 1), (1, 2), (2, 3), (4, 5), (5, 7)], "across the missing image, and not from line to line"
    assert ("0.jpg", "6.jpg") in pairs, "whose descriptors are equal"
    assert "1 of 8 images have no GPS position, 6.jpg first" in capsys.readouterr().err
    assert len(pair_selection.choose_pairs(stored, "gps")) == 28


def test_images_without_positions_are_refused_before_they_are_described(tmp_path: Path) -> None:
    stored = flight(tmp_path)
    pair_selection.check_pairs(list(stored), "gps", images=tmp_path)
    for action in (
        lambda: pair_selection.check_pairs(["6.jpg", "gone.jpg"], "gps", images=tmp_path),
        lambda: choose(NAMES, "gps"),
    ):
        with pytest.raises(ValueError, match="no image has a GPS position"):
            action()
