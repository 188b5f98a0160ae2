"""Choose the side of the patch on validation points: how often the nearest print is the right one, by patch scale.

    python perf/patch_scale.py --model src/patchprint/weights/sdgmnet.safetensors \
        --data data/notredame data/radcliffe data/castle --out results/patch-scale-sdgmnet.json

Each held-out point of a scene is described in two of its photos; its print in the one picks among all points in the other.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import torch

from patchprint import files, provenance, rng
from patchprint.networks import PatchNetwork, registry
from patchprint.patches import open_source
from patchprint.types import Result


def accuracy(network: PatchNetwork, folder: str, patch_scale: float, count: int, seed: int) -> float:
    source = open_source(folder, patch_scale=patch_scale).split("val")
    key = rng.key(seed)
    points = rng.permutation(key, source.num_points)[:count]
    number = source.num_views[points]
    first = rng.integers(rng.fold_in(key, 1), number, (len(points),))
    second = (first + 1 + rng.integers(rng.fold_in(key, 2), number - 1, (len(points),))) % number
    patches = source.sample(points, torch.stack([first, second], 1), network.input_size)
    a, b = network.describe(patches.transpose(0, 1).flatten(0, 1)).chunk(2)
    return ((a @ b.T).argmax(1) == torch.arange(len(a))).double().mean().item()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True)
    parser.add_argument("--data", nargs="+", required=True)
    parser.add_argument("--scales", type=float, nargs="+", default=[12, 16, 20, 24, 32])
    parser.add_argument("--points", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", required=True)
    arguments = parser.parse_args()
    started = time.monotonic()
    network = registry.load(arguments.model)
    scores: dict[str, dict[str, float]] = {}
    for folder in arguments.data:
        name = Path(folder).name
        scores[name] = {}
        for scale in arguments.scales:
            scores[name][f"{scale:g}"] = accuracy(network, folder, scale, arguments.points, arguments.seed)
            print(f"{name} {scale:g} sigma: {scores[name][f'{scale:g}']:.4f}", flush=True)
    result = Result(
        benchmark="patch-scale",
        settings={"points": arguments.points, "scales": arguments.scales},
        model={"name": network.info.name, "sha256": network.info.sha256},
        data={"path": arguments.data},
        seed=arguments.seed,
        scores=scores,
        run=provenance.run_info(started),
    )
    files.write_json(arguments.out, result.to_json())


if __name__ == "__main__":
    main()
