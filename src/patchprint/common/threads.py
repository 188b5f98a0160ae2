"""Parallel work on whole chunks, one thread each, instead of inside of layers.

Where layers are divided, all cores wait for the slowest one after each of them, and a single busy core stops everything.
Here a core that is slow takes fewer chunks.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import cache
from typing import TypeVar

import torch

from patchprint.common.devices import one_core

Item = TypeVar("Item")
Result = TypeVar("Result")


def each(
    session: Callable[[], AbstractContextManager[Callable[[Item], Result]]], items: Sequence[Item]
) -> list[Result]:
    """What the function of a session gives for each item, in their order; as many threads as PyTorch would take."""
    results: list[Result | None] = [None] * len(items)
    waiting = iter(range(len(items)))
    lock = threading.Lock()

    def next_number() -> int | None:
        with lock:
            return next(waiting, None)

    def work() -> None:
        with session() as compute:
            while (number := next_number()) is not None:
                results[number] = compute(items[number])

    workers = min(torch.get_num_threads(), len(items))
    if workers == 1:
        with one_core():  # so that an item gives the same bits alone and among others
            work()
    else:
        for future in [_pool(torch.get_num_threads()).submit(work) for _ in range(workers)]:
            future.result()
    return results  # type: ignore[return-value]


@cache
def _pool(workers: int) -> ThreadPoolExecutor:
    """Threads that compute with one core each."""
    before = torch.get_num_threads()
    started = threading.Barrier(workers + 1)

    def begin() -> None:
        torch.get_num_threads()  # sets a new thread up, which would undo the next line if it came later
        torch.set_num_threads(1)
        started.wait()

    pool = ThreadPoolExecutor(workers, thread_name_prefix="patchprint", initializer=begin)
    for _ in range(workers):
        pool.submit(lambda: None)
    started.wait()
    # A thread's own number stays, but PyTorch also remembers the last one for threads that begin later.
    torch.set_num_threads(before)
    return pool


def _begin_in_child() -> None:
    """A forked child has none of its parent's threads, neither ours nor PyTorch's, and would wait for them for ever."""
    _pool.cache_clear()
    torch.set_num_threads(1)  # as the workers of a DataLoader do


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_in_child)
