"""The lock has the versions of constraints.txt, each with checksums; nothing is pinned that is not needed, and all that is."""

from __future__ import annotations

import re

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


def test_every_package_is_pinned_and_every_pin_is_needed() -> None:
    needed = installed_for([Requirement("patchprint[all,dev]"), *BUILD]) | {"pip"}
    pinned = set(pins(CONSTRAINTS.read_text()))
    assert needed - pinned == set(), "not pinned"
    assert pinned - needed == set(), "pinned for nothing"


def test_build_requirements_are_exact() -> None:
    known = pins(CONSTRAINTS.read_text())
    for requirement in BUILD:
        assert str(requirement.specifier) == f"=={known[requirement.name]}"
