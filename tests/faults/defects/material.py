"""What the cases are made of: weights that say something else, and kills at chosen moments."""

from __future__ import annotations

import json
from pathlib import Path

from patchprint.networks import weights

SMALL = "--model pixels --max-keypoints 50"


def snapshot(folder: Path) -> dict[str, bytes]:
    """All files of a folder, by name."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def forged_weights(out: Path, **changes: object) -> None:
    """Shipped weights that say something else about themselves; their checksum is right."""
    data = (weights.WEIGHTS_FOLDER / "hardnet.small.safetensors").read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    header["__metadata__"] |= {name: json.dumps(value) for name, value in changes.items()}
    text = json.dumps(header).encode()
    out.write_bytes(len(text).to_bytes(8, "little") + text + data[8 + length :])


def killed_when(condition: str) -> str:
    """A program after which the process is killed when an audit event, with its arguments, meets a condition.

    ``seen`` is a list for conditions that remember something.
    """
    return f"""
import os, signal, sys

def hook(event, arguments, seen=[]):
    if {condition}:
        os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(hook)
"""


def killed_after_file(name: str) -> str:
    """Killed at the first new file after the one of this name got it."""
    remember = f"event == 'os.rename' and str(arguments[1]).endswith({name!r}) and seen.append(event)"
    return killed_when(f"(seen and event == 'tempfile.mkstemp') or ({remember})")
