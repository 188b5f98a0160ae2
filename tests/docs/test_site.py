"""The site: links are moved to where files lie on it, the API pages hold every public name, and it builds without a warning."""

from __future__ import annotations

import importlib
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

import patchprint
from patchprint import losses
from support.checkout import ROOT

pytest.importorskip("mkdocs", reason="the extra docs is not installed")
from tools import site

ROOMS = (
    "features",
    "detectors",
    "networks",
    "losses",
    "metric_learning",
    "training",
    "patches",
    "benchmarks",
    "metrics",
)


@pytest.mark.parametrize(
    ("page", "written", "moved"),
    [
        ("models.md", "[a](docs/data.md)", "[a](data.md)"),
        ("results.md", "[a](../docs/data.md#split)", "[a](data.md#split)"),
        ("index.md", "[a](../MODELS.md)", "[a](models.md)"),
        ("api/index.md", "[a](../../results/README.md)", "[a](../results.md)"),
        ("api/index.md", "[a](features.md)", "[a](features.md)"),
        ("index.md", "![a](matches.jpg)", "![a](matches.jpg)"),
        ("index.md", "[a](https://example.org/b.md)", "[a](https://example.org/b.md)"),
        ("index.md", "[a](#below)", "[a](#below)"),
    ],
)
def test_links_are_moved(page: str, written: str, moved: str) -> None:
    assert site.move_links(written, page) == moved


def documented() -> list[Any]:
    """What the API pages name: objects, and for a module everything that it defines."""
    found: list[Any] = []
    for page in sorted((ROOT / "docs" / "api").glob("*.md")):
        for path in re.findall(r"^::: (\S+)", page.read_text(encoding="utf-8"), re.M):
            thing = pkgutil.resolve_name(path)
            found += vars(thing).values() if type(thing) is type(pkgutil) else [thing]
    return found


def undocumented(things: Iterable[Any]) -> list[str]:
    shown = documented()
    return [str(thing) for thing in things if callable(thing) and not any(thing is each for each in shown)]


def test_every_public_name_is_in_the_api_pages() -> None:
    assert undocumented(getattr(patchprint, name) for name in patchprint.__all__) == []


@pytest.mark.parametrize("room", ROOMS)
def test_every_name_of_a_room_is_in_the_api_pages(room: str) -> None:
    module = importlib.import_module(f"patchprint.{room}")
    assert undocumented(getattr(module, name) for name in module.__all__) == []


def test_every_loss_is_in_the_api_pages() -> None:
    assert undocumented(losses.LOSSES.values()) == []


@pytest.mark.slow
def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(tmp_path / "site")]
    built = subprocess.run(build, cwd=ROOT, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    text = (tmp_path / "site" / "api" / "features.html").read_text(encoding="utf-8")
    assert "Nearest neighbors from a to b that pass a test." in text
    assert not list(_foreign_addresses(tmp_path / "site")), "a page would fetch something"


def _foreign_addresses(folder: Path) -> Iterable[str]:
    for page in folder.rglob("*.html"):
        yield from re.findall(
            r'<(?:script|link|img)[^>]+(?:src|href)="https?://[^"]+"', page.read_text(encoding="utf-8")
        )
