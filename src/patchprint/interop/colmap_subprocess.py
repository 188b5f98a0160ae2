"""Run COLMAP's multi-threaded database writers in a child process.

Where one of its threads cannot write, as on a full disk, COLMAP aborts the process (SIGABRT). This file is the program, too.
"""

from __future__ import annotations

import dataclasses
import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from patchprint.interop.colmap_database import Cameras


def extract_features(
    database: Path,
    image_folder: str | Path,
    names: list[str] | None,
    cameras: Cameras,
    max_keypoints: int,
    max_image_size: int,
    threads: int = -1,
) -> None:
    """Detect and describe with COLMAP's SIFT, on the CPU, images that are in the database.

    Args:
        names: relative to ``image_folder``; all by default.
    """
    chosen: dict[str, Any] = {"image_folder": str(image_folder), "names": names or []}
    chosen |= {"cameras": dataclasses.asdict(cameras), "threads": threads}
    chosen |= {"max_keypoints": max_keypoints, "max_image_size": max_image_size}
    _run({"extract": chosen}, database)


def match(database: Path, function: str, pairing: dict[str, Any], seed: int) -> None:
    """Match and verify on the CPU.

    Args:
        function: ``match_exhaustive``, ``match_sequential`` or ``match_image_pairs``.
        pairing: fields of its pairing options.
    """
    _run({"match": {"function": function, "pairing": pairing, "seed": seed}}, database)


def _run(task: dict[str, Any], database: Path) -> None:
    """Run a task in a child process; raises RuntimeError with COLMAP's message where it failed."""
    program = [sys.executable, "-P", __file__]
    text = json.dumps({"database": str(database), **task})
    done = subprocess.run(program, input=text, text=True, errors="replace", stderr=subprocess.PIPE, check=False)
    if done.returncode:
        said = re.findall(r"(?:what\(\):|RuntimeError:) *(.+)", done.stderr) or done.stderr.strip().splitlines()
        how = signal.Signals(-done.returncode).name if done.returncode < 0 else f"code {done.returncode}"
        raise RuntimeError(said[-1].strip() if said else f"COLMAP ended with {how}")


def _main() -> None:
    import ctypes
    import zlib  # noqa: F401  (before pycolmap, see `interop.colmap_models`)

    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: end with the parent
    import pycolmap

    pycolmap.logging.minloglevel = 2
    task, cpu = json.load(sys.stdin), pycolmap.Device.cpu
    if "extract" in task:
        chosen = task["extract"]
        options = pycolmap.FeatureExtractionOptions(
            use_gpu=False, max_image_size=chosen["max_image_size"], num_threads=chosen["threads"]
        )
        options.sift.max_num_features = chosen["max_keypoints"]
        cameras = chosen["cameras"]
        mode = pycolmap.CameraMode.SINGLE if cameras["single_camera"] else pycolmap.CameraMode.AUTO
        reader = pycolmap.ImageReaderOptions(
            camera_model=cameras["camera_model"], camera_params=cameras["camera_params"]
        )
        pycolmap.extract_features(
            task["database"], chosen["image_folder"], chosen["names"], mode, reader, options, device=cpu
        )
    else:
        chosen = task["match"]
        verification = pycolmap.TwoViewGeometryOptions()
        verification.ransac.random_seed = chosen["seed"]
        kinds = {
            "match_exhaustive": pycolmap.ExhaustivePairingOptions,
            "match_sequential": pycolmap.SequentialPairingOptions,
            "match_image_pairs": pycolmap.ImportedPairingOptions,
        }
        pairing = kinds[chosen["function"]](**chosen["pairing"])
        getattr(pycolmap, chosen["function"])(
            task["database"], pairing_options=pairing, verification_options=verification, device=cpu
        )


if __name__ == "__main__":
    _main()
