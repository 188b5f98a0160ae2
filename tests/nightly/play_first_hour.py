"""``make first-hour``: the first hour of a new user, with the wheel in a fresh virtual environment and an empty folder.

Builds the wheel, installs it with all extras, lays the desk, and plays the steps (hour.py), the wrong commands and the odd
images, each in a process of its own. Runs with the standard library alone. The log holds what every step printed.
"""

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
from functools import partial
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS))

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


class Player:
    """Runs commands at the desk, writes the log, and counts the problems."""

    def __init__(self, desk: Path, log: Path, bin_folder: Path) -> None:
        self.desk, self.bin, self.problems = desk, bin_folder, 0
        self.log = log.open("w", encoding="utf-8", errors="backslashreplace")
        self.environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}
        self.environment["PATCHPRINT_CACHE"] = str(desk.parent / "cache")

    def play(
        self, name: str, command: Sequence[str | Path], judge: Callable[[Ended], str], folder: Path | None = None
    ) -> None:
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
        seconds, problem = time.monotonic() - started, judge(Ended(done.returncode, done.stdout, done.stderr))
        said = f"{'PROBLEM' if problem else 'well':8} {seconds:7.1f} s  {name}{f': {problem}' if problem else ''}"
        self.log.write(f"\n$ {name}\n{done.stdout}{done.stderr}[exit code {done.returncode}]\n{said}\n")
        self.log.flush()
        print(said, flush=True)
        self.problems += bool(problem)

    def patchprint(self, arguments: Sequence[str], judge: Callable[[Ended], str], folder: Path | None = None) -> None:
        self.play(f"patchprint {' '.join(arguments)}", [self.bin / "patchprint", *arguments], judge, folder)


def install(player: Player, work: Path) -> None:
    """The wheel of this repository in a fresh environment, with what pip finds under the constraints."""
    limits = ["--quiet", "--constraint", ROOT / "constraints.txt"]
    pip = [player.bin / "python", "-m", "pip"]
    player.play("python -m venv venv", [sys.executable, "-m", "venv", player.bin.parent], _ends_well, work)
    player.play("pip install --upgrade pip", [*pip, "install", "--upgrade", "pip>=24", *limits], _ends_well, work)
    player.play("pip wheel", [*pip, "wheel", "--no-deps", "--wheel-dir", work, ROOT, *limits], _ends_well, work)
    wheels = [f"{wheel}[all]" for wheel in work.glob("*.whl")]
    player.play("pip install WHEEL[all]", [*pip, "install", *wheels, *limits], _ends_well, work)


def _ends_well(ended: Ended) -> str:
    return "" if ended.code == 0 else f"exit code {ended.code}"


def play_steps(player: Player) -> None:
    for step in STEPS:
        arguments = step.arguments(AMOUNTS)
        judge = partial(problem_of_step, step, AMOUNTS, player.desk)
        if step.client:
            command = [player.bin / "python", TESTS / "first_hour" / "clients.py", *arguments]
            player.play(arguments[0], command, judge)
        else:
            player.patchprint(arguments, judge)


def play_wrong_commands(player: Player) -> None:
    before = everything_below(player.desk)
    for line, words in wrong_commands().items():
        player.patchprint(shlex.split(line), partial(problem_of_wrong_command, words, player.desk, before))


def play_odd_images(player: Player, folder: Path) -> None:
    """Each image matched with itself, and all of them described at once."""
    player.play("odd images", [player.bin / "python", TESTS / "first_hour" / "odd_images.py", folder], _ends_well)
    flags = ["--model", "patchprint.tiny", "--max-keypoints", "200"]
    for name, outcome in json.loads((folder / "outcomes.json").read_text(encoding="utf-8")).items():
        pair = ["match", *flags, f"./{name}", f"./{name}"]
        player.patchprint(pair, partial(problem_of_odd_image, name, outcome), folder)
    player.patchprint(["describe", str(folder), "--out", "odd-features", *flags], _ends_well)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--images", type=Path, required=True, help="folder with about a dozen images of one place (.jpg)"
    )
    parser.add_argument("--hloc", type=Path, help="a copy of github.com/cvg/Hierarchical-Localization")
    parser.add_argument("--work", type=Path, help="folder that must not exist yet; default: a temporary one")
    chosen = parser.parse_args()
    photos = sorted(chosen.images.glob("*.jpg"))
    if len(photos) < 4:
        parser.error(f"{chosen.images} holds {len(photos)} images; make first-hour HOUR_IMAGES=FOLDER names others")
    work = chosen.work or Path(tempfile.mkdtemp(prefix="first-hour-"))
    work.mkdir(parents=True, exist_ok=True)
    work = work.resolve()
    desk = work / "desk"
    desk.mkdir()
    lay_the_desk(desk, photos)
    shutil.copy(ROOT / "README.md", desk)
    if chosen.hloc:
        shutil.copytree(chosen.hloc / "hloc", desk / "hloc")
    player = Player(desk, work / "log.txt", work / "venv" / "bin")
    install(player, work)
    play_steps(player)
    play_wrong_commands(player)
    play_odd_images(player, work / "odd")
    print(f"{player.problems} problems; log: {work / 'log.txt'}")
    return 1 if player.problems else 0


if __name__ == "__main__":
    sys.exit(main())
