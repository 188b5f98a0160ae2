"""Who may ask, how much, how slowly: the middleware in front of an application that would answer everything."""

from typing import Any

import pytest
from fastapi import HTTPException
from fastapi.responses import JSONResponse

from patchprint.web.limits import Limits
from patchprint.web.protection import Protection
from support.asgi import ask

LIMITS = Limits(upload_mb=0.01, seconds=0.2)


async def anything(scope: Any, receive: Any, send: Any) -> None:
    """Read the whole body and answer how long it is, or why it was refused."""
    length, more = 0, True
    try:
        while more:
            message = await receive()
            length, more = length + len(message.get("body", b"")), message.get("more_body", False)
    except HTTPException as error:
        await JSONResponse({"error": error.detail}, error.status_code)(scope, receive, send)
    else:
        await JSONResponse({"length": length})(scope, receive, send)


APP = Protection(anything, LIMITS, ["photos.lan"])


def post(*body: bytes | float, **headers: str) -> tuple[int, Any, dict[str, str]]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return ask(APP, "/api/match", "POST", named, body)


def test_a_page_is_bound_to_this_server() -> None:
    status, _, headers = ask(APP)
    policy = headers["content-security-policy"]
    assert status == 200 and "default-src 'self'" in policy and "http" not in policy and "unsafe" not in policy


def test_l2_names_are_refused_unless_they_were_given() -> None:
    """A hostile site can make its own name lead here; at 0.0.0.0 every name was accepted."""
    for name in ("localhost", "127.0.0.1:80", "LOCALHOST:7860", "192.168.1.5:7860", "[::1]:7860", "photos.lan:7860"):
        assert ask(APP, headers={"host": name})[0] == 200, name
    for name in ("evil.example:7860", "", "127.0.0.1.evil.example", "localhost:7860:1", "photos.lan.evil.example"):
        status, answer, _ = ask(APP, headers={"host": name, "origin": f"http://{name}"})
        assert status == 403 and "is not called" in answer["error"] and "--host-name" in answer["error"]


def test_pages_of_other_servers_are_refused() -> None:
    assert post(origin="http://127.0.0.1:7860")[0] == 200
    for origin in ("http://evil.example", "null", "http://127.0.0.1:8888"):
        assert post(origin=origin)[0] == 403


def test_m5_what_a_request_took_is_free_when_it_ends_in_whatever_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Broken uploads counted for an hour, and about 50 of them turned everybody away."""
    monkeypatch.setattr(Limits, "total_bytes", 50_000)
    part = bytes(30_000)
    for _ in range(10):
        assert post(part, 9.0)[0] == 408
        assert post(part, part)[0] == 503
    assert post(part, b"a")[1] == {"length": 30_001}

    async def broken(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        raise ZeroDivisionError

    app = Protection(broken, LIMITS)
    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            ask(app, method="POST", body=[part])
    assert app._received == 0


def test_too_much_is_refused_by_its_announcement_and_while_it_arrives() -> None:
    largest, part = LIMITS.request_bytes, bytes(20_000)
    assert post(bytes(largest), content_length=str(largest))[1] == {"length": largest}
    for status, answer, headers in (post(9.0, content_length=str(largest + 1)), post(*[part] * 5, 9.0, part)):
        assert status == 413 and "an image may have 0.01 MB" in answer["error"] and headers["connection"] == "close"
    assert "connection" not in post(b"a", b"b")[2]


def test_a_slow_body_is_cut_off() -> None:
    status, answer, _ = post(b"a", 0.05, b"b", 9.0, b"c")
    assert status == 408 and "did not arrive within 0.2 seconds" in answer["error"]
    assert post(b"a", 0.05, b"b")[1] == {"length": 2}
