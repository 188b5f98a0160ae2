"""Pictures of the papers: SDGMNet's Fig. 5 (matches), DOAP's Fig. 7 (aligned patches) and Fig. 8 (mined clusters).

    python -m perf.experiments.paper_pictures matches --data ../shared/data/oxford --out results/pictures/matches.jpg
    python -m perf.experiments.paper_pictures aligned --data data/sequences --weights doap-st.safetensors \
        --out results/pictures/aligned.jpg
    python -m perf.experiments.paper_pictures clusters --data data/sequences-mined --out results/pictures/clusters.jpg

``matches``: 200 random keypoints of the first image (red), their nearest neighbors among all of the second, green where right;
a row for each pair, a column for each model. ``aligned``: rows of patches as they are, aligned with a repeated border, and with
zeros. ``clusters``: five clusters of each of four sequences, of three patches or more, a row each; a red bar between two
rows: distractors of each other.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np
import torch

from patchprint.benchmarks import BENCHMARKS, Run
from patchprint.benchmarks._features import sequence_pairs
from patchprint.common.files import atomic_file
from patchprint.data import PatchStore, open_source
from patchprint.data.preview import stretch_contrast
from patchprint.features import load
from patchprint.interop.images import encode_image, read_gray
from patchprint.metrics.correspondence import reprojection_errors
from patchprint.networks import weights
from patchprint.networks.wrappers import SpatialTransformer
from patchprint.ops.distances import nearest

DRAWN, RIGHT, WIDTH, QUALITY = 200, 4.0, 256, 70  # keypoints; pixels; of an image in the picture; of JPEG
SMALLEST, ENLARGED = 3, 2  # patches of a cluster in the picture; times
RED, GREEN, GRAY = (220, 40, 40), (40, 190, 60), (150, 150, 150)


def matches(data: Path, pairs: Sequence[str], models: Sequence[str], seed: int = 0) -> np.ndarray:
    """Return a picture of right matches, a row for each pair like ``wall/6`` and a column for each model."""
    columns = []
    for name in models:
        benchmark = BENCHMARKS["pairs"]()
        wanted = tuple(dict.fromkeys(pair.split("/")[0] for pair in pairs))
        settings = benchmark.settings(all_of_second=True, sequences=wanted)
        run = Run(benchmark, settings, load(name, engine="float32"), (data,), seed=seed)
        panels = {}
        for sequence, number, first, second, homography in sequence_pairs(run, settings, all_of_second=True):
            if f"{sequence}/{number}" not in pairs:
                continue
            drawn = np.random.default_rng(seed).permutation(len(first))[:DRAWN]
            index = nearest(first.descriptors[drawn], second.descriptors, exact=True)[1][:, 0].numpy()
            errors = reprojection_errors(first.keypoints[drawn], second.keypoints[index], homography)
            images = [read_gray(next((data / sequence).glob(f"img{place}.*"))) for place in (1, number)]
            points = (first.keypoints.xy[drawn].numpy(), second.keypoints.xy[index].numpy())
            panels[f"{sequence}/{number}"] = _panel(images, points, np.asarray(errors) <= RIGHT, name)
        columns.append(np.vstack([_to_width(panels[pair], 2 * WIDTH) for pair in pairs]))
    return np.hstack(columns)


def _panel(images: Sequence[np.ndarray], points: tuple[np.ndarray, ...], right: np.ndarray, name: str) -> np.ndarray:
    height = max(len(image) for image in images)
    padded = [cv2.copyMakeBorder(image, 0, height - len(image), 0, 0, cv2.BORDER_CONSTANT) for image in images]
    canvas = cv2.cvtColor(np.hstack(padded), cv2.COLOR_GRAY2RGB)
    offset = np.array([images[0].shape[1], 0])
    for start, end, is_right in zip(points[0], points[1] + offset, right, strict=True):
        place = tuple(np.round(start).astype(int).tolist())
        cv2.drawMarker(canvas, place, RED, cv2.MARKER_CROSS, 12, 2)
        if is_right:
            cv2.line(canvas, place, tuple(np.round(end).astype(int).tolist()), GREEN, 1, cv2.LINE_AA)
    words = f"{name}: {int(right.sum())} of {len(right)}"
    for color, thickness in (((255, 255, 255), 14), ((0, 0, 0), 4)):
        cv2.putText(canvas, words, (12, 60), cv2.FONT_HERSHEY_SIMPLEX, 1.8, color, thickness, cv2.LINE_AA)
    return canvas


def _to_width(image: np.ndarray, width: int) -> np.ndarray:
    return cv2.resize(image, (width, round(len(image) * width / image.shape[1])), interpolation=cv2.INTER_AREA)


def aligned(store: PatchStore, file: Path, points: int = 2) -> np.ndarray:
    """Return three rows for each point: its patches, and what the transformer of the network makes of them."""
    transformer = next(
        part for part in weights.load_network(file).eval().modules() if isinstance(part, SpatialTransformer)
    )
    rows = []
    for point in torch.linspace(0, store.num_points - 1, points).long():
        views = torch.arange(int(store.num_views[point]))[None]
        patches = store.sample(point[None], views, 42)[0]
        rows.append(patches[:, :, 5:37, 5:37])
        for padding in ("border", "zeros"):
            transformer.padding = padding
            with torch.inference_mode():
                rows.append(transformer(patches))
    return np.vstack([_strip(row[:, 0]) for row in rows])


def clusters(store: PatchStore, sequences: int = 4, shown: int = 5, seed: int = 0) -> np.ndarray:
    """Return patches of random clusters of some sequences, and which of neighboring clusters are distractors."""
    assert store.mined is not None
    random, panels = np.random.default_rng(seed), []
    for scene in random.permutation(len(store.scene_names))[:sequences]:
        points = torch.nonzero(store.scene == int(scene))[:, 0]
        row = store.observation(points, torch.zeros(len(points), 1, dtype=torch.int64))[:, 0]
        cluster = store.mined.cluster[row]
        found, sizes = torch.unique(cluster, return_counts=True)
        names = random.permutation(found[sizes >= SMALLEST].numpy())[:shown].tolist()
        lines = []
        for number, name in enumerate(names):
            some = points[cluster == name][:8]
            patches = store.sample(some, torch.zeros(len(some), 1, dtype=torch.int64), 42)[:, 0, 0]
            strip = np.full((42, 8 * 42, 3), 255, np.uint8)
            strip[:, : 42 * len(some)] = _strip(patches)
            if number:
                is_distractor = bool(store.mined.distractor[int(scene), int(names[number - 1]), int(name)])
                lines.append(np.full((6, strip.shape[1], 3), RED if is_distractor else GRAY, np.uint8))
            lines.append(strip)
        panels.append(cv2.copyMakeBorder(np.vstack(lines), 4, 4, 4, 4, cv2.BORDER_CONSTANT, value=(255, 255, 255)))
    return np.hstack(panels)


def _strip(patches: torch.Tensor) -> np.ndarray:
    """Return patches (N, S, S) side by side, (S, N * S, 3) uint8."""
    shown = (stretch_contrast(patches.float()) * 255).round().to(torch.uint8).numpy()
    return np.repeat(np.hstack(list(shown))[..., None], 3, axis=2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("picture", choices=("matches", "aligned", "clusters"), help="which one")
    parser.add_argument("--data", type=Path, required=True, help="sequences (matches), or a store of patches")
    parser.add_argument("--out", type=Path, required=True, help="image to write")
    parser.add_argument("--models", nargs="+", default=["sift", "hardnet", "sdgmnet"], help="of matches")
    parser.add_argument("--pairs", nargs="+", default=["leuven/6", "bikes/6", "graf/6", "wall/6"], help="of matches")
    parser.add_argument("--weights", type=Path, help="of a network with a spatial transformer (aligned)")
    arguments = parser.parse_args()
    if arguments.picture == "matches":
        image = matches(arguments.data, arguments.pairs, arguments.models)
    else:
        store = open_source([str(arguments.data)])
        assert isinstance(store, PatchStore)
        image = clusters(store) if arguments.picture == "clusters" else aligned(store, arguments.weights)
        image = image.repeat(ENLARGED, 0).repeat(ENLARGED, 1)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    with atomic_file(arguments.out) as temporary:
        temporary.write_bytes(
            encode_image(image, arguments.out.suffix, QUALITY if arguments.out.suffix == ".jpg" else None)
        )
    print(f"{arguments.out}: {image.shape[1]} x {image.shape[0]}")


if __name__ == "__main__":
    main()
