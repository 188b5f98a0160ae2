"""Benchmarks on small data: one run by name and settings, and a store of patches made on the spot."""

from pathlib import Path
from typing import Any

import numpy as np

from patchprint.benchmarks import BENCHMARKS, PredictionCache, Run
from patchprint.data import PatchStore
from patchprint.features.model import ModelLike
from support.known_images import texture


def run_of(
    benchmark: str,
    model: ModelLike,
    *data: Path,
    cache: PredictionCache | None = None,
    strict: bool = True,
    **settings: Any,
) -> Run:
    """One model on one data set, with settings given by name."""
    chosen = BENCHMARKS[benchmark]()
    kept = cache or PredictionCache(None)
    return Run(chosen, chosen.settings(**settings), chosen.load(model), data, cache=kept, strict=strict)


def scores_of(benchmark: str, model: ModelLike, *data: Path, **settings: Any) -> dict[str, Any]:
    """The scores of `run_of`."""
    run = run_of(benchmark, model, *data, **settings)
    return run.benchmark.evaluate(run, run.settings)


def write_store(
    folder: Path,
    scenes: int = 2,
    points: int = 30,
    views: int = 4,
    size: int = 32,
    noise: float = 12.0,
    patch_scale: float = 12.0,
    mine_labels: bool = False,
) -> None:
    """A PatchStore whose views of a point differ by noise alone; scenes are called i_0, v_1, i_2 ..."""
    rng = np.random.default_rng(0)
    clean = np.stack([texture(size, size, seed) for seed in range(scenes * points)])
    noisy = clean[:, None] + rng.normal(0, noise, (scenes * points, views, size, size))
    patches = np.clip(noisy, 0, 255).astype(np.uint8).reshape(-1, size, size)
    point = np.repeat(np.arange(scenes * points), views)
    names = [f"{'iv'[scene % 2]}_{scene}" for scene in range(scenes)]
    PatchStore.write(folder, [patches], point, point // points, names, patch_scale, mine_labels=mine_labels)
