"""Where to compute, by name or the best that is there; work divided among cores."""

import contextlib
import platform
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest
import torch

from patchprint.common.devices import choose_device, parallel_map
from patchprint.common.types import Features, Keypoints, ModelId
from patchprint.features import load
from patchprint.matching import match


def test_devices_that_are_not_there_are_named() -> None:
    assert choose_device("cpu") == torch.device("cpu")
    with pytest.raises(ValueError, match="unknown device"):
        choose_device("tpu")
    if not torch.cuda.is_available():
        with pytest.raises(ValueError, match="no cuda"):
            choose_device("cuda")
        for use in (load, lambda device: match(*[features()] * 2, device=device)):
            with pytest.raises(ValueError, match="no cuda device that PyTorch can use; take the device cpu"):
                use(device="cuda")


@pytest.mark.parametrize("name", ["cpu:1", "cpu:x"])
def test_numbers_of_devices_are_checked(name: str) -> None:
    with pytest.raises(ValueError, match=f"no device '{name}'; take cpu"):
        choose_device(name)


def features() -> Features:
    return Features(Keypoints.empty(), torch.zeros(0, 8), (4, 4), None, ModelId("none"))


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have no such setting")
def test_memory_that_is_kept_is_not_asked_for_again() -> None:
    program = """
import resource, torch
from patchprint.common.devices import keep_freed_memory
def new_pages():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(4):
        torch.ones(20_000_000)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
def pages_held():
    return int(open("/proc/self/statm").read().split()[1])
before, given_back = pages_held(), new_pages()
with keep_freed_memory():
    kept = [new_pages() for _ in range(6)][-1]  # at first memory is taken that is to be kept
print(given_back, kept, pages_held() - before)
"""
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    given_back, kept, held_in_the_end = map(int, said.split())
    assert 10 * kept < given_back
    assert held_in_the_end < 20_000_000 // 1024  # the pages of one tensor


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have no such setting")
def test_detection_keeps_its_memory_until_it_is_given_back() -> None:
    program = """
import resource, numpy as np
from patchprint.common.devices import give_memory_back
from patchprint.detectors import detect
image = np.random.default_rng(0).integers(0, 255, (700, 900), np.uint8)
def new_pages():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    detect(image, max_keypoints=10)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
def pages_held():
    return int(open("/proc/self/statm").read().split()[1])
first, kept = new_pages(), [new_pages() for _ in range(4)][-1]
held = pages_held()
give_memory_back()
print(first, kept, held - pages_held())
"""
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    first, kept, given_back = map(int, said.split())
    assert 3 * kept < first
    assert given_back > 700 * 900 * 100 // 4096  # SIFT takes 240 bytes for each pixel


@pytest.mark.parametrize("count", [0, 1, 2, 50])
def test_every_item_is_done_once_and_answered_in_order(count: int) -> None:
    done: list[int] = []

    def square(item: int) -> int:
        assert torch.get_num_threads() == 1
        done.append(item)
        return item * item

    assert parallel_map(lambda: contextlib.nullcontext(square), range(count)) == [item**2 for item in range(count)]
    assert sorted(done) == list(range(count))


def test_a_session_is_opened_by_each_thread_and_closed_at_the_end() -> None:
    opened, closed = [], []

    @contextlib.contextmanager
    def session() -> Iterator:
        opened.append(threading.current_thread().name)
        yield lambda item: item
        closed.append(threading.current_thread().name)

    parallel_map(session, range(20))
    assert 1 <= len(opened) <= torch.get_num_threads() and sorted(opened) == sorted(closed)


def test_an_error_reaches_the_caller() -> None:
    def fail(item: int) -> int:
        raise ValueError(f"item {item}")

    with pytest.raises(ValueError, match="item"):
        parallel_map(lambda: contextlib.nullcontext(fail), range(5))
