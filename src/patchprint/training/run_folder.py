"""Files of a run: config, metrics, TensorBoard events, checkpoints, weights; calls.jsonl has a line for each call of `train`.

`diagnostics` fills angles.jsonl.
"""

import contextlib
import importlib.util
import json
import os
import time
from pathlib import Path
from typing import Any

from patchprint.common import files
from patchprint.common.errors import UserError, parsing
from patchprint.training.config import TrainConfig

MADE_BY = "patchprint train"
CONTENTS = (
    "config.json", "metrics.jsonl", "angles.jsonl", "calls.jsonl", "patches.npz", "hardest.npz", "report.html",
    "best.safetensors", "best-*.safetensors", "last.safetensors", "events.out.tfevents.*", "checkpoints/step-*.safetensors",
)  # fmt: skip


class RunFolder:
    """Files of one run, written by rank 0."""

    def __init__(self, path: str | Path, config: TrainConfig, resume: bool, force: bool = False) -> None:
        self.path = Path(path)
        self.checkpoints = self.path / "checkpoints"
        if resume:
            # Its checkpoint says that it is a run of ours; those of older versions carry no marker.
            files.mark_folder(self.path, MADE_BY, CONTENTS)
        elif not force and self.path.exists() and any(self.path.iterdir()):
            raise UserError(f"{self.path} holds files already; give another --out, --resume, or --force to replace it")
        else:
            files.claim_folder(self.path, MADE_BY, CONTENTS, force=force)
        self.checkpoints.mkdir(parents=True, exist_ok=True)
        files.write_json(self.path / "config.json", config.to_json())
        self._events: Path | None = None
        if config.tensorboard and importlib.util.find_spec("tensorboard") is not None:
            self._events = self.path / f"events.out.tfevents.{int(time.time())}.{os.getpid()}"
            _write_event(self._events, file_version="brain.Event:2")

    def forget_after(self, step: int) -> None:
        """Drop the lines of steps that a resumed run will do again."""
        for file in (self.path / "metrics.jsonl", self.path / "angles.jsonl"):
            if file.exists():
                lines = [line for line in read_lines(file, "lines of a run") if isinstance(line.get("step"), int)]
                files.write_text(file, "".join(json.dumps(line) + "\n" for line in lines if line["step"] <= step))

    def log(self, step: int, values: dict[str, float]) -> None:
        """Append one line of metrics, and TensorBoard events."""
        self.append("metrics.jsonl", {"step": step, **values})
        if self._events is not None:
            tags = [{"tag": name, "simple_value": value} for name, value in values.items()]
            _write_event(self._events, step=step, summary={"value": tags})

    def append(self, name: str, values: dict[str, Any]) -> None:
        """Append a line to another file of the run: angles.jsonl, calls.jsonl."""
        path = self.path / name
        with files.name_failed_path(path), open(path, "a", encoding="utf-8") as stream:
            stream.write(json.dumps(values) + "\n")


def _write_event(path: Path, **values: Any) -> None:
    """Append to a file of TensorBoard events, whose own writer is a thread that ends with a traceback on a full disk."""
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.summary.writer.record_writer import RecordWriter

    with files.name_failed_path(path), open(path, "ab") as stream:
        RecordWriter(stream).write(Event(wall_time=time.time(), **values).SerializeToString())


def read_metrics(path: str | Path) -> list[dict[str, Any]]:
    """Read the lines of a metrics.jsonl; a last line that a crash cut short is left out."""
    lines = [line for line in read_lines(path, "the metrics of a run") if isinstance(line.get("step"), int)]
    return [{name: value for name, value in line.items() if isinstance(value, int | float)} for line in lines]


def read_lines(path: str | Path, what: str) -> list[dict[str, Any]]:
    """Read a file of JSON lines; invalid lines are left out."""
    with parsing(path, what):
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    found = []
    for line in lines:
        with contextlib.suppress(ValueError, RecursionError):
            found.append(json.loads(line))
    return [value for value in found if isinstance(value, dict)]
