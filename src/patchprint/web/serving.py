"""The page and the API behind one port of this machine, until somebody stops them."""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import os
import socket
import tempfile
from collections.abc import Sequence
from pathlib import Path

from patchprint.common import files
from patchprint.common.errors import UserError
from patchprint.common.optional import require
from patchprint.common.progress import note
from patchprint.common.signals import sigterm_as_exit
from patchprint.networks.engines import AUTO
from patchprint.web.choices import offered
from patchprint.web.limits import Limits
from patchprint.web.workers import Setup, Workers

HOST, PORT = "127.0.0.1", 7860


def serve(
    host: str = HOST,
    port: int = PORT,
    limits: Limits | None = None,
    models: Sequence[str | Path] = (),
    device: str = "auto",
    engine: str = AUTO,
) -> None:
    """Serve the page and the API until somebody stops it (Ctrl-C, SIGTERM); what was uploaded is removed then.

    Args:
        host: address to listen at; the default can be reached from this machine alone.
        port: 0 takes one that is free.
        limits: what one request may ask for.
        models: weight files that are offered beside the shipped models, the first of them chosen at the start.
        device: where networks are computed: auto, cpu, cuda, mps.
        engine: how (`patchprint.load`).
    """
    limits = limits or Limits()
    known, ratios = offered(models)
    with contextlib.ExitStack() as stack:
        listening = stack.enter_context(contextlib.closing(bind(host, port)))
        stack.enter_context(sigterm_as_exit())
        folder = stack.enter_context(files.temporary_folder(Path(tempfile.gettempdir()) / "patchprint-serve"))
        # gradio reads these when it is imported and when it makes fields: all its files go into our folder, and it is silent.
        os.environ |= {"GRADIO_TEMP_DIR": str(folder), "GRADIO_EXAMPLES_CACHE": str(folder)}
        os.environ |= {"GRADIO_ANALYTICS_ENABLED": "False", "HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
        require("gradio", extra="web")
        from patchprint.web import application, http_server

        workers = stack.enter_context(Workers(Setup(known, limits, folder, device, engine)))
        guarded = application.create(workers, known, ratios, limits, folder, names_of(host))
        if not is_loopback(host):
            note(
                f"warning: {host} can be reached from other machines; whoever reaches it can use this page, without a "
                "password and without encryption (docs/serve.md)"
            )
        http_server.run(guarded, listening, limits.seconds, f"serving at {address(host, listening)} (Ctrl-C ends it)")


def bind(host: str, port: int) -> socket.socket:
    """A socket that listens at an address of this machine, or one sentence why not."""
    try:
        if not 0 <= port < 1 << 16:
            raise OverflowError
        family, kind, _, _, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError, OverflowError):
        raise UserError(f"{host} port {port} is no address to serve at; give another --host or --port") from None
    made = socket.socket(family, kind)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind(where)
        made.listen()
    except OSError as error:
        made.close()
        if error.errno == errno.EADDRINUSE:
            raise UserError(f"port {port} of {host} is in use; give another --port, or 0 for any") from None
        reason = "may not be used" if isinstance(error, PermissionError) else "is no address of this machine"
        raise UserError(f"{host} port {port} {reason}; give another --host or --port") from None
    return made


def is_loopback(host: str) -> bool:
    """Whether an address can be reached from this machine alone."""
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host.lower() == "localhost"


def names_of(host: str) -> frozenset[str] | None:
    """How browsers may call a server at this address; None for any name, since nobody knows those of other machines."""
    return frozenset({"127.0.0.1", "localhost", "[::1]", host}) if is_loopback(host) else None


def address(host: str, listening: socket.socket) -> str:
    """Where a browser on this machine finds the page."""
    shown = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://{f'[{shown}]' if ':' in shown else shown}:{listening.getsockname()[1]}"
