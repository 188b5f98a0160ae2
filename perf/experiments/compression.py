"""Measure the cost of compressed descriptors: mAP on the Oxford sequences for each compression of one model.

    python -m perf.experiments.compression --model patchprint --data ../shared/data/oxford \
        --out results/experiments/compression.json

Principal components are fitted on scikit-image's training images, never on the test images.
"""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path
from typing import Any

import torch

from patchprint.benchmarks.oxford import Settings, score_pair
from patchprint.common import provenance
from patchprint.common.files import write_json
from patchprint.common.types import Features
from patchprint.data.builders import bundled_images
from patchprint.features import Model, extract, load
from patchprint.features.compress import Pca, compress
from patchprint.features.model import DEFAULT_MODEL
from patchprint.interop.sequences import find_sequences
from patchprint.metrics.average_precision import mean_average_precision


def measure(model: Model, data: Path, keypoints: int, sequences: tuple[str, ...]) -> dict[str, Any]:
    """Mean average precision over all pairs and bytes per descriptor, without and with each compression."""
    settings = Settings(keypoints=keypoints)
    ways: dict[str, Any] = {"float32": None, "fp16": "fp16", "int8": "int8", "bits": "bits"}
    training = torch.cat([extract(bundled_images.image(name), model).descriptors for name in bundled_images.TRAINING])
    for count in (96, 64, 32):
        if count < model.dim:
            ways[f"pca{count}"] = Pca.fit(training, count)
    precision: dict[str, list[float]] = {name: [] for name in ways}
    size: dict[str, int] = {}
    for sequence in find_sequences(data, sequences):
        plain = {
            number: extract(path, model, max_keypoints=keypoints, detector=settings.detector, spread=settings.spread)
            for number, path in sequence.paths.items()
        }
        for name, how in ways.items():
            small = {n: item if how is None else compress(item, how) for n, item in plain.items()}
            size[name] = _bytes(small[1])
            for number, homography in sequence.homographies.items():
                precision[name].append(score_pair(small[1], small[number], homography, settings)["ap"])
        print(
            sequence.name,
            {name: round(mean_average_precision(values), 4) for name, values in precision.items()},
            flush=True,
        )
    full = mean_average_precision(precision["float32"])
    return {
        name: {
            "map": round(mean_average_precision(values), 4),
            "loss": round(full - mean_average_precision(values), 4),
            "bytes": size[name],
        }
        for name, values in precision.items()
    }


def _bytes(features: Features) -> int:
    return features.descriptors.element_size() * features.descriptors.shape[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--model", default=DEFAULT_MODEL)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--keypoints", type=int, default=2000)
    parser.add_argument("--sequences", nargs="*", default=[])
    parser.add_argument("--device", default="auto")
    arguments = parser.parse_args()
    model = load(arguments.model, arguments.device)
    scores = measure(model, arguments.data, arguments.keypoints, tuple(arguments.sequences))
    result = provenance.record(
        "compression",
        settings={"benchmark": "oxford", "keypoints": arguments.keypoints, "sequences": arguments.sequences or "all"},
        model=dataclasses.asdict(model.id),
        data={"path": str(arguments.data), "sha256": provenance.sha256_of_folder(arguments.data)},
        scores=scores,
    )
    write_json(arguments.out, result.to_json())
    print(scores)


if __name__ == "__main__":
    main()
