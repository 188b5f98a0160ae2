"""Run by test_resume in a process of its own: kills a training ten times, at random moments, and resumes it each time.

Every training is a fork of this process, so that importing torch is paid once. Prints how many kills hit a running one.
"""

import os
import random
import shutil
import signal
import sys
import time
from pathlib import Path

import torch

from support import training_data


def start(folder, source):
    """Train in a child process, going on from a checkpoint where there is one; returns the child's id."""
    resume = any((folder / "checkpoints").glob("step-*"))
    if not resume:
        shutil.rmtree(folder, ignore_errors=True)
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        changes = {"checkpoint_every": 2, "validate_every": 6, "average": 0.9}
        training_data.short_run("sdgmnet", folder, source, resume=resume, **changes)
        code = 0
    finally:
        os._exit(code)


def main(folder):
    torch.set_num_threads(1)
    source = training_data.images()
    begun = time.monotonic()
    assert os.waitpid(start(folder / "undisturbed", source), 0)[1] == 0
    whole = time.monotonic() - begun
    moments, kills = random.Random(7), 0
    for _ in range(10):
        child = start(folder / "killed", source)
        # Short enough that ten of them, each losing up to two steps, do not reach the end.
        time.sleep(moments.uniform(0.02, 0.2) * whole)
        os.kill(child, signal.SIGKILL)
        kills += os.WIFSIGNALED(os.waitpid(child, 0)[1])
    assert os.waitpid(start(folder / "killed", source), 0)[1] == 0
    print(kills)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
