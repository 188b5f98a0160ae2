"""Lazy view of a mapping: values are computed on access, so only one is in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Generic, TypeVar

Key = TypeVar("Key")
Whole = TypeVar("Whole")
Part = TypeVar("Part")


class View(Mapping[Key, Part], Generic[Key, Whole, Part]):
    """``{key: part(source[key]) for key in keys}``, all keys by default, computed on access."""

    def __init__(
        self, source: Mapping[Key, Whole], part: Callable[[Whole], Part], keys: Iterable[Key] | None = None
    ) -> None:
        self._source, self._part = source, part
        self._keys = dict.fromkeys(source if keys is None else keys)

    def __getitem__(self, key: Key) -> Part:
        if key not in self._keys:
            raise KeyError(key)
        return self._part(self._source[key])

    def __iter__(self) -> Iterator[Key]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)
