"""Tests of GPU kernels: in a process of their own, on the GPU, or by Triton's interpreter where there is none."""

import multiprocessing
import traceback
from multiprocessing.connection import Connection

from support.processes import preload

_BEGIN = "import torch\ndevice = torch.device('cuda' if torch.cuda.is_available() else 'cpu')\ntorch.manual_seed(0)\n"


def run(code: str) -> None:
    """Run ``code``, in which ``device`` is where kernels run, in a fork of a server that has imported torch once for all."""
    preload()
    receiving, sending = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("forkserver").Process(target=_run, args=(code, sending))
    process.start()
    sending.close()
    try:
        problem = receiving.recv()
    except EOFError:
        problem = "the process was killed"
    process.join()
    assert not problem, problem


def _run(code: str, sending: Connection) -> None:
    try:
        exec(_BEGIN + code, {"__name__": "__main__"})
        sending.send("")
    except BaseException:
        sending.send(traceback.format_exc()[-2000:])
