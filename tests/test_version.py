"""The version stands in one place, ``patchprint.__version__``; what else names it agrees."""

from __future__ import annotations

import re
import tomllib

import patchprint
from support.checkout import ROOT


def test_the_build_reads_it_from_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["project"]["dynamic"] == ["version"]
    assert project["tool"]["hatch"]["version"]["path"] == "src/patchprint/__init__.py"


def test_the_citation_has_it() -> None:
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.findall(r"^version: (\S+)$", citation, re.M) == [patchprint.__version__]


def test_the_newest_release_of_the_changelog_is_not_newer() -> None:
    released = re.findall(r"^## \[(\d+)\.(\d+)\.(\d+)\]", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.M)
    own = [int(number) for number in re.findall(r"\d+", patchprint.__version__)[:3]]
    assert len(own) == 3 and all([int(number) for number in each] <= own for each in released)
