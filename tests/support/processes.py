"""Several processes of one job, started as torchrun starts them, but from a server that has imported torch once for all."""

from __future__ import annotations

import multiprocessing
import os
import socket
from collections.abc import Callable
from typing import Any

import torch

from patchprint.common import distributed

_IMPORTED = ["torch._dynamo", "patchprint.training"]  # every optimizer asks for torch's compiler


def run_together(count: int, work: Callable[..., None], *arguments: Any) -> None:
    """Do ``work(*arguments)`` in ``count`` processes that know each other; the first error of any of them is raised."""
    multiprocessing.set_forkserver_preload(_IMPORTED)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    torch.multiprocessing.start_processes(
        _run, args=(count, port, work, arguments), nprocs=count, start_method="forkserver"
    )


def _run(rank: int, count: int, port: int, work: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    place = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": count, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    os.environ.update({name: str(value) for name, value in place.items()})
    torch.set_num_threads(1)
    distributed.start("cpu")
    try:
        work(*arguments)
    finally:
        distributed.stop()
