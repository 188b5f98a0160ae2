"""Training runs as a page reads them from their folders."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from patchprint.common.errors import UserError
from patchprint.common.safe_io import read_json
from patchprint.training.run_folder import read_lines, read_metrics


@dataclass(frozen=True)
class Run:
    """A training run: settings, lines of metrics.jsonl, and the cost of each call (calls.jsonl)."""

    folder: Path
    config: dict[str, Any]
    metrics: list[dict[str, Any]]
    calls: list[dict[str, Any]]
    label: str = ""

    def curve(self, name: str) -> tuple[list[int], list[float]]:
        """Return steps and values of a metric."""
        lines = [line for line in self.metrics if name in line]
        return [line["step"] for line in lines], [line[name] for line in lines]

    @property
    def steps(self) -> int:
        return self.metrics[-1]["step"] if self.metrics else 0


def read_run(folder: Path) -> Run:
    """Read a folder of ``patchprint train``."""
    path = folder / "metrics.jsonl"
    if not path.is_file():
        raise UserError(f"{folder} is not a training run: it has no metrics.jsonl")
    config, calls = folder / "config.json", folder / "calls.jsonl"
    settings = read_json(config, "the settings of a run") if config.is_file() else {}
    spent = read_lines(calls, "the calls of a run") if calls.is_file() else []
    return Run(folder, settings, read_metrics(path), spent, folder.resolve().name)


def read_runs(folders: Sequence[Path]) -> list[Run]:
    """Read several runs; runs whose folders share a name are labeled by their path."""
    runs = [read_run(folder) for folder in folders]
    count = Counter(run.label for run in runs)
    return [run if count[run.label] == 1 else replace(run, label=str(run.folder)) for run in runs]
