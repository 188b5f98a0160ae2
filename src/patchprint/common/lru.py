"""A mapping that keeps the most recently used items."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, MutableMapping
from typing import TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


class Lru(MutableMapping[Key, Value]):
    """At most ``size`` items; the least recently used one makes room for a new one.

    Args:
        on_evict: called with each value that is evicted, as to close a file.
    """

    def __init__(self, size: int, on_evict: Callable[[Value], object] | None = None) -> None:
        self._size, self._on_evict = size, on_evict
        self._items: OrderedDict[Key, Value] = OrderedDict()

    def __getitem__(self, key: Key) -> Value:
        self._items.move_to_end(key)
        return self._items[key]

    def __setitem__(self, key: Key, value: Value) -> None:
        self._items[key] = value
        self._items.move_to_end(key)
        while len(self._items) > self._size:
            _, evicted = self._items.popitem(last=False)
            if self._on_evict is not None:
                self._on_evict(evicted)

    def __delitem__(self, key: Key) -> None:
        del self._items[key]

    def __iter__(self) -> Iterator[Key]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)
