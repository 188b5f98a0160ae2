"""Measure the peak GPU memory of each recipe at its published batch, in bf16 without compilation (which saves some).

python -m perf.speed.recipe_memory --data data/dense/liberty --out results/speed/training-memory.json

Memory does not depend on what patches show: recipes that need sequences with mined labels get made ones of noise.
"""

from __future__ import annotations

import argparse
import gc
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from patchprint.common import files, provenance
from patchprint.data import PatchStore, open_source
from patchprint.data.builders import hpatches_patches
from patchprint.training import RECIPES, assembly, resolve
from patchprint.training.step import TrainStep


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--out", type=Path, default=Path("results/speed/training-memory.json"))
    parser.add_argument("--batch", type=int, default=None, help="other than published, to try the script")
    parser.add_argument("--recipes", nargs="*", default=list(RECIPES))
    arguments = parser.parse_args()
    started = time.monotonic()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    source = open_source(arguments.data, device).split("train")
    sequences = made_sequences(device) if any(map(needs_sequences, arguments.recipes)) else source
    scores = {}
    for recipe in arguments.recipes:
        scores[recipe] = measure(recipe, sequences if needs_sequences(recipe) else source, arguments.batch)
        print(recipe, scores[recipe], flush=True)
    result = provenance.record(
        "training-memory",
        settings={"acceleration": "eager", "precision": "bf16", "steps": 3},
        model={"name": "all recipes", "sha256": ""},
        data={"path": arguments.data},
        seed=0,
        scores=scores,
        started=started,
    )
    files.write_json(arguments.out, result.to_json())


def needs_sequences(recipe: str) -> bool:
    return RECIPES[recipe].config.batcher == "sequence-pairs"


def made_sequences(device: torch.device) -> PatchStore:
    """Three sequences of 64 points in the shape of HPatches, with mined labels."""
    noise = np.random.default_rng(0).integers(0, 256, (3, len(hpatches_patches.STRIPS), 64, 65, 65), dtype=np.uint8)
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "sequences"
        hpatches_patches.write(
            store, noise, ["i_one", "v_two", "v_three"], [64] * 3, split=None, mine_labels=True, force=False
        )
        return PatchStore.open(store, device)


def measure(recipe: str, source: Any, batch: int | None) -> dict[str, Any]:
    changes: dict[str, Any] = {"acceleration": "eager", "precision": "bf16", "init": "random"}
    if batch:
        changes["batch"] = batch
    gc.collect()
    if source.device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    try:
        config = resolve(recipe, **changes)
        resident = torch.cuda.memory_allocated() if source.device.type == "cuda" else 0
        step = TrainStep(config, source, assembly.create(config, source.device))
        for _ in range(3):
            step.run()
        peak = torch.cuda.max_memory_allocated() - resident if source.device.type == "cuda" else 0
    except (ValueError, RuntimeError) as error:
        return {"error": str(error)[:300]}
    return {
        "peak_mib": round(peak / 2**20),
        "batch": config.batch,
        "views": config.views,
        "batcher": config.batcher,
        "loss": float(step.losses["total"]),
    }


if __name__ == "__main__":
    main()
