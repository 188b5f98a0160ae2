"""Where the repository, its tests and the data beside it lie, and the environment of processes that tests start."""

import os
from pathlib import Path

import patchprint

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"
SHARED = ROOT.parent / "shared"


def environment(**more: str) -> dict[str, str]:
    """That of a process which imports what this one does: these helpers, and patchprint from the same place."""
    paths = [str(TESTS), str(Path(patchprint.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    path = os.pathsep.join(part for part in paths if part)
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path, **more}
