"""The protocols of the papers: a model is run over data, its predictions are kept, and then they are scored.

A file ``NAME.py`` in this folder is the benchmark NAME (``_`` becomes ``-``): it holds one subclass of `Benchmark`, which says
its settings, how it is evaluated, which numbers go into tables and what the papers print. Files that begin with an underscore
are the machinery that all share.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable

from patchprint.benchmarks._benchmark import Benchmark, Run, measure
from patchprint.benchmarks._cache import PredictionCache
from patchprint.common.registry import Registry


def _name(file: str) -> str:
    return file.replace("_", "-")


def _loader(file: str) -> Callable[[], Benchmark]:
    def load() -> Benchmark:
        module = importlib.import_module(f"{__name__}.{file}")
        (kind,) = (
            value
            for value in vars(module).values()
            if isinstance(value, type) and issubclass(value, Benchmark) and value.__module__ == module.__name__
        )
        return kind(_name(file))

    return load


# By name, loaded when they are called: benchmarks need packages that others do without.
BENCHMARKS: Registry[Callable[[], Benchmark]] = Registry(
    "benchmark", {_name(m.name): _loader(m.name) for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_")}
)

__all__ = ["BENCHMARKS", "Benchmark", "PredictionCache", "Run", "measure"]
