"""Every request passes here: who may ask, for which addresses, how many bytes, and how long they may take to arrive.

gradio serves more than the page needs: files from URLs, a proxy, uploads of any size. Only what is listed here gets through to
it, and it reads and serves files only out of the folder that belongs to this server.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchprint.web.limits import Limits
from patchprint.web.uploads import bytes_below

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]

UPLOAD, JOIN = "/gradio_api/upload", "/gradio_api/queue/join"
_JOIN_BYTES = 1 << 20  # of what fields of the page hold; photos are named in it, not sent
_FILE = "/gradio_api/file="
_READ = re.compile(
    r"/|/config/?|/theme\.css|/favicon\.ico|/manifest\.json|/robots\.txt|/(assets|static)/.+"
    r"|/gradio_api/(info/?|startup-events|queue/data|upload_progress|theme\.css|heartbeat/\w+|file=.+)"
    r"|/openapi\.json|/api/choices"
)
_WRITTEN = re.compile(rf"{UPLOAD}|{JOIN}|/gradio_api/(reset/?|cancel)|/api/match")
# What a browser may do for the page: talk to this server, and nothing else. gradio's frontend makes functions of text.
_HEADERS = [
    (
        b"content-security-policy",
        b"default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
        b"img-src 'self' data: blob:; media-src 'self' blob:; worker-src 'self' blob:; font-src 'self' data:; "
        b"connect-src 'self' data: blob:; frame-ancestors 'none'; base-uri 'self'; form-action 'self'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
]

_CLOSE = [(b"connection", b"close")]  # what is left of the request is not waited for


@dataclass(frozen=True)
class Refusal:
    """Why a request is not answered."""

    status: int
    sentence: str


class Guard:
    """Stands before an ASGI application.

    Args:
        folder: the only one whose files are served.
        hosts: names by which this server may be called, None for any; a page elsewhere that a browser believes to lie on
            this machine calls it by another.
        most_stored: bytes of uploads in the folder, above which no more are taken.
    """

    def __init__(self, app: App, limits: Limits, folder: Path, hosts: frozenset[str] | None, most_stored: int) -> None:
        self._app, self._limits, self._folder = app, limits, folder.resolve()
        self._hosts, self._most_stored = hosts, most_stored

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            refusal = self._refusal(scope)
            if refusal is None:
                await self._limited(scope, receive, send)
            else:
                await _answer(send, refusal)
        # Nothing here needs a websocket; uvicorn closes one that is not answered.

    def _refusal(self, scope: Message) -> Refusal | None:
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        host, origin = headers.get("host", ""), headers.get("origin")
        if self._hosts is not None and re.sub(r":\d*$", "", host).lower() not in self._hosts:
            return Refusal(403, f"this server is not called {host!r}; use the address that patchprint serve printed")
        if origin is not None and origin.partition("://")[2] != host:
            return Refusal(403, "a page of another server may not ask this one")
        path, method = scope["path"], scope["method"]
        allowed = _READ if method in ("GET", "HEAD") else _WRITTEN if method == "POST" else None
        if allowed is None or not allowed.fullmatch(path):
            known = _READ.fullmatch(path) or _WRITTEN.fullmatch(path)
            return Refusal(405, f"{path} takes no {method}") if known else Refusal(404, f"there is no {path} here")
        if path.startswith(_FILE) and not self._is_ours(path.removeprefix(_FILE)):
            return Refusal(403, "only files that were given to this page are served")
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > self._most_bytes(path):
            return self._too_large()
        if path == UPLOAD and bytes_below(self._folder) > self._most_stored:
            return Refusal(429, "too many photos were uploaded in the last hour; try again later")
        return None

    def _most_bytes(self, path: str) -> int:
        return _JOIN_BYTES if path == JOIN else self._limits.request_bytes

    def _is_ours(self, name: object) -> bool:
        try:
            return isinstance(name, str) and self._folder in Path(name).resolve().parents
        except (OSError, ValueError):  # names that no file can have
            return False

    def _too_large(self) -> Refusal:
        return Refusal(413, f"the request is too large; a photo may have {self._limits.upload_mb:g} MB")

    async def _limited(self, scope: Message, receive: Receive, send: Send) -> None:
        """Pass a request on, whose body is counted and timed while it arrives."""
        clock = asyncio.get_running_loop()
        deadline = clock.time() + self._limits.seconds
        received, is_complete, is_answered = 0, False, False
        refusal: Refusal | None = None

        async def counted() -> Message:
            nonlocal received, is_complete, refusal
            if is_complete:
                return await receive()
            try:
                message = await asyncio.wait_for(receive(), max(deadline - clock.time(), 0))
            except TimeoutError:
                refusal = Refusal(408, f"the request did not arrive within {self._limits.seconds:g} seconds")
                return {"type": "http.disconnect"}
            received += len(message.get("body", b""))
            if received > self._most_bytes(scope["path"]):
                refusal = self._too_large()
                return {"type": "http.disconnect"}
            is_complete = not message.get("more_body", False)
            return message

        async def inspected() -> Message:
            nonlocal refusal
            if is_complete:
                return await receive()
            body = b""
            while not is_complete:
                message = await counted()
                if message["type"] == "http.disconnect":
                    return message
                body += message.get("body", b"")
            if not all(map(self._is_ours, _paths_in(body))):
                refusal = Refusal(403, "only photos that were given to this page are looked at")
                return {"type": "http.disconnect"}
            return {"type": "http.request", "body": body, "more_body": False}

        async def with_headers(message: Message) -> None:
            nonlocal is_answered
            if refusal is not None and not is_answered:
                return  # what the application says about a body that was cut off is of no interest
            if message["type"] == "http.response.start":
                is_answered = True
                rest = _CLOSE if scope["method"] == "POST" and not is_complete else []
                message = {**message, "headers": [*message.get("headers", []), *rest, *_HEADERS]}
            await send(message)

        try:
            await self._app(scope, inspected if scope["path"] == JOIN else counted, with_headers)
        except Exception:
            if refusal is None or is_answered:
                raise
        if refusal is not None and not is_answered:
            await _answer(send, refusal)


async def _answer(send: Send, refusal: Refusal) -> None:
    body = json.dumps({"error": refusal.sentence}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    headers += [*_CLOSE, *_HEADERS]
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _paths_in(body: bytes) -> Iterator[object]:
    """The files that a question of the page names, wherever they stand in it.

    gradio copies them, or fetches them where they are addresses, before any code of ours sees them.
    """
    try:
        waiting = [json.loads(body)]
    except (ValueError, RecursionError):
        return  # gradio refuses what is no JSON
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            if "path" in value:
                yield value["path"]
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
