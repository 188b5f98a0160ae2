"""Calls in another process: answers and refusals come back, time is limited, a process that died is replaced."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from patchprint.common.errors import UserError
from patchprint.web.limits import Limits, RequestError
from patchprint.web.server import MethodCalls

pytestmark = pytest.mark.slow


class Toy:
    """What the worker of these tests works with."""

    def add(self, one: int, other: int) -> int:
        return one + other

    def sleep(self, seconds: float) -> int:
        time.sleep(seconds)
        return os.getpid()

    def fail(self, kind: str) -> None:
        raise {"user": UserError("wrong"), "request": RequestError("too large", 413)}.get(kind, ZeroDivisionError(kind))

    def die(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


@pytest.fixture(scope="module")
def worker() -> Iterator[MethodCalls]:
    with MethodCalls(Limits(seconds=1, waiting=2), Toy) as made:
        yield made


def refusal(call: Callable[[], object]) -> tuple[int, str]:
    with pytest.raises(RequestError) as error:
        call()
    return error.value.status, str(error.value)


def test_answers_and_refusals(worker: MethodCalls) -> None:
    process = worker.call("sleep", 0)
    assert worker.call("add", 2, 3) == 5
    assert refusal(lambda: worker.call("fail", "user")) == (400, "wrong")
    assert refusal(lambda: worker.call("fail", "request")) == (413, "too large")
    status, sentence = refusal(lambda: worker.call("fail", "bug"))
    assert status == 500 and "fault of patchprint" in sentence
    assert worker.call("sleep", 0) == process  # errors replace nobody


def test_a_process_is_killed_at_the_deadline_and_replaced_where_it_dies(
    worker: MethodCalls, capfd: pytest.CaptureFixture[str]
) -> None:
    before = worker.call("sleep", 0)
    status, sentence = refusal(lambda: worker.call("sleep", 60))
    assert (status, sentence[:40]) == (503, "this took longer than 1 seconds and was ")
    with pytest.raises(ProcessLookupError):
        os.kill(before, 0)
    between = worker.call("sleep", 0)
    status, sentence = refusal(lambda: worker.call("die"))
    assert status == 500 and "died" in sentence and f"exit code {-signal.SIGKILL}" in capfd.readouterr().err
    # One that died while nobody asked is replaced without a word to whoever asks next.
    os.kill(worker.call("sleep", 0), signal.SIGKILL)
    worker._worker._process.join(10)
    assert worker.call("sleep", 0) not in (before, between)


def test_more_than_may_wait_and_who_waits_too_long_are_refused(worker: MethodCalls) -> None:
    worker.call("add", 0, 0)

    def ask(_: int) -> object:
        try:
            return worker.call("sleep", 0.7)
        except RequestError as error:
            return error.status, str(error)

    with ThreadPoolExecutor(5) as pool:
        answers = list(pool.map(ask, range(5)))
    # The first is served; two wait, for a second: one gets its turn and is given up in time or not, the other never.
    assert answers.count((429, "too many requests at once; try again in a moment")) == 2
    assert (429, "others were served for 1 seconds; try again in a moment") in answers
    assert any(isinstance(answer, int) for answer in answers)


def test_whoever_waits_at_the_end_is_told() -> None:
    with ThreadPoolExecutor() as pool, MethodCalls(Limits(), Toy) as worker:
        worker.call("add", 0, 0)
        waiting = [pool.submit(refusal, lambda: worker.call("sleep", 60)) for _ in range(2)]
        time.sleep(0.2)
    assert [each.result() for each in waiting] == [(503, "the server is being stopped")] * 2
    assert worker._worker._process is None
