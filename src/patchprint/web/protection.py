"""ASGI middleware: Host and Origin checks, limits on size and time of requests, security headers."""

import asyncio
import ipaddress
import re
from collections.abc import Collection

from fastapi import HTTPException
from fastapi.responses import JSONResponse
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from patchprint.web.limits import Limits

_HEADERS = {
    "content-security-policy": "default-src 'self'; img-src 'self' data: blob:; object-src 'none'; frame-ancestors 'none'; "
    "base-uri 'none'; form-action 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
}


class Protection:
    """Refuse requests from pages of other sites, and requests that are too large or too slow, while they are read.

    Allowed Host names are ``host_names``, localhost and IP addresses: a hostile site can make its own name resolve to this
    machine (DNS rebinding), but not an address.
    """

    def __init__(self, app: ASGIApp, limits: Limits, host_names: Collection[str] = ()) -> None:
        self._app, self._limits = app, limits
        self._host_names = {"localhost", *(name.lower() for name in host_names)}
        self._received = 0  # bytes of all running requests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        deadline = asyncio.get_running_loop().time() + self._limits.seconds
        received, is_complete = 0, False

        async def receive_limited() -> Message:
            nonlocal received, is_complete
            if is_complete:
                return await receive()
            try:
                async with asyncio.timeout_at(deadline):
                    message = await receive()
            except TimeoutError:
                seconds = f"{self._limits.seconds:g} seconds"
                raise HTTPException(408, f"the request did not arrive within {seconds}") from None
            size = len(message.get("body", b""))
            received, self._received = received + size, self._received + size
            if received > self._limits.request_bytes:
                raise self._too_large()
            if self._received > self._limits.total_bytes:
                raise HTTPException(503, "too much is being uploaded at once; try again in a moment")
            is_complete = not message.get("more_body", False)
            return message

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(_HEADERS)
                if scope["method"] == "POST" and not is_complete:
                    headers["connection"] = "close"  # do not wait for the rest of the request
            await send(message)

        refusal = self._refusal(Headers(scope=scope))
        app = self._app if refusal is None else JSONResponse({"error": refusal.detail}, refusal.status_code)
        try:
            await app(scope, receive_limited, send_with_headers)
        finally:
            self._received -= received

    def _refusal(self, head: Headers) -> HTTPException | None:
        host, origin = head.get("host", ""), head.get("origin")
        name = re.sub(r":\d*$", "", host).lower()
        if name not in self._host_names and not _is_address(name.strip("[]")):
            sentence = (
                f"this server is not called {host!r}; use its IP address, or start it with --host-name {name or 'NAME'}"
            )
            return HTTPException(403, sentence)
        if origin is not None and origin.partition("://")[2] != host:
            return HTTPException(403, "requests from pages of other sites are refused")
        return self._too_large() if int(head.get("content-length", "0")) > self._limits.request_bytes else None

    def _too_large(self) -> HTTPException:
        return HTTPException(413, f"the request is too large; an image may have {self._limits.upload_mb:g} MB")


def _is_address(name: str) -> bool:
    try:
        return bool(ipaddress.ip_address(name))
    except ValueError:
        return False
