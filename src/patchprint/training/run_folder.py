"""What a run leaves behind: config.json, metrics.jsonl, TensorBoard events, checkpoints, best and last weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from patchprint import files
from patchprint.errors import UserError
from patchprint.reading import parsing
from patchprint.training.config import TrainConfig

MADE_BY = "patchprint train"
CONTENTS = (
    "config.json",
    "metrics.jsonl",
    "best.safetensors",
    "best-*.safetensors",
    "last.safetensors",
    "events.out.tfevents.*",
    "checkpoints/step-*.safetensors",
)


class RunFolder:
    """Files of one run. Only rank 0 has one that writes."""

    def __init__(self, path: str | Path, config: TrainConfig, resume: bool, force: bool = False) -> None:
        self.path = Path(path)
        self.checkpoints = self.path / "checkpoints"
        self.metrics = self.path / "metrics.jsonl"
        if resume:
            # Its checkpoint says that it is a run of ours; those of older versions carry no marker.
            files.mark_folder(self.path, MADE_BY, CONTENTS)
        elif not force and self.path.exists() and any(self.path.iterdir()):
            raise UserError(
                f"{self.path} holds files already; give another --out, --resume to go on with that run, "
                "or --force to replace it"
            )
        else:
            files.claim_folder(self.path, MADE_BY, CONTENTS, force=force)
        self.checkpoints.mkdir(parents=True, exist_ok=True)
        files.write_json(self.path / "config.json", config.to_json())
        self._events: Any = None
        self._wants_events = config.tensorboard

    def forget_after(self, step: int) -> None:
        """Drop the lines of steps that a resumed run will do again."""
        if self.metrics.exists():
            lines = self.metrics.read_text(encoding="utf-8").splitlines()
            kept = [line for line in lines if (number := _step_of(line)) is not None and number <= step]
            files.write_text(self.metrics, "".join(f"{line}\n" for line in kept))

    def log(self, step: int, values: dict[str, float]) -> None:
        """Append one line of metrics; the line is on its way to the disk when this returns."""
        with open(self.metrics, "a", encoding="utf-8") as stream:
            stream.write(json.dumps({"step": step, **values}) + "\n")
        events = self._open_events()
        if events is not None:
            for name, value in values.items():
                events.add_scalar(name, value, step)

    def close(self) -> None:
        if self._events is not None:
            self._events.close()

    def _open_events(self) -> Any:
        """A TensorBoard writer, where the package is installed."""
        if self._events is None and self._wants_events:
            try:
                from torch.utils.tensorboard import SummaryWriter
            except ImportError:
                self._wants_events = False
            else:
                self._events = SummaryWriter(str(self.path))
        return self._events


def read_metrics(path: str | Path) -> list[dict[str, Any]]:
    """The lines of a metrics.jsonl; a last line that a crash cut short is left out."""
    with parsing(path, "the metrics of a run"):
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    read = [json.loads(line) for line in lines if _step_of(line) is not None]
    return [{name: value for name, value in line.items() if isinstance(value, int | float)} for line in read]


def _step_of(line: str) -> int | None:
    try:
        step = json.loads(line)["step"]
        return step if isinstance(step, int) else None
    except (ValueError, KeyError, TypeError, IndexError, RecursionError):
        return None
