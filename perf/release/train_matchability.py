"""Makes the weights of the detector `dog-learned`: which keypoints are found again and become part of tracks.

    python -m perf.release.train_matchability --photos ../shared/data/photos --cache runs/matchability \
        --out src/patchprint/detectors/matchability.safetensors

Two sets of examples, both without descriptors: keypoints of photos and whether they are found again in warped and re-lit
copies; keypoints of photos with a COLMAP model and whether a point of it that three photos or more see lies at their place.
Trained on four scenes; the areas under the ROC curve that are printed (and kept in the file) are those of three others.
Ten minutes on one core.
"""

from __future__ import annotations

import argparse
import functools
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from scipy.spatial import cKDTree
from torch import Tensor
from tqdm import tqdm

from patchprint.detectors import DETECTORS
from patchprint.detectors._matchability import MatchabilityNetwork, cut
from patchprint.detectors.dog import find_dog
from patchprint.files import atomic_file
from patchprint.geometry import transport
from patchprint.interop.colmap import read_database, read_model
from patchprint.interop.images import limit, list_images, read_gray
from patchprint.networks.weights import to_bytes
from patchprint.patches.sources.homographies import render_views
from patchprint.types import Keypoints

TRAINING = ("notredame", "oxford-landmarks/radcliffe", "oxford-landmarks/christchurch", "sceaux")
HELD_OUT = ("liberty", "oxford-landmarks/allsouls", "oxford-landmarks/bodleian")
WARPED, TRACKED = 14, 50  # photos of a scene
VIEWS, WARPED_SIDE = 3, 800
PER_PHOTO = 2500  # examples
LONG = 3  # photos of a track that counts; keypoints of shorter ones are left out
STEPS, BATCH, RATE = 2500, 1024, 4e-3

Examples = dict[str, np.ndarray]  # patches (N, 16, 16) uint8, scale, response, target, weight (N,)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--photos", type=Path, required=True)
    parser.add_argument("--cache", type=Path, required=True, help="examples are kept here")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    kinds = {"warped": warped_examples, "tracked": tracked_examples}
    sets = {
        scenes: [_together(scenes, name, make, arguments.photos, arguments.cache) for name, make in kinds.items()]
        for scenes in (TRAINING, HELD_OUT)
    }
    network = train(sets[TRAINING], arguments.seed)
    areas = {
        name: round(area(network, examples, number), 4)
        for number, (name, examples) in enumerate(zip(kinds, sets[HELD_OUT], strict=True))
    }
    print(json.dumps(areas))
    about = {
        "format": "patchprint matchability",
        "made by": "python -m perf.release.train_matchability",
        "photos": f"{', '.join(TRAINING)}: up to {WARPED} photos each warped {VIEWS} times, up to {TRACKED} with tracks",
        "seed": str(arguments.seed),
        "held out": f"area under the ROC curve on {', '.join(HELD_OUT)}: {json.dumps(areas)}",
        "license": "Apache-2.0",
    }
    state = {name: value.detach().half().contiguous() for name, value in network.state_dict().items()}
    with atomic_file(arguments.out) as temporary:
        temporary.write_bytes(to_bytes(state, about))


def warped_examples(folder: Path, number: int) -> Iterator[tuple[str, Callable[[], Examples]]]:
    """Keypoints of photos of a scene; the target is the share of warped copies in which they are found again."""
    names = sorted(list_images(folder / "images"))
    for count, index in enumerate(np.random.default_rng(3).permutation(len(names))[:WARPED]):
        yield names[index], functools.partial(_warped, folder / "images" / names[index], count + 1000 * number)


def _warped(path: Path, seed: int) -> Examples:
    original, *copies = render_views(limit(read_gray(path), WARPED_SIDE), VIEWS, 50000 + seed)
    found = candidates(original.image)
    visible, again = np.zeros(len(found)), np.zeros(len(found))
    height, width = original.image.shape
    for copy in copies:
        expected = transport(found, copy.homography)
        x, y = expected.xy.numpy().T
        inside = (x > 8) & (y > 8) & (x < width - 8) & (y < height - 8)
        first, _ = same_keypoints(expected, candidates(copy.image), 2.0)
        visible += inside
        again += inside & np.isin(np.arange(len(found)), first)
    chosen = _some(np.nonzero(visible >= 2)[0], seed)
    return _examples(original.image, found, chosen, again / np.maximum(visible, 1), np.ones(len(found)))


def tracked_examples(folder: Path, number: int) -> Iterator[tuple[str, Callable[[], Examples]]]:
    """Keypoints of photos of a scene; the target is whether they belong to a track of `LONG` photos or more."""
    model = read_model(folder)
    lengths = {key: len(point.track.elements) for key, point in model.points3D.items()}
    known = {image.name: image.keypoints for image in read_database(folder / "database.db")}
    for image in list(model.images.values())[:TRACKED]:
        length = np.array([lengths.get(point.point3D_id, 0) for point in image.points2D])
        path = folder / "images" / image.name
        yield image.name, functools.partial(_tracked, path, known[image.name], length, image.image_id)


