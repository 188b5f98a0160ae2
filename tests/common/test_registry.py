"""Names are answered with what was meant, and options are checked before anything is made."""

from __future__ import annotations

import doctest

import pytest

from patchprint.common import registry
from patchprint.common.errors import UserError, suggest
from patchprint.common.registry import Registry, check_options

COLORS = Registry("color", {"red": lambda shade=0: ("red", shade), "violet": lambda: ("violet",)})


def test_it_is_a_mapping() -> None:
    assert list(COLORS) == ["red", "violet"] and len(COLORS) == 2
    assert "red" in COLORS and "blue" not in COLORS
    assert COLORS["violet"]() == ("violet",)


def test_entries_are_made_with_options_that_they_know() -> None:
    assert COLORS.create("red", shade=3) == ("red", 3)
    with pytest.raises(UserError, match=r"^color 'red' has no option 'shad'; did you mean shade\?$"):
        COLORS.create("red", shad=3)
    with pytest.raises(UserError, match=r"^color 'violet' has no option 'shade'; known are none yet$"):
        COLORS.create("violet", shade=3)


def test_unknown_names_are_the_users_mistake_and_no_missing_key() -> None:
    with pytest.raises(UserError, match=r"^there is no color 'violt'; did you mean violet\?$"):
        COLORS["violt"]
    with pytest.raises(UserError, match=r"there is no color 'xxx'; known are red, violet$"):
        COLORS.create("xxx")


def test_the_example_in_its_docstring_is_true() -> None:
    assert doctest.testmod(registry) == (0, 2)


def test_options_are_checked_in_the_order_given() -> None:
    check_options("a thing", ["a", "b"], ["b", "a"])
    with pytest.raises(UserError, match="no option 'y'"):
        check_options("a thing", ["a", "y", "z"], ["a"])


def test_suggestions_are_the_nearest_three_at_most() -> None:
    assert suggest("sdgmnet-2", ["sdgmnet", "sdgmnet-s", "sdgmnet-l2", "sdgmnet-theta"]).count("sdgmnet") == 3
