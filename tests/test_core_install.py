"""The command line where only the core packages are installed: it works, or one sentence says what to install (M9).

Optional packages are hidden from a process of its own, as if they were not installed.
"""

import json
import os
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import cv2
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import patchprint
from patchprint import cli
from patchprint.benchmarks import BENCHMARKS
from patchprint.data.builders import BUILDERS
from support.distributions import CORE, installed_for, modules_of
from support.known_images import texture

_CHILD = """
import contextlib, io, json, sys
hidden, commands = json.load(sys.stdin)
for name in hidden:
    sys.modules[name] = None
from patchprint import cli
answers = []
for command in commands:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = cli.main(command)
    answers.append([code, out.getvalue(), err.getvalue()])
json.dump(answers, sys.stdout)
"""
_INSTALL = re.compile(r"patchprint: this needs the package '[\w.]+': pip install 'patchprint\[[\w-]+\]'\n")


def run_with_only(kept: list[Requirement], commands: list[list[str]], folder: Path) -> list[tuple[int, str, str]]:
    """Exit code, stdout and stderr of each command, in one process that sees only ``kept`` and what those need."""
    visible = modules_of(installed_for(kept) | {"patchprint"})
    everything = modules_of(canonicalize_name(each.name) for each in metadata.distributions())
    hidden = sorted(name for name in everything - visible if not name.startswith("_"))
    assert {"cv2", "matplotlib", "pycolmap", "kornia"} <= set(hidden) and "torch" not in hidden
    done = subprocess.run(
        [sys.executable, "-c", _CHILD],
        input=json.dumps([hidden, commands]), capture_output=True, text=True, timeout=300, cwd=folder,
        env={**os.environ, "PYTHONPATH": str(Path(patchprint.__file__).resolve().parents[1])},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [tuple(answer) for answer in json.loads(done.stdout)]


def test_core_alone(tmp_path: Path) -> None:
    subcommands = [[name, *flags] for name in cli.SUBCOMMANDS for flags in ([], ["--help"], ["anything"])]
    general = [[], ["--help"], ["--version"]]
    answers = run_with_only(CORE, [*general, *subcommands], tmp_path)
    for (code, out, err), expected in zip(answers, [2, 0, 0], strict=False):
        assert code == expected and "patchprint" in out and not err
    for command, (code, out, err) in zip(subcommands, answers[len(general) :], strict=True):
        assert (code, out) == (2, "") and err == (
            "patchprint: this needs the package 'tyro': pip install 'patchprint[images]'\n"
        ), command


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    (tmp_path / "photos").mkdir()
    for name in ("photos/a.png", "photos/b.png"):
        cv2.imwrite(str(tmp_path / name), texture(120, 160, seed=len(name)))
    return tmp_path


def test_core_and_the_reader_of_flags(desk: Path) -> None:
    """With tyro, which reads the flags, every subcommand gets as far as the package that it cannot do without."""
    lines = [
        "models",
        "data download",
        "data info photos",
        *(f"data build {kind} photos out-{kind}" for kind in BUILDERS),
        "train hardnet --data photos --out run",
        "train --resume --out run",
        "calibrate patchprint.tiny --data photos",
        "adapt photos --out adapted.safetensors",
        *(f"eval {name} --data photos --model sift" for name in BENCHMARKS),
        "study simclr --out study",
        "describe photos --out features",
        "match photos/a.png photos/b.png",
        "sfm photos --out model",
        "localize photos/a.png model",
        "export patchprint.tiny --out network.onnx",
        "bench --data photos --out bench.json",
        "report photos --out report.html",
        "serve --port 0",
    ]
    commands = [line.split() for line in lines]
    assert {command[0] for command in commands} == set(cli.SUBCOMMANDS)
    answers = run_with_only([*CORE, Requirement("tyro")], commands, desk)
    told = 0
    for line, (code, _, err) in zip(lines, answers, strict=True):
        assert code in (0, 2), (line, err)
        assert code == 0 or (err.count("\n") == 1 and err.startswith("patchprint: ")), (line, err)
        told += bool(_INSTALL.fullmatch(err))
    assert told > 10
    assert [answers[lines.index(line)][0] for line in ("models", "data download")] == [0, 0]
