"""Several processes of one job, started as torchrun starts them, but from a server that has imported torch once for all."""

import multiprocessing
import os
import socket
from collections.abc import Callable
from multiprocessing import forkserver
from typing import Any

import pytest
import torch

from patchprint.common import distributed

_IMPORTED = ["torch._dynamo", "patchprint.training"]  # every optimizer asks for torch's compiler


def preload() -> None:
    """Start the server of forks, which imports what all need; without a GPU, Triton interprets its kernels there."""
    multiprocessing.set_forkserver_preload(_IMPORTED)
    with pytest.MonkeyPatch.context() as patch:  # Triton reads it when it is imported
        if not torch.cuda.is_available():
            patch.setenv("TRITON_INTERPRET", "1")
        forkserver.ensure_running()


def run_together(count: int, work: Callable[..., None], *arguments: Any) -> None:
    """Do ``work(*arguments)`` in ``count`` processes that know each other; the first error of any of them is raised."""
    preload()
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
