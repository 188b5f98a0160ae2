"""Choose the ratio-test threshold of a model on warped copies of scikit-image's training photographs.

    python -m perf.release.calibrate_ratio --model src/patchprint/weights/sdgmnet.safetensors \
        --out results/ratio/sdgmnet.json --write

``--write`` stores the threshold in the weight file itself, whose checksum of weights stays the same.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Iterator
from pathlib import Path

import torch
from patchprint.features.detect import detect

from patchprint import provenance
from patchprint.features import describers
from patchprint.features.calibration import choose_ratio
from patchprint.files import write_json
from patchprint.networks import weights
from patchprint.patches.sources import bundled, homographies
from patchprint.types import Features, Keypoints


def pairs(
    describer: describers.Describer, views: int, keypoints: int, seed: int
) -> Iterator[tuple[Features, Features, torch.Tensor]]:
    for number, name in enumerate(bundled.TRAINING):
        first, *others = homographies.render_views(bundled.image(name), views, seed=seed + number)
        found = detect(first.image, "dog", keypoints)
        for other in others:
            truth = homographies.transport(found, other.homography).xy
            yield (
                _features(describer, first.image, found),
                _features(describer, other.image, detect(other.image, "dog", keypoints)),
                truth,
            )
        print(name, flush=True)


def _features(describer: describers.Describer, image: object, keypoints: Keypoints) -> Features:
    descriptors = describer.describe_keypoints(image, keypoints)  # type: ignore[arg-type]
    return Features(keypoints, descriptors, (1, 1), None, describer.id)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--views", type=int, default=3)
    parser.add_argument("--keypoints", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=3000)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    describer = describers.create(arguments.model, arguments.device)
    choice = choose_ratio(pairs(describer, arguments.views, arguments.keypoints, arguments.seed))
    print(choice)
    result = provenance.record(
        "ratio calibration",
        settings={"views": arguments.views, "keypoints": arguments.keypoints, "rule": "mutual, largest right - wrong"},
        model=dataclasses.asdict(describer.id),
        data={"path": "scikit-image", "photographs": list(bundled.TRAINING)},
        seed=arguments.seed,
        scores=dataclasses.asdict(choice),
    )
    write_json(arguments.out, result.to_json())
    if arguments.write:
        network = weights.load_network(arguments.model)
        half = any(value.dtype == torch.float16 for value in _stored(arguments.model))
        weights.save(network, arguments.model, dataclasses.replace(network.info, ratio=choice.ratio), half=half)


def _stored(path: str) -> list[torch.Tensor]:
    from safetensors.torch import load_file

    return list(load_file(path).values())


if __name__ == "__main__":
    main()
