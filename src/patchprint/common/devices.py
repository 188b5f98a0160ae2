"""Device selection, work divided among cores, malloc tuning, and CUDA graphs."""

import contextlib
import ctypes
import functools
import importlib.util
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import TypeVar

import torch
from torch import Tensor

from patchprint.common.errors import UserError

Item = TypeVar("Item")
Result = TypeVar("Result")

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # of malloc.h
_UNLIMITED = (1 << 31) - 1  # bytes, the most that mallopt takes
# Beginning to record waits for the whole GPU, which would break what another thread records.
_recording_turn = threading.RLock()
_KEPT = 1 << 30  # bytes of freed memory that stay in a process that detects keypoints


def choose_device(device: str | torch.device = "auto") -> torch.device:
    """Return a torch device, which must exist; "auto" takes CUDA, then MPS, then the CPU."""
    name = str(device)
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    available = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    kind, _, index = name.partition(":")
    if kind not in available:
        raise UserError(f"unknown device {name!r}; known are auto, cpu, cuda, cuda:N and mps")
    if not available[kind]:
        raise UserError(f"this machine has no {kind} device that PyTorch can use; take the device cpu")
    if index and not (index.isdecimal() and int(index) < (torch.cuda.device_count() if kind == "cuda" else 1)):
        raise UserError(f"this machine has no device {name!r}; take {kind}")
    return torch.device(name)


def supports_triton(device: torch.device) -> bool:
    """Whether kernels written in Triton run there; it comes with PyTorch's builds for NVIDIA GPUs on Linux."""
    return device.type == "cuda" and _has_triton()


@functools.cache
def _has_triton() -> bool:
    return importlib.util.find_spec("triton") is not None


@contextlib.contextmanager
def single_thread() -> Iterator[None]:
    """Limit PyTorch to one thread, for work so short that threads would mostly wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def parallel_map(
    session: Callable[[], AbstractContextManager[Callable[[Item], Result]]], items: Sequence[Item]
) -> list[Result]:
    """Map items in PyTorch's number of threads, in order; each thread opens a session, which yields the function to apply."""
    workers = min(torch.get_num_threads(), len(items))
    if workers == 1:
        found = []
        with single_thread(), session() as compute:  # so that an item gives the same bits alone and among others
            for item in items:
                found.append(compute(item))
        return found
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

    for future in [_pool(torch.get_num_threads()).submit(work) for _ in range(workers)]:
        future.result()
    return results  # type: ignore[return-value]


@functools.cache
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
    """Reset threads in a forked child, which has none of its parent's and would wait for them forever."""
    _pool.cache_clear()
    torch.set_num_threads(1)  # as the workers of a DataLoader do


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_in_child)


@contextlib.contextmanager
def keep_freed_memory() -> Iterator[None]:
    """Keep freed memory in the process for reuse, until the end (glibc only; elsewhere a no-op).

    Otherwise each large tensor is new memory, whose pages the system has to clear; results/speed/kept-memory.json has what
    that costs a training step on a CPU.
    """
    _tune_malloc(_UNLIMITED, _UNLIMITED)
    try:
        yield
    finally:
        give_memory_back()


def reuse_memory() -> None:
    """Keep up to a gibibyte of freed memory in the process from now on (glibc only; elsewhere a no-op).

    OpenCV's SIFT takes 240 bytes for every pixel; clearing the pages takes as long as its arithmetic.
    """
    _tune_malloc(_UNLIMITED, _KEPT)


def give_memory_back() -> None:
    """Return freed memory to the system, now and as soon as it is freed: the thresholds that glibc itself arrives at."""
    library = _tune_malloc(32 << 20, 64 << 20)
    if library is not None:
        library.malloc_trim(0)


def _tune_malloc(mmap: int, trim: int) -> ctypes.CDLL | None:
    """Set from how many bytes on memory is mapped for itself, and how much freed memory is kept."""
    library = _glibc()
    if library is not None:
        library.mallopt(_M_MMAP_THRESHOLD, mmap)
        library.mallopt(_M_TRIM_THRESHOLD, trim)
    return library


@functools.cache
def _glibc() -> ctypes.CDLL | None:
    library = ctypes.CDLL(None) if sys.platform == "linux" else None
    return library if hasattr(library, "mallopt") else None


class Recording:
    """A function of one GPU tensor of the shape of ``example``, recorded as a CUDA graph.

    Replaying overwrites the result of the last replay, so callers take turns.
    """

    _RUNS_BEFORE = 2  # they compile kernels and take what memory they need

    def __init__(self, function: Callable[[Tensor], Tensor], example: Tensor) -> None:
        self._given = example
        self._stage: Tensor | None = None
        self._left = torch.cuda.Event()
        with _recording_turn:
            self._record(function, example)

    def _record(self, function: Callable[[Tensor], Tensor], example: Tensor) -> None:
        stream = torch.cuda.Stream(example.device)  # the default one cannot record
        stream.wait_stream(torch.cuda.current_stream(example.device))
        with torch.cuda.stream(stream):
            for _ in range(self._RUNS_BEFORE):
                function(example)
        torch.cuda.current_stream(example.device).wait_stream(stream)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph, stream=stream, capture_error_mode="thread_local"):
            self._found = function(example)

    def __call__(self, given: Tensor) -> Tensor:
        """Replay the graph on ``given``; further rows of the result belong to earlier inputs."""
        if given.device.type == "cpu":
            given = self._staged(given)
        self._given[: len(given)].copy_(given, non_blocking=True)
        self._left.record()
        self._graph.replay()
        return self._found

    def _staged(self, given: Tensor) -> Tensor:
        """Copy to pinned memory, by several cores; the driver's own copy uses one."""
        if self._stage is None:
            self._stage = torch.empty(self._given.shape, dtype=self._given.dtype, pin_memory=True)
        self._left.synchronize()  # what was staged before may still be on its way
        return self._stage[: len(given)].copy_(given)
