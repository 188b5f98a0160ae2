"""Who may ask, for what, how much, how long: the guard in front of an application that would answer everything."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from patchprint.web.guard import Guard
from patchprint.web.limits import Limits

HOSTS = frozenset({"127.0.0.1", "localhost"})
LIMITS = Limits(upload_mb=0.01, seconds=0.2)


async def anything(scope: Any, receive: Any, send: Any) -> None:
    """Reads the whole body and says how long it is; one that breaks off is an error to it."""
    length, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ConnectionError("the body broke off")
        length, more = length + len(message.get("body", b"")), message.get("more_body", False)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": json.dumps({"length": length}).encode()})


def ask(
    folder: Path,
    path: str = "/",
    method: str = "GET",
    headers: dict[str, str] | None = None,
    body: Iterable[bytes | float] = (),
    hosts: frozenset[str] | None = HOSTS,
    most_stored: int = 1000,
) -> tuple[int, dict, dict[bytes, bytes]]:
    """Status, answer and headers; numbers in the body are pauses in seconds."""
    parts, sent = list(body), []

    async def receive() -> dict:
        while parts and isinstance(parts[0], float):
            await asyncio.sleep(parts.pop(0))
        return {"type": "http.request", "body": parts.pop(0) if parts else b"", "more_body": bool(parts)}

    async def send(message: Any) -> None:
        sent.append(message)

    given = {"host": "127.0.0.1:7860", **(headers or {})}
    scope = {"type": "http", "path": path, "method": method}
    scope["headers"] = [(name.encode(), value.encode()) for name, value in given.items()]
    asyncio.run(Guard(anything, LIMITS, folder, hosts, most_stored)(scope, receive, send))
    return sent[0]["status"], json.loads(sent[1]["body"]), dict(sent[0]["headers"])


def test_the_page_is_answered_and_bound_to_this_server(tmp_path: Path) -> None:
    status, _, headers = ask(tmp_path)
    policy = headers[b"content-security-policy"].decode()
    assert status == 200 and "default-src 'self'" in policy and "http" not in policy


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/api/choices", 200),
        ("GET", "/openapi.json", 200),
        ("GET", "/assets/index.js", 200),
        ("POST", "/api/match", 200),
        ("POST", "/gradio_api/queue/join", 200),
        ("GET", "/api/match", 405),
        ("DELETE", "/", 405),
        ("GET", "/docs", 404),
        ("GET", "/gradio_api/proxy=http://example.org/", 404),
        ("POST", "/gradio_api/component_server", 404),
        ("POST", "/gradio_api/vibe-edit", 404),
        ("POST", "/gradio_api/call/show", 404),
        ("GET", "/gradio_api/runs", 404),
        ("GET", "/gradio_api/deep_link", 404),
        ("GET", "/monitoring", 404),
        ("GET", "/gradio_api/queue/data/../../etc", 404),
    ],
)
def test_only_what_the_page_needs_gets_through(tmp_path: Path, method: str, path: str, status: int) -> None:
    assert ask(tmp_path, path, method)[0] == status


def test_files_come_out_of_one_folder(tmp_path: Path) -> None:
    folder = tmp_path / "ours"
    (folder / "deeper").mkdir(parents=True)
    (tmp_path / "secret.txt").write_text("secret")
    (folder / "link.txt").symlink_to(tmp_path / "secret.txt")
    for name, status in (
        (f"{folder}/photo.jpg", 200),
        (f"{folder}/deeper/photo.jpg", 200),
        (f"{folder}/deeper/../photo.jpg", 200),
        (f"{folder}", 403),
        (f"{folder}/../secret.txt", 403),
        (f"{folder}/deeper/../../secret.txt", 403),
        (f"{folder}/link.txt", 403),
        (f"{tmp_path}/ours2/photo.jpg", 403),
        ("/etc/passwd", 403),
        ("../../etc/passwd", 403),
        ("http://example.org/a.jpg", 403),
        ("file:///etc/passwd", 403),
        (f"{folder}/a\0b", 403),
    ):
        assert ask(folder, f"/gradio_api/file={name}")[0] == status, name


@pytest.mark.parametrize("nested", [lambda file: file, lambda file: {"data": [1, [{"a": file}]]}])
def test_questions_of_the_page_name_only_files_of_the_folder(tmp_path: Path, nested: Any) -> None:
    join = "/gradio_api/queue/join"
    for path, status in (
        (f"{tmp_path}/photo.jpg", 200),
        ("/etc/passwd", 403),
        ("https://example.org/a", 403),
        (None, 403),
    ):
        body = json.dumps(nested({"path": path, "meta": {"_type": "gradio.FileData"}})).encode()
        assert ask(tmp_path, join, "POST", body=[body[:9], body[9:]])[0] == status, path
    assert ask(tmp_path, join, "POST", body=[b"no JSON"])[1] == {"length": 7}
    assert ask(tmp_path, join, "POST", body=[bytes(1 << 20), b"a"])[0] == 413


def test_browsers_that_were_led_here_are_refused(tmp_path: Path) -> None:
    """A page elsewhere whose name was turned to this machine, and one that sends a form."""
    for name in ("localhost", "127.0.0.1:80", "LOCALHOST:7860"):
        assert ask(tmp_path, headers={"host": name})[0] == 200
    for name in ("evil.example:7860", "", "127.0.0.1.evil.example", "localhost:7860:1"):
        status, answer, _ = ask(tmp_path, headers={"host": name})
        assert status == 403 and "is not called" in answer["error"]
    assert ask(tmp_path, headers={"host": "photos.lan"}, hosts=None)[0] == 200
    assert ask(tmp_path, headers={"origin": "http://127.0.0.1:7860"})[0] == 200
    for origin in ("http://evil.example", "null", "http://127.0.0.1:8888"):
        assert ask(tmp_path, "/api/match", "POST", headers={"origin": origin})[0] == 403


def test_a_request_that_announces_too_much_is_not_read(tmp_path: Path) -> None:
    largest = LIMITS.request_bytes
    assert ask(tmp_path, "/api/match", "POST", {"content-length": str(largest)}, [bytes(largest)])[1] == {
        "length": largest
    }
    for length in (str(largest + 1), "-5", "many"):
        status, answer, headers = ask(tmp_path, "/api/match", "POST", {"content-length": length}, [9.0])
        assert status == 413 and "too large" in answer["error"] and headers[b"connection"] == b"close"


def test_a_body_is_counted_while_it_arrives(tmp_path: Path) -> None:
    part = bytes(20_000)
    status, answer, _ = ask(tmp_path, "/api/match", "POST", body=[part] * 5 + [9.0, part])
    assert status == 413 and "a photo may have 0.01 MB" in answer["error"]


def test_a_slow_body_is_cut_off(tmp_path: Path) -> None:
    status, answer, _ = ask(tmp_path, "/api/match", "POST", body=[b"a", 0.05, b"b", 9.0, b"c"])
    assert status == 408 and "did not arrive within 0.2 seconds" in answer["error"]
    assert ask(tmp_path, "/api/match", "POST", body=[b"a", 0.05, b"b"])[1] == {"length": 2}


def test_a_full_folder_takes_no_more(tmp_path: Path) -> None:
    (tmp_path / "photo.jpg").write_bytes(bytes(1001))
    assert ask(tmp_path, "/gradio_api/upload", "POST")[0] == 429
    assert ask(tmp_path, "/gradio_api/upload", "POST", most_stored=2000)[0] == 200
    assert ask(tmp_path, "/api/match", "POST")[0] == 200


def test_what_an_application_does_not_read_is_not_waited_for(tmp_path: Path) -> None:
    sent: list[Any] = []

    async def hasty(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "http.response.start", "status": 413, "headers": []})

    async def receive() -> dict:
        return {"type": "http.request", "body": b"a", "more_body": True}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "path": "/api/match", "method": "POST", "headers": [(b"host", b"localhost")]}
    asyncio.run(Guard(hasty, LIMITS, tmp_path, HOSTS, 1)(scope, receive, send))
    assert (b"connection", b"close") in sent[0]["headers"]
    assert b"connection" not in ask(tmp_path, "/api/match", "POST", body=[b"a", b"b"])[2]


def test_errors_of_the_application_stay_errors(tmp_path: Path) -> None:
    async def broken(scope: Any, receive: Any, send: Any) -> None:
        raise ZeroDivisionError

    scope = {"type": "http", "path": "/", "method": "GET", "headers": [(b"host", b"localhost")]}
    with pytest.raises(ZeroDivisionError):
        asyncio.run(Guard(broken, LIMITS, tmp_path, HOSTS, 1)(scope, None, None))  # type: ignore[arg-type]
