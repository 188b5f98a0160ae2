"""Fixtures shared by several packages: their own cache, the data beside the repository, small images and stores."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.checkout import SHARED

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from support.scenes import MatchedViews


@pytest.fixture(scope="session", autouse=True)
def no_home_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Fixtures of a whole module come before those of its tests, and must not touch ~/.cache either.

    Without a cache that lasts, int8 would be prepared in every test: "auto" is an engine that needs no preparation.
    """
    import torch

    from patchprint.networks import engines

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATCHPRINT_ENGINE", engines.unprepared(torch.device("cpu")))
        patch.setenv("PATCHPRINT_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test meets predictions or downloads of another."""
    monkeypatch.setenv("PATCHPRINT_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="session")
def shared() -> Callable[[str], Path]:
    """A file or folder of ``../shared/data`` by its path there; the test is skipped where it does not exist."""

    def find(name: str) -> Path:
        path = SHARED / "data" / name
        if not path.exists():
            pytest.skip(f"{path} is not here")
        return path

    return find


@pytest.fixture(scope="session")
def views(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three photos of one scene; spaces and letters beyond ASCII are in their names. Not to be written to."""
    from support.scenes import THREE_VIEWS

    folder = tmp_path_factory.mktemp("views") / "my ph\u00f6tos"
    THREE_VIEWS.write(folder, "view {}.png")
    return folder


@pytest.fixture(scope="session")
def described(views: Path) -> Path:
    """Their features, as ``patchprint describe`` writes them. Not to be changed."""
    from patchprint import cli

    out = views.parent / "features"
    assert cli.main(["describe", str(views), "--out", str(out), "--model", "rootsift", "--max-keypoints", "400"]) == 0
    return out


@pytest.fixture(scope="session")
def matched_views(tmp_path_factory: pytest.TempPathFactory) -> MatchedViews:
    """The photos with names that COLMAP's lists of pairs can hold, their features, and matches of every pair."""
    from patchprint.features import extract
    from patchprint.matching import match
    from support.scenes import THREE_VIEWS

    folder = tmp_path_factory.mktemp("matched") / "photos"
    names = THREE_VIEWS.write(folder)
    features = {name: extract(folder / name, "rootsift", max_keypoints=600) for name in names}
    pairs = [(a, b) for i, a in enumerate(names) for b in names[i + 1 :]]
    return folder, features, {(a, b): match(features[a], features[b], ratio=0.85).indices.numpy() for a, b in pairs}


@pytest.fixture(scope="session")
def training_store(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder of 60 points to learn from. Not to be written to."""
    from support.training_data import images

    folder = tmp_path_factory.mktemp("training") / "store"
    images(points=60).save(folder)
    return str(folder)


@pytest.fixture
def small_calibration(monkeypatch: pytest.MonkeyPatch) -> None:
    """The threshold that is written beside trained weights is chosen on fewer keypoints."""
    from patchprint.matching.calibration import calibrate

    small = functools.partial(calibrate, views=1, keypoints=100)
    monkeypatch.setattr("patchprint.pipelines.training_run.choose_ratio", small)
    monkeypatch.setattr("patchprint.pipelines.adaptation.calibrate", small)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium; one for a module, since Playwright's event loop must not outlive the tests that need it."""
    from support.browser import launch

    with launch() as chromium:
        yield chromium


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Callable[..., Page]]:
    """``open_page(path_or_url, width=1280, dark=False, javascript=True)``; see `support.browser`."""
    from support.browser import Visits

    visits = Visits(browser)
    try:
        yield visits.open
        visits.check()
    finally:
        visits.close()
