"""Curves that tests pin, one small JSON file for each, and the command that writes them.

A curve only serves as a pin where every processor follows it. PyTorch and MKL can be told to compute as older processors
do, so the writer lets them, keeps how far the curve moves beside it, and refuses one that moves too far.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from support.checkout import ROOT

INSTRUCTION_SETS = {"DEFAULT": "SSE41", "AVX2": "AVX2", "AVX512": "ALL"}  # PyTorch's names, and oneDNN's

Series = dict[str, list[float]]


@dataclass(frozen=True)
class Tolerance:
    relative: float
    absolute: float

    def of(self, value: float) -> float:
        return max(self.relative * abs(value), self.absolute)


@dataclass(frozen=True)
class PinnedCurves:
    """The curves of ``names``, as ``compute`` gives them; ``allowed`` says how close each series of numbers must be.

    ``script`` is the file whose ``__main__`` calls ``write``.
    """

    script: Path
    folder: Path
    names: Collection[str]
    compute: Callable[[str], Series]
    allowed: dict[str, Tolerance]

    def check(self, name: str, computed: Series) -> None:
        """Fail where ``computed`` leaves the pinned curve, or where there is none yet."""
        if not self._file(name).exists():
            where, command = self._file(name).relative_to(ROOT), f"python {self.script.relative_to(ROOT)} {name}"
            pytest.fail(f"{where} is missing; `{command}` writes it", pytrace=False)
        pinned = json.loads(self._file(name).read_text())
        for series, allowed in self.allowed.items():
            for step, (value, expected) in enumerate(zip(computed[series], pinned[series], strict=True)):
                assert value == pytest.approx(expected, rel=0, abs=allowed.of(expected)), f"{series}[{step}] of {name}"

    def write(self) -> None:
        """Write the curves named on the command line, by default those that have no file."""
        parser = argparse.ArgumentParser(description=self.write.__doc__)
        parser.add_argument("names", nargs="*", help=f"of {', '.join(self.names)}")
        parser.add_argument("--print", action="store_true", help="compute them with this processor and print them")
        arguments = parser.parse_args()
        names = arguments.names or [name for name in self.names if not self._file(name).exists()]
        if unknown := set(names) - set(self.names):
            parser.error(f"there is no {', '.join(sorted(unknown))}")
        if arguments.print:
            print(json.dumps({name: self.compute(name) for name in names}))
            return
        own = {name: self.compute(name) for name in names}
        others = [self._computed_by(setting, names) for setting in _other_processors()] if names else []
        too_far = [name for name in names if not self._write(name, own[name], [other[name] for other in others])]
        if too_far:
            sys.exit(f"not written, since another processor would not follow: {', '.join(too_far)}")

    def _write(self, name: str, own: Series, others: list[Series]) -> bool:
        drift = {
            series: [_largest(v - o[series][i] for o in others) for i, v in enumerate(own[series])] for series in own
        }
        # Processors that we cannot imitate may move it some more.
        steady = all(
            moved <= self.allowed[series].of(value) / 5
            for series in own
            for moved, value in zip(drift[series], own[series], strict=True)
        )
        largest = {series: float(f"{max(values):.1g}") for series, values in drift.items()}
        print(name, "moves between instruction sets by at most", largest, flush=True)
        if steady:
            self.folder.mkdir(exist_ok=True)
            rounded = {series: [float(f"{value:.9g}") for value in values] for series, values in own.items()}
            self._file(name).write_text(json.dumps({**rounded, "drift": largest}, indent=1) + "\n")
        return steady

    def _computed_by(self, setting: dict[str, str], names: list[str]) -> dict[str, Series]:
        command = [sys.executable, str(self.script), "--print", *names]
        done = subprocess.run(command, env={**os.environ, **setting}, stdout=subprocess.PIPE, text=True, check=True)
        return json.loads(done.stdout.splitlines()[-1])

    def _file(self, name: str) -> Path:
        return self.folder / f"{name}.json"


def _other_processors() -> list[dict[str, str]]:
    """Environments that imitate them: all that are older than this one, and MKL as any vendor's runs it."""
    mine = torch.backends.cpu.get_cpu_capability()
    older = list(INSTRUCTION_SETS)[: list(INSTRUCTION_SETS).index(mine)] if mine in INSTRUCTION_SETS else []
    imitated = [{"ATEN_CPU_CAPABILITY": n.lower(), "ONEDNN_MAX_CPU_ISA": INSTRUCTION_SETS[n]} for n in older]
    return [{"MKL_CBWR": "COMPATIBLE"}, *imitated]


def _largest(differences: Iterator[float]) -> float:
    return max((abs(value) for value in differences), default=0.0)
