"""How many patches a second each shipped model describes, on this machine.

python -m perf.speed.describing --out results/speed/describing-cpu.json
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import torch

from patchprint import provenance
from patchprint.devices import choose_device
from patchprint.features import load
from patchprint.files import write_json
from patchprint.networks.weights import weight_names


def measure(names: list[str], count: int, repeats: int, device: torch.device) -> dict[str, dict[str, Any]]:
    """Patches a second of each model in its best round, with the checksum of its weights."""
    models = {name: load(name, device) for name in names}
    noise = torch.Generator().manual_seed(0)
    size = next(iter(models.values())).input_size
    patches = torch.randint(0, 256, (count, 1, size, size), dtype=torch.uint8, generator=noise).to(device)
    best = dict.fromkeys(models, float("inf"))
    for repeat in range(repeats + 1):  # in turns, so that a busy moment does not fall on one of them alone
        for name, model in models.items():
            started = time.perf_counter()
            model.describe_patches(patches)  # comes back to the CPU, so that all of it is done then
            if repeat:  # the first is for warming up
                best[name] = min(best[name], time.perf_counter() - started)
        print(f"round {repeat} of {repeats}", flush=True)
    return {
        name: {"patches_per_second": round(count / seconds), "sha256": models[name].info.sha256}
        for name, seconds in best.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument(
        "--models", nargs="+", default=weight_names(), help="names or weight files; default: all shipped"
    )
    parser.add_argument("--count", type=int, default=4096, help="patches in a round")
    parser.add_argument("--repeats", type=int, default=8)
    parser.add_argument("--device", default="cpu")
    arguments = parser.parse_args()
    device = choose_device(arguments.device)
    scores = measure(arguments.models, arguments.count, arguments.repeats, device)
    settings = {"patches": arguments.count, "repeats": arguments.repeats, "device": device.type}
    result = provenance.record("describing speed", settings=settings, scores=scores)
    write_json(arguments.out, result.to_json())
    print({name: score["patches_per_second"] for name, score in scores.items()})


if __name__ == "__main__":
    main()
