"""Benchmarks: the protocols of the papers. A model is run over data, predictions are cached, and then scored.

A file ``NAME.py`` in this folder is the benchmark NAME (``_`` becomes ``-``): it holds one subclass of `Benchmark`, which says
its settings, how it is evaluated, which numbers go into tables and what the papers print. Files that begin with an underscore
are the machinery that all share.
"""

import dataclasses
import importlib
import pkgutil
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from patchprint.benchmarks._benchmark import Benchmark, PredictionCache, Run, measure
from patchprint.common.devices import choose_device
from patchprint.common.provenance import Result
from patchprint.common.registry import Registry, check_options
from patchprint.features.image_model import ImageModel
from patchprint.features.model import ModelLike
from patchprint.networks.engines import AUTO


def _create(file: str) -> Benchmark:
    module = importlib.import_module(f"{__name__}.{file}")
    (kind,) = (
        value
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Benchmark) and value.__module__ == module.__name__
    )
    return kind(file.replace("_", "-"))


# By name, imported when they are called: benchmarks need packages that others do without.
BENCHMARKS: Registry[Callable[[], Benchmark]] = Registry(
    "benchmark",
    {
        module.name.replace("_", "-"): partial(_create, module.name)
        for module in pkgutil.iter_modules(__path__)
        if not module.name.startswith("_")
    },
)


def evaluate(
    benchmark: str | Benchmark,
    model: ModelLike | ImageModel,
    *,
    data: str | Path | Sequence[str | Path] = (),
    seed: int = 0,
    device: str | torch.device = "auto",
    engine: str = AUTO,
    cache: str | Path | None = None,
    strict: bool = False,
    **settings: Any,
) -> Result:
    """Measure a model by a benchmark, as ``patchprint eval`` does.

    >>> evaluate("oxford", "patchprint", data="oxford", keypoints=1000).scores["map"]    # doctest: +SKIP

    Args:
        benchmark: a name in BENCHMARKS, or one of your own.
        model: what ``patchprint.load`` takes; for benchmarks of whole images what ``patchprint.load_image_model`` takes.
        data: folders or files, which are one set; none for a benchmark that brings its own.
        seed: of everything that is drawn.
        device: where the model runs.
        engine: how its network is computed.
        cache: folder in which predictions are kept; by default they are not.
        strict: raise for an unreadable file; by default it is named, left out and counted.
        settings: those of the benchmark, by name.

    Raises:
        UserError: for an unknown benchmark or setting, and for a model or data that do not fit.
    """
    chosen = BENCHMARKS[benchmark]() if isinstance(benchmark, str) else benchmark
    check_options(f"benchmark {chosen.name!r}", settings, [field.name for field in dataclasses.fields(chosen.settings)])
    files = (data,) if isinstance(data, str | Path) else data
    place = choose_device(device)
    loaded = chosen.load(model, str(place), engine)
    kept = PredictionCache(cache)
    return measure(Run(chosen, chosen.settings(**settings), loaded, tuple(map(Path, files)), seed, kept, strict, place))


__all__ = ["BENCHMARKS", "Benchmark", "PredictionCache", "Run", "evaluate", "measure"]
