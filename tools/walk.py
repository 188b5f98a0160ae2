"""Trace how much of patchprint one command runs through: files, packages, functions, depth, and modules imported for nothing.

    python -m tools.walk                        # all walks of this tree, as a table
    python -m tools.walk --tree OTHER/src match # one walk of another commit
    python -m tools.walk --write HEAD           # also stored in results/walk.json under this name

Every walk is one command line in a process of its own, on inputs that are rendered here: two images of 200x180 pixels for
``match`` and ``eval-oxford``, four of 480x320 for ``train`` (4 steps of 16 points) and ``sfm``. A function counts when it is
called after the modules were imported; a file or package counts when one of its functions does; depth is the largest number of
its functions on the stack at once. All runs in one thread, so that the stack is whole. Child processes are not traced.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "results" / "walk.json"
COLUMNS = ("files", "packages", "functions", "depth", "idle modules", "changes of file")
# What prepares the input of a walk, and what is traced. Of several spellings, the first that the tree knows is used.
PREPARE = {
    "train": [["data", "build", "homographies", "four", *out] for out in (("--out", "store"), ("store",))],
}
WALKS = {
    "match": ["match", "two/1.png", "two/2.png", "--out", "m.png"],
    "eval-oxford": ["eval", "oxford", "--model", "patchprint", "--data", "oxford", "--out", "results", "--no-cache"],
    "train": ["train", "sdgmnet", "--data", "store", "--out", "run", "--steps", "4", "--batch", "16"],
    "sfm": ["sfm", "four", "--out", "model"],
}


class Tracer:
    """Notes the functions below ``package`` that are called while no module is being imported."""

    def __init__(self, package: Path) -> None:
        self.prefix = f"{package}{os.sep}"
        self.functions: set[tuple[str, str]] = set()
        self.depth = self.changes = 0

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        if event != "call" or not self._counts(frame):
            return
        depth, caller, outer = 1, None, frame.f_back
        while outer is not None:
            if outer.f_code.co_name == "_find_and_load":  # of importlib: this call makes a module
                return
            if self._counts(outer):
                caller, depth = caller or outer.f_code.co_filename, depth + 1
            outer = outer.f_back
        self.functions.add((frame.f_code.co_filename, frame.f_code.co_qualname))
        self.depth = max(self.depth, depth)
        self.changes += caller is not None and caller != frame.f_code.co_filename

    def _counts(self, frame: FrameType) -> bool:
        return frame.f_code.co_filename.startswith(self.prefix) and frame.f_code.co_name != "<module>"

    def summary(self) -> dict[str, Any]:
        files = {file.removeprefix(self.prefix) for file, _ in self.functions}
        imported = {
            str(module.__file__).removeprefix(self.prefix)
            for module in list(sys.modules.values())
            if str(getattr(module, "__file__", None)).startswith(self.prefix)
        }
        return {
            "files": len(files),
            "packages": len({package_of(file) for file in files}),
            "functions": len(self.functions),
            "depth": self.depth,
            "idle modules": len(imported - files),
            "changes of file": self.changes,
            "files run": sorted(files),
            "imported and idle": sorted(imported - files),
        }


def package_of(file: str) -> str:
    """The package or module at the top level that a file belongs to."""
    return Path(file).parts[0].removesuffix(".py")


def trace(tree: Path, arguments: list[str], out: Path) -> int:
    """Run one command line of the patchprint in ``tree`` and write what was called; in the process that is traced."""
    sys.path.insert(0, str(tree))
    tracer = Tracer(tree / "patchprint")
    threading.setprofile(tracer)
    sys.setprofile(tracer)
    try:
        from patchprint.cli import main

        code = main(arguments)
    finally:
        sys.setprofile(None)
    out.write_text(json.dumps({"exit code": code, **tracer.summary()}))
    return code


def walk(tree: Path, name: str, folder: Path) -> dict[str, Any]:
    """What one walk of ``tree`` runs through, in a folder with the inputs."""
    for arguments in PREPARE.get(name, []):
        if _run([sys.executable, "-m", "patchprint", *arguments], tree, folder).returncode == 0:
            break
    out = folder / f"{name}.json"
    done = _run([sys.executable, __file__, "--tree", str(tree), "--trace", str(out), *WALKS[name]], tree, folder)
    if done.returncode != 0:
        raise SystemExit(f"patchprint {' '.join(WALKS[name])} failed:\n{done.stderr}")
    found: dict[str, Any] = json.loads(out.read_text())
    return found


def _run(command: list[str], tree: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    own = {"PYTHONPATH": str(tree), "PATCHPRINT_CACHE": str(folder / "cache")}
    environment = {**os.environ, **own, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def render(folder: Path) -> None:
    """Write the inputs: two views of a plane, the same with its homography as Oxford has it, four images of a corner."""
    import cv2
    import numpy as np

    def write(path: Path, image: Any) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        cv2.imwrite(str(path), image)

    def texture(height: int, width: int, seed: int) -> Any:
        generator, total = np.random.default_rng(seed), np.zeros((height, width))
        for side in (3, 6, 12, 24):
            noise = generator.random((height // side + 2, width // side + 2))
            total += side**0.5 * cv2.resize(noise, (width, height), interpolation=cv2.INTER_CUBIC)
        return (255 * (total - total.min()) / np.ptp(total)).astype(np.uint8)

    plane, turn = texture(180, 200, 0), np.array([[0.95, 0.12, 8.0], [-0.1, 0.97, 14.0], [1e-4, -5e-5, 1.0]])
    turned = cv2.warpPerspective(plane, turn, (200, 180), flags=cv2.INTER_CUBIC)
    for number, image in enumerate((plane, turned), 1):
        write(folder / "two" / f"{number}.png", image)
        write(folder / "oxford" / "made" / f"img{number}.png", image)
    np.savetxt(folder / "oxford" / "made" / "H1to2p", turn)

    height, width, focal = 320, 480, 430.0
    intrinsics = np.array([[focal, 0, (width - 1) / 2], [0, focal, (height - 1) / 2], [0, 0, 1]])
    walls = [texture(1000, 1000, seed) for seed in (1, 2)]
    pixels = np.stack(np.meshgrid(np.arange(width), np.arange(height), indexing="xy"), -1)
    rays = np.concatenate([pixels, np.ones((height, width, 1))], -1) @ np.linalg.inv(intrinsics).T
    for view in range(4):
        rotation = cv2.Rodrigues(np.array([0.01 * view, -0.05 * (view - 1.5), 0.02 * view]))[0]
        center = np.array([0.35 * (view - 1.5), 0.1 * (view % 2), 0.05 * view])
        directions, seen = rays @ rotation.T, []
        for side, wall in zip((-1, 1), walls, strict=True):  # the plane z = 5 - side * x / 2
            reach = (5 - center[2] - side * center[0] / 2) / (directions[..., 2] + side * directions[..., 0] / 2)
            places = ((center + reach[..., None] * directions)[..., :2] * 90 + 500).astype(np.float32)
            color = cv2.remap(wall, places[..., 0], places[..., 1], cv2.INTER_CUBIC, borderMode=cv2.BORDER_REFLECT)
            seen.append((reach, color))
        (near, first), (far, second) = seen
        write(folder / "four" / f"{view}.png", np.where(near < far, first, second))


def main() -> None:
    parser = argparse.ArgumentParser(description="Trace how much of patchprint one command runs through.")
    parser.add_argument("walks", nargs="*", help=f"of {', '.join(WALKS)}; default: all")
    parser.add_argument("--tree", type=Path, default=ROOT / "src", help="the src folder of a commit")
    parser.add_argument("--write", metavar="NAME", help=f"store the numbers in {RESULTS.name} under this name")
    parser.add_argument("--files", action="store_true", help="list the files too")
    arguments = parser.parse_args()
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        render(Path(folder))
        for name in arguments.walks or WALKS:
            found[name] = walk(arguments.tree.resolve(), name, Path(folder))
            print(f"{name}: " + ", ".join(f"{found[name][column]} {column}" for column in COLUMNS))
            if arguments.files:
                print(json.dumps({part: found[name][part] for part in ("files run", "imported and idle")}, indent=1))
    if arguments.write:
        known = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
        numbers = {name: {column: of[column] for column in COLUMNS} for name, of in found.items()}
        known.setdefault(arguments.write, {}).update(numbers)
        RESULTS.write_text(json.dumps(known, indent=1) + "\n")


if __name__ == "__main__":
    if "--trace" in sys.argv:  # the rest of the line is the command, whose flags are not ours
        _, _, _tree, _, _out, *_command = sys.argv
        sys.exit(trace(Path(_tree), _command, Path(_out)))
    main()
