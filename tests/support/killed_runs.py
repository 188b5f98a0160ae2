"""Run by test_resume in a process of its own: kills a training ten times and resumes it each time.

Every training is a fork of this process, so that importing torch is paid once. It kills itself when it is about to touch a
file, each time at another point between two checkpoints: however busy the machine is, the kills come at the same places,
and one that came between two of them would leave the same files. Prints as JSON from which step each start went on.
"""

import json
import shutil
import sys
from pathlib import Path

import torch
import torch._dynamo  # the first optimizer of a process imports it, which would take a second of every child

from patchprint.training import checkpoint
from patchprint.training.run_folder import read_metrics
from support import children, training_data


def start(folder, source, survived=None):
    """Train in a child process, going on from a checkpoint where there is one; returns how the child ended.

    It dies ``survived`` file operations after it begins to put its first checkpoint in place.
    """
    resume = any((folder / "checkpoints").glob("step-*"))
    if not resume:
        shutil.rmtree(folder, ignore_errors=True)
    changes = {"checkpoint_every": 2, "validate_every": 6, "average": 0.9, "resume": resume}

    def train():
        training_data.short_run("sdgmnet", folder, source, **changes)

    ended = children.run(train) if survived is None else children.kill_when(_after_checkpoint(folder, survived), train)
    return ended.how


def _after_checkpoint(folder, survived):
    """Whether an audit event, which Python raises before it opens, renames or removes a file, is the last to survive."""
    left = None

    def condition(event, arguments):
        nonlocal left
        if event not in ("open", "os.rename", "os.remove") or not str(arguments[0]).startswith(str(folder)):
            return False
        if left is None and event == "os.rename" and Path(arguments[1]).match("checkpoints/step-*"):
            left = survived
        if left is not None:
            left -= 1
        return left == -1

    return condition


def main(folder):
    torch.set_num_threads(1)
    source, killed, resumed_from = training_data.images(), folder / "killed", []
    assert start(folder / "undisturbed", source) == "done"
    for survived in (*range(18, -1, -2), None):
        step, before = _progress(killed)
        status = start(killed, source, survived)
        assert status == ("done" if survived is None else "killed")
        # Lines say how fast a step was, so that they would differ if steps before the checkpoint were done again.
        assert _progress(killed)[1][: len(before)] == before
        resumed_from.append(step)
    print(json.dumps(resumed_from))


def _progress(folder):
    """The step of the newest checkpoint, and the lines of metrics up to it."""
    if not folder.exists():
        return 0, []
    step = int(checkpoint.latest(folder / "checkpoints").stem.removeprefix("step-"))
    return step, [line for line in read_metrics(folder / "metrics.jsonl") if line["step"] <= step]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
