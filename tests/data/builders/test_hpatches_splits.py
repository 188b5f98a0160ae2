"""The published splits: how large they are, and which data is exactly one of them."""

from __future__ import annotations

from patchprint.data.builders.hpatches_splits import _TEST, is_test, published_split

EVERYTHING = {f"{kind}_{name}" for kind, part in zip("iv", _TEST["full"], strict=True) for name in part.split()}


def test_sizes_are_the_published_ones() -> None:
    assert (len(EVERYTHING), sum(name.startswith("i_") for name in EVERYTHING)) == (116, 57)
    for split in ("a", "b", "c"):
        test = [name for name in EVERYTHING if is_test(split, name)]
        assert (len(test), sum(name.startswith("i_") for name in test)) == (40, 20)


def test_only_the_very_sequences_are_a_published_split() -> None:
    test_b = [name for name in EVERYTHING if is_test("b", name)]
    assert published_split(test_b) == "b"
    assert published_split(EVERYTHING) == "full"
    assert published_split(test_b[1:]) is None
    assert published_split(["i_x", *test_b[1:]]) is None, "forty of them, but not those"
    assert published_split([]) is None
