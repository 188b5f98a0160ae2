"""The application without a worker: what it offers, what it refuses, and that no upload touches the disk."""

import importlib.util
import tempfile
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI

from patchprint.web.app import create_app
from patchprint.web.limits import Limits
from support.asgi import ask
from support.serving import form

BOUNDARY = "multipart/form-data; boundary=x"


CALLS: list[tuple[Any, ...]] = []


@pytest.fixture(scope="module")
def app() -> FastAPI:
    return create_app(lambda *call: CALLS.append(call), {"patchprint": None, "sift": 0.8}, Limits())


@pytest.fixture
def calls() -> list[tuple[Any, ...]]:
    """What the worker was asked so far."""
    CALLS.clear()
    return CALLS


def post(app: FastAPI, body: bytes, kind: str) -> tuple[int, Any]:
    return ask(app, "/api/match", "POST", {"content-type": kind, "content-length": str(len(body))}, [body])[:2]


def test_point_10_only_what_is_installed_is_offered(app: FastAPI, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without kornia harris and hessian were listed, and choosing one asked for the package."""
    find = importlib.util.find_spec
    everything = ask(app, "/api/choices")[1]
    assert {"dog", "colmap", "harris", "hessian-affine"} <= set(everything["detectors"])
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name in ("kornia", "pycolmap") else find(name)
    )
    choices = ask(app, "/api/choices")[1]
    assert choices["detectors"] == ["dog", "dog-published", "learned"]
    assert choices["matchers"][0] == "mutual+ratio" and choices["models"] == {"patchprint": 0.8, "sift": 0.8}


def test_only_known_addresses_are_answered(app: FastAPI) -> None:
    for path, kind in (
        ("/", "text/html"),
        ("/page.css", "text/css"),
        ("/images.js", "text/javascript"),
        ("/page.js", "text/javascript"),
    ):
        status, _, headers = ask(app, path)
        assert status == 200 and headers["content-type"].startswith(kind) and "content-security-policy" in headers
    for path in (
        "/docs",
        "/redoc",
        "/static/page.js",
        "/page.py",
        "/samples/rocket.png",
        "/samples/../app.py",
        "//etc/passwd",
    ):
        assert ask(app, path)[:2] == (404, {"error": f"there is no {path} here"})
    assert ask(app, "/api/match")[:2] == (405, {"error": "/api/match takes no GET"})


@pytest.mark.parametrize(
    "name", ["/etc/hostname", "file:///etc/hostname", "http://attacker.example.com/a.png", "../../a"]
)
def test_h1_no_path_or_address_is_opened(app: FastAPI, calls: list[tuple[Any, ...]], name: str) -> None:
    """Neither as the value of a field nor as the name of a file."""
    text, kind = form({"image_a": name, "image_b": name})
    status, answer = post(app, text, kind)
    assert status == 400 and answer["error"].startswith("image_a: ") and calls == []
    parts = "".join(
        f'--x\r\nContent-Disposition: form-data; name="image_{side}"; filename="{name}"\r\n\r\nsent\r\n'
        for side in "ab"
    )
    assert post(app, f"{parts}--x--\r\n".encode(), BOUNDARY)[0] == 200
    images = calls[0][1].images
    assert [image.data for image in images] == [b"sent", b"sent"] and "/" not in images[0].name


def test_m4_files_beyond_the_two_are_refused(app: FastAPI, calls: list[tuple[Any, ...]]) -> None:
    """54,000 tiny uploads each walked through the folder of all before them; now there is no folder."""
    part = '--x\r\nContent-Disposition: form-data; name="{}"; filename="a.png"\r\n\r\na\r\n'
    more = part.format("image_a") + part.format("image_b") + part.format("image_c")
    status, answer = post(app, f"{more}--x--\r\n".encode(), BOUNDARY)
    assert status == 400 and "there is no field 'image_c'" in answer["error"]
    status, answer = post(app, f"{part.format('image_a') * 1001}--x--\r\n".encode(), BOUNDARY)
    assert status == 400 and "Too many files" in answer["error"] and calls == []


def test_l3_uploads_need_no_disk(
    app: FastAPI, calls: list[tuple[Any, ...]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full temporary folder was a 500 or a closed connection."""

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    monkeypatch.setattr(tempfile, "mkstemp", full)
    large = tmp_path / "large.png"
    large.write_bytes(bytes(20_000_000))
    body, kind = form({"image_a": large, "image_b": large})
    assert post(app, body, kind)[0] == 200
    assert [len(image.data) for image in calls[0][1].images] == [20_000_000] * 2
