"""Work divided among cores: every item once and in order, one thread of PyTorch each; tests/engines has it with networks."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

import pytest
import torch

from patchprint.common import threads


@pytest.mark.parametrize("count", [0, 1, 2, 50])
def test_every_item_is_done_once_and_answered_in_order(count: int) -> None:
    done: list[int] = []

    def square(item: int) -> int:
        assert torch.get_num_threads() == 1
        done.append(item)
        return item * item

    assert threads.each(lambda: contextlib.nullcontext(square), range(count)) == [item**2 for item in range(count)]
    assert sorted(done) == list(range(count))


def test_a_session_is_opened_by_each_thread_and_closed_at_the_end() -> None:
    opened, closed = [], []

    @contextlib.contextmanager
    def session() -> Iterator:
        opened.append(threading.current_thread().name)
        yield lambda item: item
        closed.append(threading.current_thread().name)

    threads.each(session, range(20))
    assert 1 <= len(opened) <= torch.get_num_threads() and sorted(opened) == sorted(closed)


def test_an_error_reaches_the_caller() -> None:
    def fail(item: int) -> int:
        raise ValueError(f"item {item}")

    with pytest.raises(ValueError, match="item"):
        threads.each(lambda: contextlib.nullcontext(fail), range(5))
