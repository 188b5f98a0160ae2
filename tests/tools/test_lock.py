"""The lock has the versions of constraints.txt, each with checksums; nothing is pinned that is not needed, and all that is."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from support.checkout import ROOT
from support.distributions import BUILD, installed_for
from tools.lock import CONSTRAINTS, LOCK, pins, with_wheels


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


def test_wheels_at_hand_take_the_place_of_those_in_the_index(tmp_path: Path) -> None:
    lock = "numpy==2.0 \\\n    --hash=sha256:aa\ntorch==2.13.0 \\\n    --hash=sha256:bb \\\n    --hash=sha256:cc\ntqdm==4\n"
    for name in ("torch-2.13.0+cpu-cp311-x.whl", "torch-2.12.0+cpu-cp311-x.whl", "other-1.0-py3-none-any.whl"):
        (tmp_path / name).write_text(name)
    checksum = hashlib.sha256(b"torch-2.13.0+cpu-cp311-x.whl").hexdigest()
    made = with_wheels(lock, sorted(tmp_path.glob("*.whl")))
    assert made == lock.replace("bb \\\n    --hash=sha256:cc", checksum)


@pytest.mark.parametrize("name", ["requirements.lock", "constraints.txt"])
def test_the_source_distribution_carries_the_pins(name: str) -> None:
    assert f'"{name}"' in (ROOT / "pyproject.toml").read_text().partition("targets.sdist]")[2]
