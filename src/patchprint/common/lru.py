"""A cache that evicts the least recently used entries."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Value = TypeVar("Value")


class Lru(Generic[Value]):
    """Values by key, at most ``size`` of them, or of a total ``cost`` of at most ``size``; the newest always stays.

    Args:
        size: how many values are kept, or their total cost.
        on_evict: called with each value that leaves the cache, as to close a file.
        cost: what a value counts; 1 by default.
    """

    def __init__(
        self, size: int, on_evict: Callable[[Value], object] | None = None, cost: Callable[[Value], int] = lambda _: 1
    ) -> None:
        self._size, self._on_evict, self._cost = size, on_evict, cost
        self._values: OrderedDict[Hashable, Value] = OrderedDict()
        self.held = 0  # total cost

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """Return the value of ``key``, which ``make`` computes where it is not in the cache."""
        if key not in self._values:
            self._values[key] = make()
            self.held += self._cost(self._values[key])
        self._values.move_to_end(key)
        while self.held > self._size and len(self._values) > 1:
            self.evict(next(iter(self._values)))
        return self._values[key]

    def evict(self, key: Hashable) -> None:
        """Remove ``key`` if it is in the cache."""
        if key in self._values:
            value = self._values.pop(key)
            self.held -= self._cost(value)
            if self._on_evict is not None:
                self._on_evict(value)
