"""The least recently used entries leave the cache first."""

from patchprint.common.lru import Lru


def test_the_least_recently_used_leaves_first() -> None:
    made: list[str] = []
    gone: list[str] = []
    cache: Lru[str] = Lru(2, gone.append)
    for key in "abacab":
        cache.get(key, lambda key=key: made.append(key) or key)
    assert made == ["a", "b", "c", "b"] and gone == ["b", "c"] and len(cache) == 2
    cache.evict("a")
    cache.evict("unknown")
    assert gone == ["b", "c", "a"] and len(cache) == 1


def test_costs_are_bounded_but_the_newest_stays() -> None:
    cache: Lru[bytes] = Lru(10, cost=len)
    for size in (4, 5, 3):
        cache.get(size, lambda size=size: bytes(size))
    assert (len(cache), cache.held) == (2, 8)
    cache.get(50, lambda: bytes(50))
    assert (len(cache), cache.held) == (1, 50)
