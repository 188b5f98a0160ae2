"""Base class of benchmarks, one run of a benchmark with its cache of predictions, and `measure`.

A model is run once over a benchmark's data, and scored any number of times. The file name of a prediction is the checksum of
everything that decides the contents: the model's weights, the data, the settings, and the code that makes predictions. Changed
weights, data or code therefore never meet an old file.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import importlib.metadata
import json
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np
import torch

import patchprint
from patchprint.common.errors import UserError
from patchprint.common.files import atomic_file
from patchprint.common.progress import skip_or_raise
from patchprint.common.provenance import Result, record, sha256_of_file, sha256_of_folder
from patchprint.common.safe_io import read_npz
from patchprint.features.image_model import ImageModel, load_image_model
from patchprint.features.model import Model, ModelBase, load
from patchprint.interop.images import read_gray
from patchprint.networks.engines import AUTO

Arrays = dict[str, np.ndarray]
Scores = dict[str, Any]
K = TypeVar("K")

# What a prediction passes through on its way: all packages but those that train, report or talk to the user.
_APART = ("cli", "pipelines", "studies", "report", "training", "losses", "web")


class PredictionCache:
    """Arrays by key, in one folder; with ``None`` as folder nothing is cached."""

    def __init__(self, folder: str | Path | None) -> None:
        self.folder = None if folder is None else Path(folder)
        self.hits = 0
        self.misses = 0

    def get(self, key: dict[str, Any], compute: Callable[[], Arrays]) -> Arrays:
        """Get the arrays of ``key`` (any JSON value), computing and storing them if missing or damaged."""
        path = None if self.folder is None else self.folder / f"{checksum_of(key)}.npz"
        if path is not None:
            with contextlib.suppress(OSError, UserError):
                stored = read_npz(path, "a prediction")
                self.hits += 1
                return stored
        self.misses += 1
        arrays = compute()
        if path is not None:
            with atomic_file(path) as temporary, open(temporary, "wb") as stream:
                np.savez(stream, **arrays)  # type: ignore[arg-type]
        return arrays


def checksum_of(key: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()


@functools.cache
def code_checksum() -> str:
    """Compute the sha256 of the source code that predictions depend on, and of the weights of detectors and matchers."""
    root = Path(patchprint.__file__).parent
    digest = hashlib.sha256()
    weights = (*root.glob("detectors/*.safetensors"), *root.glob("matching/pretrained/*.safetensors"))
    for path in sorted([*root.rglob("*.py"), *weights]):
        name = path.relative_to(root)
        if name.parts[0] not in _APART:
            digest.update(f"{name.as_posix()}\0".encode() + path.read_bytes())
    return digest.hexdigest()


class Benchmark(ABC):
    """One protocol; the first line of a subclass's docstring is its help in ``patchprint eval``.

    ``settings`` is a frozen dataclass, whose fields become flags. Predictions are kept by all of them but those in ``scoring``,
    which change nothing but the score. ``data_package`` names the installed package that holds the data of a benchmark that
    takes none. ``of_images``: whether models of whole images are measured, not models of patches.
    """

    settings: ClassVar[type]
    scoring: ClassVar[frozenset[str]] = frozenset()
    lower_is_better: ClassVar[frozenset[str]] = frozenset()
    data_package: ClassVar[str | None] = None
    of_images: ClassVar[bool] = False

    def __init__(self, name: str) -> None:
        self.name = name

    @property
    def summary(self) -> str:
        return (type(self).__doc__ or "").strip().splitlines()[0]

    def load(self, model: Any, device: str = "cpu", engine: str = AUTO) -> ModelBase:
        """Load a model by name or file, or check a loaded one; raises UserError for a kind that is not measured here."""
        return load_image_model(model, device) if self.of_images else load(model, device, engine=engine)

    @abstractmethod
    def evaluate(self, run: Run, settings: Any) -> Scores:
        """Compute all scores of one model on one data set."""

    @abstractmethod
    def headline(self, scores: Scores) -> dict[str, float]:
        """The few numbers that go into tables, by name."""

    def beside(self, scores: Scores) -> dict[str, Scores]:
        """Scores of other methods that were measured in the same run, by name."""
        return {}

    def published(self, result: dict[str, Any]) -> dict[str, dict[str, float]]:
        """What the papers print, by method, with the names of ``headline``; empty where the protocol or data differ."""
        return {}


@dataclass(frozen=True)
class Run:
    """One model on one data set under one protocol."""

    benchmark: Benchmark
    settings: Any
    model: ModelBase
    # Folders or files; several stores are one set.
    data: tuple[Path, ...] = ()
    seed: int = 0
    cache: PredictionCache = field(default_factory=lambda: PredictionCache(None))
    strict: bool = False
    # Where stored patches are kept and cut.
    device: torch.device | str = "cpu"
    # Files that could not be read and were left out, which does not happen where ``strict``.
    skipped: list[str] = field(default_factory=list)

    @property
    def patch_model(self) -> Model:
        """The model, of a benchmark of patch models."""
        return load(self.model)  # type: ignore[arg-type]

    @property
    def image_model(self) -> ImageModel:
        """The model, of a benchmark of image models."""
        return load_image_model(self.model)  # type: ignore[arg-type]

    @property
    def folder(self) -> Path:
        """The data, where it is one folder or file."""
        if len(self.data) != 1:
            raise UserError(f"{self.benchmark.name} takes one --data at a time, not {len(self.data)} joined by commas")
        return self.data[0]

    @property
    def data_name(self) -> str:
        return ",".join(map(str, self.data)) or str(self.benchmark.data_package)

    @functools.cached_property
    def checksum(self) -> str:
        """The sha256 of the data."""
        if not self.data and self.benchmark.data_package:
            version = importlib.metadata.version(self.benchmark.data_package)
            return hashlib.sha256(f"{self.benchmark.data_package} {version}".encode()).hexdigest()
        parts = [sha256_of_folder(path) if path.is_dir() else sha256_of_file(path) for path in self.data]
        return parts[0] if len(parts) == 1 else hashlib.sha256("\n".join(parts).encode()).hexdigest()

    def predictions(self, what: str, compute: Callable[[], Arrays]) -> Arrays:
        """Get arrays that depend on the model from the cache, or compute them; ``what`` names them within this benchmark."""
        return self.cache.get(self.key(what), compute)

    def inputs(self, what: str, compute: Callable[[], Arrays]) -> Arrays:
        """Get arrays that are the same for all models, such as keypoints, from the cache, or compute them."""
        return self.cache.get(self.key(what, of_model=False), compute)

    def readable(
        self, paths: Mapping[K, Path], read: Callable[[Path], np.ndarray] = read_gray
    ) -> Iterator[tuple[K, np.ndarray]]:
        """Yield the image of each of ``paths``; unless ``strict``, unreadable files are left out and counted."""
        for key, path in paths.items():
            try:
                yield key, read(path)
            except UserError as error:
                skip_or_raise(error, self.strict)
                self.skipped.append(f"{path.parent.name}/{path.name}")

    def key(self, what: str, of_model: bool = True, ignoring: frozenset[str] = frozenset()) -> dict[str, Any]:
        """Cache key of a prediction; ``ignoring`` names settings that do not affect it, beside the scoring ones."""
        ignored = self.benchmark.scoring | ignoring
        settings = {name: value for name, value in dataclasses.asdict(self.settings).items() if name not in ignored}
        model = {
            **dataclasses.asdict(self.model.id),
            "patch_scale": self.model.info.patch_scale,
            "engine": self.model.engine,
        }
        return {
            "benchmark": self.benchmark.name,
            "what": what,
            "settings": _plain(settings),
            "seed": self.seed,
            "data": self.checksum,
            "model": model if of_model else None,
            "code": code_checksum(),
        }


def measure(run: Run) -> Result:
    """Run one benchmark and record where its numbers come from."""
    started = time.monotonic()
    model = run.benchmark.load(run.model)
    scores = run.benchmark.evaluate(run, run.settings)
    if run.skipped:
        scores = {**scores, "skipped": sorted(set(run.skipped))}
    scale = model.info.patch_scale
    patch_scale = {} if run.benchmark.of_images or not scale else {"patch_scale": scale}
    result = record(
        run.benchmark.name,
        settings=_plain(dataclasses.asdict(run.settings)),
        model={**dataclasses.asdict(model.id), **patch_scale, "kind": model.kind, "engine": model.engine},
        data={"path": run.data_name, "sha256": run.checksum},
        seed=run.seed,
        scores=_plain(scores),
        started=started,
    )
    result.run["cache"] = {"hits": run.cache.hits, "misses": run.cache.misses}
    return result


def _plain(value: Any) -> Any:
    """Convert a value for JSON: paths to text, NaN ("nothing to measure") to null."""
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, Path):
        return str(value)
    return None if isinstance(value, float) and math.isnan(value) else value