def _tracked(path: Path, known: Keypoints, length: np.ndarray, seed: int) -> Examples:
    pixels = read_gray(path)
    found = candidates(pixels)
    first, second = same_keypoints(found, known, 1.5)
    longest = np.zeros(len(found), int)
    np.maximum.at(longest, first, length[second])
    # COLMAP keeps the largest 8192 keypoints: below the smallest of them nothing could become part of a track.
    possible = np.nonzero(found.scale.numpy() >= 1.05 * float(known.scale.min()))[0]
    chosen = _some(possible, seed)
    return _examples(pixels, found, chosen, longest >= LONG, (longest == 0) | (longest >= LONG))


def candidates(image: np.ndarray) -> Keypoints:
    """What `dog-learned` chooses from, with responses as scores."""
    settings = {**DETECTORS["dog-learned"].find.keywords, "score": "response"}  # type: ignore[attr-defined]
    return find_dog(image, **settings)


def same_keypoints(a: Keypoints, b: Keypoints, pixels: float) -> tuple[np.ndarray, np.ndarray]:
    """All pairs of keypoints at one place with like scales and angles: indices into ``a`` and ``b``."""
    near = cKDTree(b.xy.numpy()).query_ball_point(a.xy.numpy(), pixels)
    first = np.repeat(np.arange(len(a)), [len(each) for each in near])
    second = np.array([index for each in near for index in each], int)
    zoom = np.abs(np.log(a.scale.numpy()[first] / b.scale.numpy()[second]))
    turn = np.abs(np.remainder(a.angle.numpy()[first] - b.angle.numpy()[second] + np.pi, 2 * np.pi) - np.pi)
    alike = (zoom < np.log(1.4)) & (turn < 0.4)
    return first[alike], second[alike]


def train(sets: list[Examples], seed: int, steps: int = STEPS) -> MatchabilityNetwork:
    """One output for each set of examples, learned side by side."""
    torch.manual_seed(seed)
    network = MatchabilityNetwork()
    optimizer = torch.optim.AdamW(network.parameters(), lr=RATE, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=steps)
    tensors = [{name: torch.from_numpy(value) for name, value in each.items()} for each in sets]
    for _ in tqdm(range(steps), desc="training", disable=None):
        loss = torch.zeros(())
        for number, examples in enumerate(tensors):
            rows = torch.randint(len(examples["target"]), (BATCH // len(sets),))
            log_odds = _log_odds(network, {name: value[rows] for name, value in examples.items()})[:, number]
            wrong = F.binary_cross_entropy_with_logits(log_odds, examples["target"][rows], reduction="none")
            loss = loss + (wrong * examples["weight"][rows]).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    return network.eval()


def _log_odds(network: MatchabilityNetwork, examples: dict[str, Tensor]) -> Tensor:
    return network(examples["patches"][:, None].float() / 255, examples["scale"], examples["response"])


@torch.no_grad()
def area(network: MatchabilityNetwork, examples: Examples, output: int) -> float:
    """Area under the ROC curve of one output, a target above a half counting as positive."""
    tensors = {name: torch.from_numpy(value) for name, value in examples.items()}
    score = _log_odds(network, tensors)[:, output].numpy()[examples["weight"] > 0]
    positive = (examples["target"] > 0.5)[examples["weight"] > 0]
    rank = score.argsort().argsort()
    count = positive.sum()
    return float((rank[positive].sum() - count * (count - 1) / 2) / (count * (len(rank) - count)))


def _some(rows: np.ndarray, seed: int) -> np.ndarray:
    return np.sort(np.random.default_rng(seed).permutation(rows)[:PER_PHOTO])


def _examples(
    image: np.ndarray, found: Keypoints, chosen: np.ndarray, target: np.ndarray, weight: np.ndarray
) -> Examples:
    keypoints = found[chosen]
    assert keypoints.score is not None
    return {
        "patches": (cut(image, keypoints)[:, 0] * 255).round().byte().numpy(),
        "scale": keypoints.scale.numpy(),
        "response": keypoints.score.numpy(),
        "target": target[chosen].astype(np.float32),
        "weight": weight[chosen].astype(np.float32),
    }


def _together(
    scenes: tuple[str, ...],
    kind: str,
    make: Callable[[Path, int], Iterator[tuple[str, Callable[[], Examples]]]],
    photos: Path,
    cache: Path,
) -> Examples:
    """Examples of all photos of the scenes, from the cache or made and kept there."""
    numbers = {scene: number for number, scene in enumerate((*TRAINING, *HELD_OUT))}
    parts: list[Examples] = []
    for scene in scenes:
        for name, compute in tqdm(list(make(photos / scene, numbers[scene])), desc=f"{kind} {scene}", disable=None):
            kept = cache / kind / scene / f"{name}.npz"
            if not kept.is_file():
                kept.parent.mkdir(parents=True, exist_ok=True)
                with atomic_file(kept) as temporary, open(temporary, "wb") as file:
                    np.savez(file, **compute())
            with np.load(kept) as stored:
                parts.append(dict(stored))
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


if __name__ == "__main__":
    main()
