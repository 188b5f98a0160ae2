"""Kernels compiled for GPUs that are not here: what Triton's interpreter would not notice, such as too much shared memory."""

import os
import subprocess
import sys
from collections.abc import Iterable

# Compute capability, and bytes of shared memory that a program may have: least and most of the GPUs in use.
GPUS = {"T4": (75, 65_536), "RTX 4090": (89, 101_376), "H200": (90, 232_448)}
_BEGIN = """
import sys
import torch, triton
from triton.backends.compiler import GPUTarget
from triton.runtime.jit import JITFunction

capability, memory = map(int, sys.argv[1:])

class Driver:
    def get_current_target(self):
        return GPUTarget("cuda", capability, 32)
    def get_current_device(self):
        return 0
    def get_current_stream(self, device=None):
        return 0

def compile_only(self, *arguments, grid, warmup, _run=JITFunction.run, **options):
    compiled = _run(self, *arguments, grid=grid, warmup=True, **options)
    name = self.fn.__name__
    assert compiled.metadata.shared <= memory, f"{name} takes {compiled.metadata.shared} bytes of shared memory of {memory}"
    # On an H200 the masks of such a kernel were wrong: ptxas of Triton 3.7.
    is_in_pairs = "s16x2" in compiled.asm["ptx"]
    assert name != "_convolution_kernel" or not is_in_pairs, "numbers of 16 bits are added in pairs"
    compiled_names.add(name)
    return compiled

triton.runtime.driver.set_active(Driver())
JITFunction.run = compile_only
compiled_names = set()
"""
_END = "\nprint(*compiled_names)\ncompiled_names.clear()\n"


def compile_kernels(codes: Iterable[str], gpu: str, cache: str) -> list[set[str]]:
    """Run ``codes``, whose launches of kernels compile them and compute nothing, for a GPU of `GPUS`; returns their names."""
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    arguments = [str(number) for number in GPUS[gpu]]
    done = subprocess.run(
        [sys.executable, "-c", "".join([_BEGIN, *(code + _END for code in codes)]), *arguments],
        env={**environment, "TRITON_CACHE_DIR": cache},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return [set(line.split()) for line in done.stdout.splitlines()]
