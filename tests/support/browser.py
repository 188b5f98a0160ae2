"""Pages in a real browser: the system's Chromium without a window, driven by Playwright.

Tests take the fixture ``open_page`` (tests/conftest.py). A page may load itself and nothing from elsewhere, and may write no
errors to the console; whoever opens it need not ask.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import numpy as np
import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Locator, Page, Request, Route

CHROMIUM = Path("/usr/bin/chromium")  # Debian's package chromium, which .ci/run installs
# WebGL on machines without a GPU.
FLAGS = ("--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--ignore-gpu-blocklist", "--disable-dev-shm-usage")
DESK, PHONE = 1280, 390  # widths in pixels


@contextlib.contextmanager
def launch() -> Iterator[Browser]:
    """A browser; where there is none the test is skipped, but in CI it fails."""
    lacking = [name for name in ("playwright", "axe_playwright_python") if importlib.util.find_spec(name) is None]
    lacking += [] if CHROMIUM.is_file() else [str(CHROMIUM)]
    if lacking:
        reason = f"pages cannot be opened: {', '.join(lacking)} is not here"
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        with contextlib.closing(browser):
            yield browser


class Visits:
    """Pages that one test opens, watched from the first byte on; `check` says what they did wrong."""

    def __init__(self, browser: Browser) -> None:
        self.browser = browser
        self.outside: list[str] = []
        self.errors: list[str] = []

    def open(
        self,
        where: str | Path,
        width: int = DESK,
        dark: bool = False,
        javascript: bool = True,
        height: int = 900,
        **context: Any,
    ) -> Page:
        """A file, or an address; of a server that runs on this machine all that has the same origin may be loaded."""
        start = where.resolve().as_uri() if isinstance(where, Path) else where
        window = self.browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if dark else "light",
            java_script_enabled=javascript,
            has_touch=width <= PHONE,
            **context,
        )
        window.set_default_timeout(20_000)

        def answer(route: Route, request: Request) -> None:
            if _is_own(request.url, start):
                route.continue_()
            else:
                self.outside.append(request.url)
                route.abort()

        window.route("**/*", answer)
        page = window.new_page()
        page.on("websocket", lambda socket: None if _is_own(socket.url, start) else self.outside.append(socket.url))
        page.on("console", lambda line: self.errors.append(line.text) if _is_fault(line) else None)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.goto(start)
        return page

    def check(self) -> None:
        """Fail for whatever was asked from elsewhere or written to the console as an error."""
        assert self.outside == [], "the page asked for something from outside"
        assert self.errors == [], "the page wrote errors to the console"

    def close(self) -> None:
        for window in self.browser.contexts:
            window.close()


def serious_violations(page: Page) -> list[str]:
    """What axe-core calls serious or critical on the page as it is now: the rule, and the first elements that break it."""
    page.evaluate(  # what fades in would be taken for faint letters
        """() => Promise.all(
            document.getAnimations().filter((each) => each instanceof CSSTransition).map((each) => each.finished))"""
    )
    page.evaluate(resources.files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8"))
    found = page.evaluate("() => axe.run(document, {resultTypes: ['violations']})")["violations"]
    return [
        f"{each['id']}: {each['help']}: {[node['html'][:200] for node in each['nodes'][:3]]}"
        for each in found
        if each["impact"] in ("serious", "critical")
    ]


def overflow(page: Page) -> int:
    """By how many pixels the page is wider than the window; a page that fits has 0."""
    return page.evaluate("() => document.documentElement.scrollWidth - document.documentElement.clientWidth")


def pixels(element: Locator) -> np.ndarray:
    """What an element looks like on the screen.

    Shape:
        -> (H, W, 3) uint8, blue first as OpenCV has it.
    """
    import cv2

    image = cv2.imdecode(np.frombuffer(element.screenshot(), np.uint8), cv2.IMREAD_COLOR)
    assert image is not None
    return image


def count_colors(element: Locator) -> int:
    """How many colors are seen on an element."""
    blue, green, red = np.moveaxis(pixels(element).astype(np.int32), -1, 0)
    return len(np.unique(blue + 256 * green + 65536 * red))  # numbers are sorted many times as fast as rows


def _is_fault(line: ConsoleMessage) -> bool:
    """Whether a console line is an error; Chromium also writes one where an API refuses, which the page itself reports."""
    return line.type == "error" and not ("status of 4" in line.text and "/api/" in line.location["url"])


def _is_own(url: str, start: str) -> bool:
    """Whether a page that was opened at ``start`` may load ``url``: a file itself alone, a server's page its origin."""
    asked, opened = urlsplit(url), urlsplit(start)
    if asked.scheme in ("data", "blob"):
        return True
    if opened.scheme == "file":
        return asked._replace(fragment="") == opened._replace(fragment="")
    return asked.netloc == opened.netloc and asked.scheme.replace("ws", "http") == opened.scheme
