"""The site: links are moved to where files lie on it, it builds without a warning, and its API pages hold every public name."""

import importlib.util
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

import patchprint
from patchprint.losses import LOSSES
from support.checkout import ROOT, environment

pytest.importorskip("mkdocs", reason="the extra docs is not installed")
from tools import site


def test_every_public_module_of_every_package_is_on_its_page() -> None:
    assert {"losses", "matching", "networks"} <= set(site.packages())
    for name in site.packages():
        page = site.package_page(name)
        for path in re.findall(r"^::: (\S+)$", page, re.M):
            parent, _, last = path.rpartition(".")
            assert importlib.util.find_spec(path) or hasattr(importlib.import_module(parent), last), path
    assert "::: patchprint.losses.hardnet\n" in site.package_page("losses")
    assert "::: patchprint.benchmarks.Benchmark\n" in site.package_page("benchmarks"), "defined in a private module"


@pytest.mark.slow
def test_the_site_builds_without_a_warning_and_has_every_public_name(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(tmp_path / "site")]
    built = subprocess.run(build, cwd=ROOT, env=environment(), capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    assert 'href="try.html"' in (tmp_path / "site" / "index.html").read_text(encoding="utf-8")
    pages = {page: page.read_text(encoding="utf-8") for page in (tmp_path / "site").rglob("*.html")}
    documented = {name for text in pages.values() for name in re.findall(r'id="(patchprint[\w.]*)"', text)}
    homes = {f"{home}.{name}": getattr(patchprint, name) for name, home in patchprint._HOMES.items()}
    things = homes | {f"{each.__module__}.{each.__qualname__}": each for each in LOSSES.values()}
    # What is defined in a private module is on the page of the package that exports it.
    assert not [
        name
        for name, thing in things.items()
        if callable(thing) and not documented & {name, f"{thing.__module__}.{thing.__qualname__}"}
    ]
    assert not list(_foreign_addresses(pages.values())), "a page would fetch something"


def _foreign_addresses(texts: Iterable[str]) -> Iterable[str]:
    for text in texts:
        yield from re.findall(r'<(?:script|link|img)[^>]+(?:src|href)="https?://[^"]+"', text)
