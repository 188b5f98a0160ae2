"""uvicorn, which says where it serves and does not wait for connections that say nothing."""

from __future__ import annotations

import socket
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from patchprint.common.progress import note

MOST_CONNECTIONS = 256
_LAST_ANSWERS = 1  # seconds in which answers that are under way may end when it is stopped


def run(application: Any, listening: socket.socket, seconds: float, greeting: str) -> None:
    """Serve at a socket until a signal comes; a connection must send the head of a request within so many seconds."""
    config = uvicorn.Config(
        application,
        http=_protocol(seconds),
        ws="none",
        log_level="warning",
        server_header=False,
        proxy_headers=False,
        limit_concurrency=MOST_CONNECTIONS,
        timeout_graceful_shutdown=_LAST_ANSWERS,
    )
    _Server(config, greeting).run(sockets=[listening])


class _Server(uvicorn.Server):
    """Says so once it serves."""

    def __init__(self, config: uvicorn.Config, greeting: str) -> None:
        super().__init__(config)
        self._greeting = greeting

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            note(self._greeting)


def _protocol(seconds: float) -> type[H11Protocol]:
    class Impatient(H11Protocol):
        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self.loop.call_later(seconds, self._close_if_silent)

        def _close_if_silent(self) -> None:
            if self.cycle is None:  # no request has begun
                self.transport.close()

    return Impatient
