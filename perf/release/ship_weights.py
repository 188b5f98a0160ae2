"""Put trained weights into the package: float16, with a card that says how they were made and from what.

    python -m perf.release.ship_weights patchprint --weights runs/weights/patchprint/best.safetensors --patch-scale 36 \
        --choice results/experiments/choice-long.json
    patchprint calibrate src/patchprint/networks/pretrained/patchprint.safetensors --write --json \
        > results/ratio/patchprint.json

The settings of the run are read from the weights themselves; its record (config, metrics) lies in results/training/NAME.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from pathlib import Path

from patchprint.networks import weights

SCENES = (
    "375 photos of eight scenes: Notre-Dame de Paris and the Statue of Liberty (Photo Tourism and internet photos), three "
    "Oxford landmarks (Oxford Buildings), castle and entry (Strecha et al. 2008), Sceaux (openMVG); tracks by COLMAP, "
    "densified; five of the scenes also as warped and re-lit copies"
)
WILD = "891 photos of anything from public repositories (results/training/wild-photos.json)"
ALL = f"{SCENES}; warped copies of {WILD}"
UNLABELED = f"keypoints without labels in photos of the eight scenes of patchprint, and in {WILD}"
LIBERTY = "100 internet photos of the Statue of Liberty; tracks by COLMAP, densified (liberty, one of the rebuilt sets)"
# What our own weights learned from; the papers' learned from LIBERTY.
IMAGES = {"patchprint": ALL} | {f"patchprint.{student}": UNLABELED for student in ("fast", "tiny", "bits")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", help="what the weights are called in the package")
    parser.add_argument("--weights", type=Path, required=True, help="best.safetensors of a run")
    parser.add_argument(
        "--patch-scale", type=float, required=True, help="chosen on validation data (choose_weights.py)"
    )
    parser.add_argument(
        "--choice", default="results/experiments/choice-shipped.json", help="what choose_weights.py wrote"
    )
    parser.add_argument("--teacher", help="what the teacher's weights are called in the package")
    parser.add_argument("--run", help="whose run it was, where weights of another name came out of it too")
    parser.add_argument("--notes", help="how they were made, in place of the words about run and choice")
    arguments = parser.parse_args()
    network = weights.load_network(arguments.weights)
    record = dataclasses.replace(
        network.info.training,
        recipe=f"{arguments.name.replace('.', '-')}-shipped"
        if arguments.name in IMAGES
        else network.info.training.recipe,
        data=IMAGES.get(arguments.name, LIBERTY),
    )
    if arguments.teacher:
        record = dataclasses.replace(record, config={**record.config, "teacher": [arguments.teacher]})
    info = dataclasses.replace(
        network.info,
        name=arguments.name,
        patch_scale=arguments.patch_scale,
        training=record,
        license="Apache-2.0",
        ratio=None,
        provisional=False,
        notes=arguments.notes
        or f"trained on one H200; record of the run: results/training/{arguments.run or arguments.name}/; "
        f"patch scale chosen on held-out data: {arguments.choice}",
    )
    info = weights.save(network, weights.WEIGHTS_FOLDER / f"{arguments.name}.safetensors", info, half=True)
    print(json.dumps(dataclasses.asdict(info), indent=2, ensure_ascii=False))


if __name__ == "__main__":
    main()
