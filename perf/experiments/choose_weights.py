"""Choose weights and the side of the patch on validation data; nothing that is tested on is looked at.

    python -m perf.experiments.choose_weights --models runs/one/best.safetensors runs/two/best.safetensors \
        --tracks data/notredame data/radcliffe data/castle data/bodleian --images data/bodleian \
        --out results/experiments/choice.json

Scenes with depth (``tracks``, held-out points): each point is described in two of its photos, and its print in the one picks
among all points in the other (accuracy). Flat scenes (``photos``, of a scene that no model learned from): photos and their
warped, re-lit copies, keypoints detected in each (average precision of nearest neighbours). Both count equally.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from patchprint.features.describers import NetworkDescriber, choose_device

from patchprint import files, provenance, rng
from patchprint.benchmarks.bundled import ImagePair, matching
from patchprint.interop.opencv import detect_sift
from patchprint.networks import PatchNetwork, weights
from patchprint.patches import TrackStore, open_source
from patchprint.patches.sources.homographies import render_views, transport

STRENGTH = 1.5  # of warps and light: about what the harder half of published planar scenes shows
WARPED = 3  # copies of a photo
KEYPOINTS = 2000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", required=True)
    parser.add_argument("--tracks", nargs="+", required=True, help="stores whose held-out points are matched")
    parser.add_argument("--images", required=True, help="store whose photos are warped")
    parser.add_argument("--scales", type=float, nargs="+", default=[16, 20, 24, 28])
    parser.add_argument("--points", type=int, default=2000)
    parser.add_argument("--num-images", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    started = time.monotonic()
    device = choose_device()
    stores = {Path(folder).name: open_source(folder, device).split("val") for folder in arguments.tracks}
    pairs = warped_pairs(open_source(arguments.images), arguments.num_images, arguments.seed)  # type: ignore[arg-type]
    scores: dict[str, dict[str, Any]] = {}
    models: dict[str, str] = {}
    for model in arguments.models:
        network = weights.load_network(model, device)
        models[model] = network.info.sha256
        scores[model] = {}
        for scale in arguments.scales:
            depth = {name: accuracy(network, store, scale, arguments) for name, store in stores.items()}  # type: ignore[arg-type]
            describer = NetworkDescriber(network)
            describer.patch_scale = scale
            flat = fmean(matching(describer, pair)["ap"] for pair in pairs)
            mean = (fmean(depth.values()) + flat) / 2
            scores[model][f"{scale:g}"] = {"depth": depth, "flat": flat, "mean": mean}
            print(
                f"{model} {scale:g} sigma: depth {fmean(depth.values()):.4f} flat {flat:.4f} mean {mean:.4f}",
                flush=True,
            )
    result = provenance.record(
        "choice",
        settings={key: value for key, value in vars(arguments).items() if key not in ("out", "models", "seed")},
        model={"name": "several", "sha256": "", "all": models},
        data={"path": arguments.tracks},
        seed=arguments.seed,
        scores=scores,
        started=started,
    )
    files.write_json(arguments.out, result.to_json())


def accuracy(network: PatchNetwork, store: TrackStore, scale: float, arguments: argparse.Namespace) -> float:
    store.patch_scale = scale
    key = rng.key(arguments.seed, device=store.device)
    usable = torch.nonzero(store.num_views >= 2)[:, 0]
    points = usable[rng.permutation(key, len(usable))[: arguments.points]]
    number = store.num_views[points]
    first = rng.integers(rng.fold_in(key, 1), number, (len(points),))
    second = (first + 1 + rng.integers(rng.fold_in(key, 2), number - 1, (len(points),))) % number
    patches = store.sample(points, torch.stack([first, second], 1), network.input_size)
    a, b = network.describe(patches.transpose(0, 1).flatten(0, 1)).chunk(2)
    if network.kind == "binary":
        shifts = torch.arange(8, dtype=torch.uint8, device=a.device)
        a, b = ((((bits[:, :, None] >> shifts) & 1).flatten(1).float() * 2 - 1) for bits in (a, b))
    return ((a @ b.T).argmax(1) == torch.arange(len(a), device=a.device)).double().mean().item()


def warped_pairs(store: TrackStore, num_images: int, seed: int) -> list[ImagePair]:
    """Photos spread over the store, each with its warped copies."""
    pairs = []
    for number in torch.linspace(0, len(store.images) - 1, num_images).round().int().tolist():
        original, *warped = render_views(store.images.pixels(number), WARPED, seed + number, STRENGTH)
        keypoints = detect_sift(original.image, max_keypoints=KEYPOINTS)
        for view in warped:
            found = detect_sift(view.image, max_keypoints=KEYPOINTS)
            truth = transport(keypoints, view.homography).xy
            pairs.append(ImagePair(f"{number}", (original.image, view.image), (keypoints, found), truth))
    return pairs


if __name__ == "__main__":
    main()
