"""``make first-hour``: the first hour of a new user, with the wheel in a fresh virtual environment and an empty folder.

Builds the wheel, installs it with all extras, lays the desk, and plays the steps (hour.py), the wrong commands and the odd
pictures, each in a process of its own. Runs with the standard library alone. The log holds what every step printed; the summary
is a result file, recorded by the installed package.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS))

from first_hour.clients import NOT_THERE  # noqa: E402
from first_hour.hour import STEPS, Amounts, lay_the_desk  # noqa: E402
from first_hour.judging import (  # noqa: E402
    Ended,
    everything_below,
    problem_of_odd_image,
    problem_of_step,
    problem_of_wrong_command,
)
from first_hour.wrong_commands import wrong_commands  # noqa: E402

ROOT = TESTS.parent
AMOUNTS = Amounts(keypoints=2000, steps=30, batch=64)

_RECORD = """
import importlib.metadata, json, sys
from patchprint.common.files import write_json
from patchprint.common.provenance import record
told = json.load(sys.stdin)
names = ("torch", "numpy", "opencv-python-headless", "pycolmap", "h5py", "kornia", "onnxruntime", "tyro")
told["settings"]["installed"] = {name: importlib.metadata.version(name) for name in names}
write_json(sys.argv[1], record("first-hour", command="make first-hour", **told).to_json())
"""


@dataclass(frozen=True)
class Played:
    """What became of a step; ``problem`` is "" where all was as it should be."""

    step: str
    code: int
    seconds: float
    problem: str
    printed: str  # the last line


class Player:
    """Runs commands at the desk, writes the log, and keeps what became of them."""

    def __init__(self, desk: Path, log: Path, bin_folder: Path) -> None:
        self.desk, self.bin = desk, bin_folder
        self.log = log.open("w", encoding="utf-8", errors="backslashreplace")
        self.environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}
        self.environment["PATCHPRINT_CACHE"] = str(desk.parent / "cache")

    def play(
        self, name: str, command: Sequence[str | Path], judge: Callable[[Ended], str], folder: Path | None = None
    ) -> Played:
        started = time.monotonic()
        done = subprocess.run(
            [str(word) for word in command],
            cwd=folder or self.desk,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="backslashreplace",
            check=False,
        )
        seconds = round(time.monotonic() - started, 1)
        problem = judge(Ended(done.returncode, done.stdout, done.stderr))
        lines = (done.stdout or done.stderr).strip().splitlines() or [""]
        self.log.write(f"\n$ {name}\n{done.stdout}{done.stderr}[exit code {done.returncode}, {seconds} s]\n")
        self.log.write(f"PROBLEM: {problem}\n" if problem else "")
        self.log.flush()
        print(
            f"{'PROBLEM' if problem else 'well':8} {seconds:7.1f} s  {name}{f': {problem}' if problem else ''}",
            flush=True,
        )
        return Played(name, done.returncode, seconds, problem, lines[-1][:200])

    def patchprint(self, arguments: Sequence[str], judge: Callable[[Ended], str], folder: Path | None = None) -> Played:
        return self.play(f"patchprint {' '.join(arguments)}", [self.bin / "patchprint", *arguments], judge, folder)


def install(player: Player, work: Path) -> list[Played]:
    """The wheel of this repository in a fresh environment, with what pip finds under the constraints."""
    limits = ["--quiet", "--constraint", ROOT / "constraints.txt"]
    pip = [player.bin / "python", "-m", "pip"]
    played = [
        player.play("python -m venv venv", [sys.executable, "-m", "venv", player.bin.parent], _ends_well, work),
        player.play("pip install --upgrade pip", [*pip, "install", "--upgrade", "pip>=24", *limits], _ends_well, work),
        player.play("pip wheel", [*pip, "wheel", "--no-deps", "--wheel-dir", work, ROOT, *limits], _ends_well, work),
    ]
    wheels = [f"{wheel}[all]" for wheel in work.glob("*.whl")]
    return [*played, player.play("pip install WHEEL[all]", [*pip, "install", *wheels, *limits], _ends_well, work)]


def _ends_well(ended: Ended) -> str:
    return "" if ended.code == 0 else f"exit code {ended.code}"


def play_steps(player: Player) -> list[Played]:
    played = []
    for step in STEPS:
        arguments = step.arguments(AMOUNTS)
        judge = partial(problem_of_step, step, AMOUNTS, player.desk)
        if step.client:
            command = [player.bin / "python", TESTS / "first_hour" / "clients.py", *arguments]
            played.append(player.play(arguments[0], command, judge))
        else:
            played.append(player.patchprint(arguments, judge))
    return played


def play_wrong_commands(player: Player) -> list[Played]:
    before = everything_below(player.desk)
    return [
        player.patchprint(shlex.split(line), partial(problem_of_wrong_command, words, player.desk, before))
        for line, words in wrong_commands().items()
    ]


def play_odd_images(player: Player, folder: Path) -> list[Played]:
    """Each picture matched with itself, and all of them described at once."""
    player.play("odd images", [player.bin / "python", TESTS / "first_hour" / "odd_images.py", folder], _ends_well)
    outcomes = json.loads((folder / "outcomes.json").read_text(encoding="utf-8"))
    flags = ["--model", "hardnet.small", "--max-keypoints", "200"]
    played = [
        player.patchprint(
            ["match", *flags, f"./{name}", f"./{name}"], partial(problem_of_odd_image, name, outcome), folder
        )
        for name, outcome in outcomes.items()
    ]
    return [*played, player.patchprint(["describe", str(folder), "--out", "odd-features", *flags], _ends_well)]


def record(player: Player, groups: dict[str, list[Played]], photos: Path, started: float, out: Path) -> None:
    played = [each for group in groups.values() for each in group]
    told = {
        "settings": {**asdict(AMOUNTS), "photos": photos.parent.name},
        "scores": {
            "played": {name: len(group) for name, group in groups.items()},
            "not_there": [each.step for each in played if each.code == NOT_THERE],
            "problems": {each.step: each.problem for each in played if each.problem},
            "steps": [asdict(each) for each in [*groups["install"], *groups["steps"]]],
            "wrong_commands": {each.step: each.printed for each in groups["wrong commands"]},
            "odd_images": {each.step: each.printed for each in groups["odd images"]},
        },
        "data": {"path": photos.name},
        "started": started,
    }
    command = [str(player.bin / "python"), "-c", _RECORD, str(out.resolve())]
    subprocess.run(command, input=json.dumps(told), text=True, cwd=player.desk, env=player.environment, check=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--images", type=Path, required=True, help="folder with about a dozen images of one place (.jpg)"
    )
    parser.add_argument("--hloc", type=Path, help="a copy of github.com/cvg/Hierarchical-Localization")
    parser.add_argument("--work", type=Path, help="folder that must not exist yet; default: a temporary one")
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "first-hour.json")
    chosen = parser.parse_args()
    photos = sorted(chosen.images.glob("*.jpg"))
    if len(photos) < 4:
        parser.error(f"{chosen.images} holds {len(photos)} images; make first-hour HOUR_IMAGES=FOLDER names others")
    started = time.monotonic()
    work = chosen.work or Path(tempfile.mkdtemp(prefix="first-hour-"))
    work.mkdir(parents=True, exist_ok=True)
    work = work.resolve()
    desk = work / "desk"
    desk.mkdir()
    lay_the_desk(desk, photos)
    shutil.copy(ROOT / "README.md", desk)
    shutil.copytree(ROOT / "examples" / "cpp", desk / "cpp")
    if chosen.hloc:
        shutil.copytree(chosen.hloc / "hloc", desk / "hloc")
    player = Player(desk, work / "log.txt", work / "venv" / "bin")
    groups = {
        "install": install(player, work),
        "steps": play_steps(player),
        "wrong commands": play_wrong_commands(player),
        "odd images": play_odd_images(player, work / "odd"),
    }
    record(player, groups, chosen.images, started, chosen.out)
    problems = [each for group in groups.values() for each in group if each.problem]
    print(f"{len(problems)} problems; log: {work / 'log.txt'}; summary: {chosen.out}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
