"""Requests to an ASGI application in this process."""

import asyncio
import json
from collections.abc import Iterable
from typing import Any


def ask(
    app: Any,
    path: str = "/",
    method: str = "GET",
    headers: dict[str, str] | None = None,
    body: Iterable[bytes | float] = (),
) -> tuple[int, Any, dict[str, str]]:
    """Return status, answer (parsed where it is JSON) and headers; a number in the body is a pause in seconds."""
    parts, sent = list(body), []

    async def receive() -> dict[str, Any]:
        while parts and isinstance(parts[0], float):
            await asyncio.sleep(parts.pop(0))
        return {"type": "http.request", "body": parts.pop(0) if parts else b"", "more_body": bool(parts)}

    async def send(message: Any) -> None:
        sent.append(message)

    given = {"host": "127.0.0.1:7860", **(headers or {})}
    scope: dict[str, Any] = {"type": "http", "path": path, "raw_path": path.encode(), "root_path": "", "method": method}
    scope |= {"query_string": b"", "scheme": "http", "headers": [(k.encode(), v.encode()) for k, v in given.items()]}
    asyncio.run(app(scope, receive, send))
    answer = b"".join(message.get("body", b"") for message in sent[1:])
    found = {key.decode(): value.decode() for key, value in sent[0]["headers"]}
    is_json = found.get("content-type", "").startswith("application/json")
    return sent[0]["status"], json.loads(answer) if is_json else answer, found
