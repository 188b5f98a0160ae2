"""Run the page and the API on one port, with one worker process."""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import os
import signal
import socket
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from patchprint.common.errors import UserError
from patchprint.common.optional import require
from patchprint.common.progress import note
from patchprint.common.signals import sigterm_as_exit
from patchprint.networks.engines import AUTO
from patchprint.web.limits import Limits

HOST, PORT = "127.0.0.1", 7860
_HEAD_SECONDS = 10.0  # deadline for the head of a request
_MAX_CONNECTIONS = 256
_LAST_SECONDS = 1  # grace period for running requests when the server stops


def serve(
    host: str = HOST,
    port: int = PORT,
    limits: Limits | None = None,
    models: Sequence[str | Path] = (),
    host_names: Collection[str] = (),
    device: str = "auto",
    engine: str = AUTO,
) -> None:
    """Serve the page and the API until stopped by Ctrl-C, SIGTERM or SIGHUP. Uploads are kept in memory only.

    Args:
        host: address to listen on; the default is reachable from this machine only.
        port: 0 picks a free one.
        limits: limits of one request.
        models: weight files to offer besides the shipped models; the first is preselected.
        host_names: host names allowed in requests, besides localhost and IP addresses.
        device: where networks run: auto, cpu, cuda, mps.
        engine: how networks are computed (`patchprint.load`).
    """
    limits = limits or Limits()
    with contextlib.ExitStack() as stack:
        listening = stack.enter_context(contextlib.closing(bind(host, port)))
        stack.enter_context(sigterm_as_exit())
        stack.enter_context(_hangup_as_sigterm())
        uvicorn = require("uvicorn", extra="web")
        for package in ("fastapi", "python_multipart"):
            require(package, extra="web")
        from patchprint.web.app import create_app
        from patchprint.web.session import MatchSession, offered_models
        from patchprint.web.workers import Worker

        # OpenCV reads its own limit when the worker imports it; it catches images whose header lies.
        os.environ["OPENCV_IO_MAX_IMAGE_PIXELS"] = str(int(limits.megapixels * 1e6))
        known, ratios = offered_models(models)
        worker = stack.enter_context(Worker(limits, MatchSession, known, limits, device, engine))
        config = uvicorn.Config(
            create_app(worker.call, ratios, limits, (host, *host_names)),
            http=_with_head_deadline(min(limits.seconds, _HEAD_SECONDS)),
            ws="none",
            log_level="warning",
            server_header=False,
            proxy_headers=False,
            limit_concurrency=_MAX_CONNECTIONS,
            timeout_graceful_shutdown=_LAST_SECONDS,
        )
        if not is_loopback(host):
            note(
                f"warning: {host} can be reached from other machines; whoever reaches it can use this page, without a "
                "password and without encryption (docs/serve.md)"
            )
        note(f"serving at {address(host, listening)} (Ctrl-C ends it)")
        uvicorn.Server(config).run(sockets=[listening])


def bind(host: str, port: int) -> socket.socket:
    """Return a listening socket.

    Raises:
        UserError: the address or port cannot be used.
    """
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except (OSError, UnicodeError, OverflowError) as error:
        in_use = getattr(error, "errno", None) == errno.EADDRINUSE
        denied = "may not be used" if isinstance(error, PermissionError) else "is no address of this machine"
        reason = "is in use" if in_use else denied
        raise UserError(f"port {port} of {host} {reason}; give another --host or --port (0 for any)") from None


def is_loopback(host: str) -> bool:
    """Return whether an address is reachable from this machine only."""
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host.lower() == "localhost"


def address(host: str, listening: socket.socket) -> str:
    """Return the URL of the page for a browser on this machine."""
    shown = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://{f'[{shown}]' if ':' in shown else shown}:{listening.getsockname()[1]}"


@contextlib.contextmanager
def _hangup_as_sigterm() -> Iterator[None]:
    """Shut down cleanly when the terminal closes, unless SIGHUP is ignored (nohup) or does not exist (Windows)."""
    hangup = getattr(signal, "SIGHUP", None)
    if hangup is None or signal.getsignal(hangup) == signal.SIG_IGN:
        yield
        return
    previous = signal.signal(hangup, lambda *_: signal.raise_signal(signal.SIGTERM))
    try:
        yield
    finally:
        signal.signal(hangup, previous)


def _with_head_deadline(seconds: float) -> type[Any]:
    """Return uvicorn's HTTP protocol with a deadline for the head of each request.

    uvicorn closes silent kept-alive connections, but its timer stops at the first byte: half a head would hold one for ever.
    """
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class HeadDeadline(H11Protocol):
        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._expect_request(self.cycle)

        def on_response_complete(self) -> None:
            answered = self.cycle
            super().on_response_complete()  # may start a pipelined request
            self._expect_request(answered)

        def _expect_request(self, last: object) -> None:
            self.loop.call_later(seconds, lambda: self.transport.close() if self.cycle is last else None)

    return HeadDeadline
