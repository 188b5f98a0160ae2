"""Run COLMAP's multi-threaded database writers in a child process.

Where one of its threads cannot write, as on a full disk, COLMAP aborts the process (SIGABRT). This file is the program, too.
"""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any


def run(task: str, database: Path, **arguments: Any) -> None:
    """Run a task of `_TASKS` in a child process; raises RuntimeError with COLMAP's message where it failed."""
    program = [sys.executable, "-P", __file__]
    text = json.dumps([task, {"database": str(database), **arguments}])
    done = subprocess.run(program, input=text, text=True, errors="replace", stderr=subprocess.PIPE, check=False)
    if done.returncode:
        said = re.findall(r"(?:what\(\):|RuntimeError:) *(.+)", done.stderr) or done.stderr.strip().splitlines()
        how = signal.Signals(-done.returncode).name if done.returncode < 0 else f"code {done.returncode}"
        raise RuntimeError(said[-1].strip() if said else f"COLMAP ended with {how}")


def _extract(
    pycolmap: Any,
    database: str,
    image_folder: str,
    names: list[str],
    cameras: dict[str, Any],
    max_keypoints: int,
    max_image_size: int,
    threads: int,
) -> None:
    """Detect and describe images of the database with COLMAP's SIFT; no ``names``: all; ``cameras``: fields of `Cameras`."""
    options = pycolmap.FeatureExtractionOptions(use_gpu=False, max_image_size=max_image_size, num_threads=threads)
    options.sift.max_num_features = max_keypoints
    mode = pycolmap.CameraMode.SINGLE if cameras.pop("single_camera") else pycolmap.CameraMode.AUTO
    reader = pycolmap.ImageReaderOptions(**cameras)
    pycolmap.extract_features(database, image_folder, names, mode, reader, options, device=pycolmap.Device.cpu)


def _match(pycolmap: Any, database: str, function: str, pairing: dict[str, Any], seed: int) -> None:
    """Match and verify by ``match_exhaustive`` and the like, with the fields of its pairing options."""
    verification = pycolmap.TwoViewGeometryOptions()
    verification.ransac.random_seed = seed
    kinds = {
        "match_exhaustive": pycolmap.ExhaustivePairingOptions,
        "match_sequential": pycolmap.SequentialPairingOptions,
        "match_image_pairs": pycolmap.ImportedPairingOptions,
    }
    options = {"pairing_options": kinds[function](**pairing), "verification_options": verification}
    getattr(pycolmap, function)(database, **options, device=pycolmap.Device.cpu)


_TASKS: dict[str, Any] = {"extract": _extract, "match": _match}


def _main() -> None:
    import ctypes
    import zlib  # noqa: F401  (before pycolmap, see `interop.colmap_models`)

    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: end with the parent
    else:
        threading.Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()
    import pycolmap

    pycolmap.logging.minloglevel = 2
    task, arguments = json.load(sys.stdin)
    _TASKS[task](pycolmap, **arguments)


def _end_with_parent(parent: int) -> None:
    """End where the system sends no signal for it; on Windows a child keeps its parent's number, and lives on."""
    while os.getppid() == parent:
        time.sleep(0.2)
    os._exit(1)


if __name__ == "__main__":
    _main()
