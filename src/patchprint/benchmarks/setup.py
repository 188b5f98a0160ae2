"""What every benchmark is given, and what it hands back."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from patchprint.benchmarks.cache import Arrays, PredictionCache
from patchprint.features.describers import Describer
from patchprint.provenance import record, sha256_of_file, sha256_of_folder
from patchprint.types import Result


@dataclass(frozen=True)
class Setup:
    """One model on one data set."""

    describer: Describer
    data: Path
    seed: int = 0
    cache: PredictionCache = field(default_factory=lambda: PredictionCache(None))
    skip_bad: bool = False
    # Where stored patches are kept and cut.
    device: torch.device | str = "cpu"
    # Files that could not be read and were left out, which only happens with ``skip_bad``.
    skipped: list[str] = field(default_factory=list)

    @functools.cached_property
    def checksum(self) -> str:
        """The sha256 of the data: a file, a folder, or several with commas between their names."""
        names = str(self.data).split(",")
        parts = [sha256_of_folder(name) if Path(name).is_dir() else sha256_of_file(name) for name in names]
        return parts[0] if len(parts) == 1 else hashlib.sha256("\n".join(parts).encode()).hexdigest()

    def predictions(self, key: dict[str, Any], compute: Callable[[], Arrays]) -> Arrays:
        """Arrays that depend on the model: from the cache, or computed."""
        model = {**dataclasses.asdict(self.describer.id), "patch_scale": self.describer.patch_scale}
        return self.cache.get({"data": self.checksum, "model": model, **key}, compute)

    def inputs(self, key: dict[str, Any], compute: Callable[[], Arrays]) -> Arrays:
        """Arrays that are the same for all models, such as keypoints."""
        return self.cache.get({"data": self.checksum, **key}, compute)


def measure(benchmark: str, setup: Setup, settings: Any, evaluate: Callable[[Setup, Any], dict[str, Any]]) -> Result:
    """Run one benchmark and record where its numbers come from."""
    started = time.monotonic()
    scores = evaluate(setup, settings)
    if setup.skipped:
        scores = {**scores, "skipped": sorted(set(setup.skipped))}
    describer = setup.describer
    result = record(
        benchmark,
        settings=_plain(dataclasses.asdict(settings)),
        model={**dataclasses.asdict(describer.id), "patch_scale": describer.patch_scale, "kind": describer.kind},
        data={"path": str(setup.data), "sha256": setup.checksum},
        seed=setup.seed,
        scores=_plain(scores),
        started=started,
    )
    return dataclasses.replace(
        result, run={**result.run, "cache": {"hits": setup.cache.hits, "misses": setup.cache.misses}}
    )


def _plain(value: Any) -> Any:
    """The same value as JSON can write it: paths as text, "nothing to measure" (NaN) as null."""
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, Path):
        return str(value)
    return None if isinstance(value, float) and math.isnan(value) else value
