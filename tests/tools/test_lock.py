"""The lock has the versions of constraints.txt, each with checksums; nothing is pinned that is not needed, and all that is."""

import re
from importlib import metadata

import pytest
import torch
from packaging.requirements import Requirement

from support.distributions import BUILD, installed_for
from tools.lock import CONSTRAINTS, LOCK, pins


def test_lock_and_constraints_agree() -> None:
    assert pins(LOCK.read_text()) == pins(CONSTRAINTS.read_text()), "make lock writes it"


def test_every_line_of_the_lock_has_checksums() -> None:
    blocks = re.split(r"\n(?=\S)", LOCK.read_text().strip())
    blocks = [block for block in blocks if not block.startswith("#")]
    assert len(blocks) == len(pins(CONSTRAINTS.read_text()))
    for block in blocks:
        assert re.fullmatch(r"[\w.-]+==\S+( \\\n    --hash=sha256:[0-9a-f]{64})+", block), block[:200]


@pytest.mark.skipif(torch.version.cuda is not None, reason="the lock is for the CPU build of torch")
def test_every_package_is_pinned_and_every_pin_is_needed() -> None:
    needed = installed_for([Requirement("patchprint[all,dev]"), *BUILD]) | {"pip"}
    pinned = set(pins(CONSTRAINTS.read_text()))
    assert needed - pinned == set(), "not pinned"
    assert pinned - needed == set(), "pinned for nothing"


@pytest.mark.skipif(torch.version.cuda is None, reason="only the CUDA build of torch needs triton")
def test_torch_of_the_package_index_takes_the_pinned_triton() -> None:
    """Where no CPU build is at hand, ``make demo`` and ``make test`` could not be installed."""
    (needed,) = {
        line.partition(";")[0].strip() for line in metadata.requires("torch") or [] if line.startswith("triton")
    }
    assert needed == f"triton=={pins(CONSTRAINTS.read_text())['triton']}"


def test_build_requirements_are_exact() -> None:
    known = pins(CONSTRAINTS.read_text())
    for requirement in BUILD:
        assert str(requirement.specifier) == f"=={known[requirement.name]}"
