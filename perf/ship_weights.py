"""Put trained weights into the package: float16, with a card that says how they were made and from what.

    python perf/ship_weights.py sdgmnet --weights runs/weights/sdgmnet/best.safetensors --patch-scale 24 \
        --choice results/choice-long.json
    python perf/calibrate_ratio.py --model src/patchprint/weights/sdgmnet.safetensors --out results/ratio-sdgmnet.json --write

The settings of the run are read from the weights themselves; its record (config, metrics) lies in results/training/NAME.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from pathlib import Path
from typing import Any

from patchprint.networks import registry

IMAGES = (
    "375 photos of eight scenes: Notre-Dame de Paris and the Statue of Liberty (Photo Tourism and internet photos), three "
    "Oxford landmarks (Oxford Buildings), castle and entry (Strecha et al. 2008), Sceaux (openMVG); tracks by COLMAP, "
    "densified; five of the scenes also as warped and re-lit copies"
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", help="what the weights are called in the package")
    parser.add_argument("--weights", type=Path, required=True, help="best.safetensors of a run")
    parser.add_argument(
        "--patch-scale", type=float, required=True, help="chosen on validation data (choose_weights.py)"
    )
    parser.add_argument("--choice", default="results/choice-shipped.json", help="what choose_weights.py wrote")
    arguments = parser.parse_args()
    network = registry.load(arguments.weights)
    step, config = step_and_config(network.info.notes)
    info = dataclasses.replace(
        network.info,
        name=arguments.name,
        patch_scale=arguments.patch_scale,
        recipe=summary(config),
        training_data=IMAGES,
        license="Apache-2.0",
        ratio=None,
        provisional=False,
        notes=f"weights of step {step}, trained on one H200; record of the run: results/training/{arguments.name}/; "
        f"patch scale chosen on held-out data: {arguments.choice}",
    )
    info = registry.save(network, registry.WEIGHTS_FOLDER / f"{arguments.name}.safetensors", info, half=True)
    print(json.dumps(dataclasses.asdict(info), indent=2, ensure_ascii=False))


def step_and_config(notes: str) -> tuple[int, dict[str, Any]]:
    """What a training run writes into the notes of its weights: "step N, config {...}"."""
    step, config = notes.removeprefix("step ").split(", config ", 1)
    return int(step), json.loads(config)


def summary(config: dict[str, Any]) -> str:
    batch = f"{config['batch']} points x {config['views']} views"
    if config["batcher"] == "neighbors":
        batch += f" in runs of {config['batcher_options']['run']} neighbours"
    points = f"{config['steps']:,} steps of {batch} at {config['patch_scale']:g} sigma"
    average = f", weights averaged ({config['average']:g})" if config["average"] else ""
    trunk = "" if config["recipe"] == config["network"] else f" on network {config['network']}"
    return f"{config['recipe']}{trunk}, {points}, augmentation {config['augmentation']}{average}, seed {config['seed']}"


if __name__ == "__main__":
    main()
