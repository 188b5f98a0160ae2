"""Tests of GPU kernels: in a process of their own, on the GPU, or by Triton's interpreter where there is none."""

from __future__ import annotations

import os
import subprocess
import sys

import torch


def run(code: str) -> None:
    """Run ``code``, in which ``device`` is where kernels run."""
    environment = {**os.environ} if torch.cuda.is_available() else {**os.environ, "TRITON_INTERPRET": "1"}
    begin = (
        "import torch\ndevice = torch.device('cuda' if torch.cuda.is_available() else 'cpu')\ntorch.manual_seed(0)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", begin + code], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
