"""Registries: losses, networks, detectors, recipes and so on by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from patchprint.common.errors import UserError, suggest

T = TypeVar("T")


class Registry(Mapping[str, T]):
    """A mapping that answers unknown names with suggestions.

    >>> colors = Registry("color", {"red": 1, "violet": 2})
    >>> colors["violt"]
    Traceback (most recent call last):
    patchprint.common.errors.UserError: there is no color 'violt'; did you mean violet?
    """

    def __init__(self, kind: str, entries: Mapping[str, T]) -> None:
        self.kind = kind
        self._entries = dict(entries)

    def __getitem__(self, name: str) -> T:
        if name not in self._entries:
            raise UserError(f"there is no {self.kind} {name!r}; {suggest(name, self._entries)}")
        return self._entries[name]

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def create(self, name: str, /, **options: Any) -> Any:
        """Call the entry, after its options were checked by name."""
        entry: Any = self[name]
        check_options(f"{self.kind} {name!r}", options, option_names(entry))
        check_kinds(f"{self.kind} {name!r}", options, entry)
        return entry(**options)


def option_names(function: Callable[..., Any]) -> list[str]:
    """Return the names of the arguments of a function or class."""
    return list(inspect.signature(function).parameters)


def check_options(owner: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Raise UserError for the first of the ``given`` names that ``owner`` does not know."""
    names = list(known)
    for name in given:
        if name not in names:
            raise UserError(f"{owner} has no option {name!r}; {suggest(name, names)}")


def check_kinds(owner: str, given: Mapping[str, Any], function: Callable[..., Any]) -> None:
    """Raise UserError for the first option that is a text where its default is a number, or the other way round."""
    for name, parameter in inspect.signature(function).parameters.items():
        value, usual = given.get(name), parameter.default
        for kind, words in ((bool, "true or false"), (int | float, "a number"), (str, "a word")):
            if isinstance(usual, kind):
                if value is not None and not isinstance(value, kind):
                    raise UserError(f"{owner}: {name} is {value!r}, which is not {words}")
                break
