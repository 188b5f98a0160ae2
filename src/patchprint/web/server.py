"""Run the page and the API on one port, with one worker process.

Untrusted images are decoded in the worker, so a decoder that crashes or hangs fails its own request only.
"""

import contextlib
import errno
import ipaddress
import os
import signal
import socket
import threading
import time
import traceback
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any, Self

from patchprint.common.errors import UserError, require
from patchprint.common.processes import Worker, WorkerDiedError
from patchprint.common.progress import note
from patchprint.common.signals import on_signal, sigterm_as_exit
from patchprint.networks.engines import AUTO
from patchprint.web.limits import Limits, RequestError

HOST, PORT = "127.0.0.1", 7860
_HEAD_SECONDS = 10.0  # deadline for the head of a request
_MAX_CONNECTIONS = 256
_Call = tuple[str, tuple[object, ...]]  # the name of a method and its arguments
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
    """Serve the page and the API until stopped by Ctrl-C, SIGTERM or SIGHUP; arguments as of ``patchprint serve``."""
    limits = limits or Limits()
    with contextlib.ExitStack() as stack:
        listening = stack.enter_context(contextlib.closing(bind(host, port)))
        stack.enter_context(sigterm_as_exit())
        if hasattr(signal, "SIGHUP"):  # the terminal closes; Windows has none
            stack.enter_context(on_signal(signal.SIGHUP, lambda: signal.raise_signal(signal.SIGTERM)))
        uvicorn = require("uvicorn", extra="web")
        for package in ("fastapi", "python_multipart"):
            require(package, extra="web")
        from patchprint.web.app import create_app
        from patchprint.web.session import MatchSession, offered_models

        # OpenCV reads its own limit when the worker imports it; it catches images whose header lies.
        os.environ["OPENCV_IO_MAX_IMAGE_PIXELS"] = str(int(limits.megapixels * 1e6))
        known, ratios = offered_models(models)
        session = stack.enter_context(MethodCalls(limits, MatchSession, known, limits, device, engine))
        config = uvicorn.Config(
            create_app(session.call, ratios, limits, (host, *host_names)),
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


class MethodCalls:
    """Call methods of an object that ``make(*arguments)`` returns in another process, one at a time.

    ``with MethodCalls(limits, make, *arguments) as calls: calls.call("match", question)``
    """

    def __init__(self, limits: Limits, make: Callable[..., object], *arguments: object) -> None:
        self._limits, self._worker = limits, Worker(_answer_calls, make, *arguments)
        self._places = threading.Semaphore(1 + int(limits.waiting))
        self._turn = threading.Lock()
        self._is_stopped = False

    def __enter__(self) -> Self:
        self._worker.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._is_stopped = True  # a waiting call reports this instead of a crash
        self._worker.ask_to_stop()
        with self._turn:
            self._worker.stop()

    def call(self, method: str, *arguments: object) -> Any:
        """Call a method and return its result. Waiting for other calls counts toward the deadline.

        Raises:
            RequestError: too many calls wait, the deadline passed, the process died, or the method raised an error.
        """
        seconds = self._limits.seconds
        deadline = time.monotonic() + seconds
        if not self._places.acquire(blocking=False):
            raise RequestError("too many requests at once; try again in a moment", 429)
        with contextlib.ExitStack() as stack:
            stack.callback(self._places.release)
            if not self._turn.acquire(timeout=seconds):
                raise RequestError(f"others were served for {seconds:g} seconds; try again in a moment", 429)
            stack.callback(self._turn.release)
            reply = self._ask((method, arguments), deadline)
        if "error" in reply:
            raise RequestError(reply["error"], reply["status"])
        return reply["result"]

    def _ask(self, request: _Call, deadline: float) -> dict[str, Any]:
        stopped = RequestError("the server is being stopped", 503)
        if self._is_stopped:
            raise stopped
        try:
            self._worker.send(request)
            return dict(self._worker.receive(deadline - time.monotonic()))
        except TimeoutError:
            sentence = f"this took longer than {self._limits.seconds:g} seconds and was given up"
            refusal = RequestError(f"{sentence}; use smaller images or fewer keypoints", 503)
        except WorkerDiedError as error:
            if self._is_stopped:
                raise stopped from None
            note(f"a worker ended with exit code {error.code}; a new one takes its place")
            refusal = RequestError("the process that worked on these images died; try others, and report this", 500)
        self._worker.start()  # ahead of the next call
        raise refusal


def _answer_calls(make: Callable[..., object], *arguments: object) -> Callable[[_Call], dict[str, object]]:
    target = make(*arguments)

    def answer(request: _Call) -> dict[str, object]:
        method, given = request
        try:
            return {"result": getattr(target, method)(*given)}
        except UserError as error:
            return {"error": str(error), "status": getattr(error, "status", 400)}
        except Exception:
            traceback.print_exc()
            sentence = "this is a fault of patchprint; the terminal of the server says more, please report it"
            return {"error": sentence, "status": 500}

    return answer
