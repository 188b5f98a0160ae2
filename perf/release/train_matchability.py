"""Train the detector `dog-learned` to score keypoints by how often they are matched correctly.

    python -m perf.release.train_matchability --images ../shared/data/photos --cache runs/matchability

Examples are keypoints of images of four scenes. The target is in how many of three warped and re-lit copies a keypoint is found
again and told from all others by its descriptor: the mutual nearest neighbors that lie where they must. The area under the
ROC curve that is printed (and kept in the file) is that of three other scenes. Five minutes on one core.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from tqdm import tqdm

from patchprint.common.files import atomic_file
from patchprint.common.types import Features, Keypoints
from patchprint.data.builders.homographies import warped_pairs
from patchprint.detectors import DETECTORS
from patchprint.detectors._matchability import WEIGHTS, MatchabilityNetwork, cut, numbers
from patchprint.features import describe_keypoints, load
from patchprint.interop.images import limit_size, list_images, read_gray
from patchprint.matching import match
from patchprint.networks.weights import to_bytes

TRAINING = ("notredame", "oxford-landmarks/radcliffe", "oxford-landmarks/christchurch", "sceaux")
HELD_OUT = ("liberty", "oxford-landmarks/allsouls", "oxford-landmarks/bodleian")
DESCRIBED_BY = "sdgmnet.tiny"  # what is hard to tell apart is so for all models, and this one is quick
PHOTOS = {TRAINING: 9, HELD_OUT: 2}  # of a scene
VIEWS, SIDE, MARGIN = 3, 640, 8  # copies; pixels along an image, and of its border in which nothing can be found again
RIGHT = 3.0  # pixels
STEPS, BATCH, RATE = 2500, 512, 4e-3

Examples = dict[str, np.ndarray]  # patches (N, 16, 16) uint8, scale, response, target (N,)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=Path, required=True)
    parser.add_argument("--cache", type=Path, required=True, help="examples are kept here")
    parser.add_argument("--out", type=Path, default=WEIGHTS, help="file to write; that of the package if not given")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    learned, judged = (_together(scenes, arguments.images, arguments.cache) for scenes in (TRAINING, HELD_OUT))
    network = train(learned, arguments.seed)
    held_out = area(network, judged)
    print(f"{len(learned['target'])} examples, area under the ROC curve {held_out:.4f}")
    about = {
        "format": "patchprint matchability",
        "made by": "python -m perf.release.train_matchability",
        "photos": f"{', '.join(TRAINING)}: up to {PHOTOS[TRAINING]} photos each, warped {VIEWS} times",
        "seed": str(arguments.seed),
        "held out": f"area under the ROC curve on {', '.join(HELD_OUT)}: {held_out:.4f}",
        "license": "Apache-2.0",
    }
    state = {name: value.detach().half().contiguous() for name, value in network.state_dict().items()}
    with atomic_file(arguments.out) as temporary:
        temporary.write_bytes(to_bytes(state, about))


def candidates(image: np.ndarray) -> Keypoints:
    """What `dog-learned` chooses from, with responses as scores."""
    return DETECTORS["dog-learned"].find(image, None, None, score="response")  # type: ignore[call-arg]


def examples_of(photo: np.ndarray, seed: int, find: Callable[[np.ndarray], Keypoints] = candidates) -> Examples:
    """Keypoints of an image, uint8 (H, W), that copies show; the target is the share of these that match them rightly."""
    model = load(DESCRIBED_BY)
    inside = torch.tensor([photo.shape[1], photo.shape[0]]) - 1 - MARGIN
    original: Features | None = None
    shown, matched = [], []
    for pair in warped_pairs([photo], VIEWS, seed, find):
        if original is None:
            original = describe_keypoints(pair.images[0], pair.keypoints[0], model=model)
        copy = describe_keypoints(pair.images[1], pair.keypoints[1], model=model)
        rows, columns = match(original, copy, "mutual").indices.unbind(1)
        right = torch.zeros(len(original), dtype=torch.bool)
        right[rows] = (copy.keypoints.xy[columns] - pair.truth[rows]).norm(dim=1) < RIGHT
        shown.append(((pair.truth > MARGIN) & (pair.truth < inside)).all(1))
        matched.append(right & shown[-1])
    assert original is not None
    times_shown, times_matched = torch.stack(shown).sum(0), torch.stack(matched).sum(0)
    often = times_shown >= 2
    keypoints = original.keypoints[often]
    assert keypoints.score is not None
    return {
        "patches": (cut(photo, keypoints)[:, 0] * 255).round().byte().numpy(),
        "scale": keypoints.scale.numpy(),
        "response": keypoints.score.numpy(),
        "target": (times_matched[often] / times_shown[often]).numpy(),
    }


def train(examples: Examples, seed: int, steps: int = STEPS) -> MatchabilityNetwork:
    torch.manual_seed(seed)
    network = MatchabilityNetwork()
    tensors = {name: torch.from_numpy(value) for name, value in examples.items()}
    known = numbers(*_inputs(tensors))
    network.center, network.spread = known.mean(0), known.std(0).clamp(min=1e-2)
    optimizer = torch.optim.AdamW(network.parameters(), lr=RATE, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=steps)
    for _ in tqdm(range(steps), desc="training", disable=None):
        rows = torch.randint(len(tensors["target"]), (BATCH,))
        drawn = {name: value[rows] for name, value in tensors.items()}
        loss = F.binary_cross_entropy_with_logits(network(*_inputs(drawn)), drawn["target"])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    return network.eval()


@torch.no_grad()
def area(network: MatchabilityNetwork, examples: Examples) -> float:
    """Area under the ROC curve, a target above a half counting as positive."""
    score = network(*_inputs({name: torch.from_numpy(value) for name, value in examples.items()})).numpy()
    positive = examples["target"] > 0.5
    rank = score.argsort().argsort()
    count = positive.sum()
    return float((rank[positive].sum() - count * (count - 1) / 2) / (count * (len(rank) - count)))


def _inputs(examples: dict[str, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    return examples["patches"][:, None].float() / 255, examples["scale"], examples["response"]


def _together(scenes: tuple[str, ...], photos: Path, cache: Path) -> Examples:
    """Examples of all images of the scenes, from the cache or made and kept there."""
    parts: list[Examples] = []
    for number, scene in enumerate(scenes):
        names = sorted(list_images(photos / scene / "images"))
        drawn = np.random.default_rng(3).permutation(len(names))[: PHOTOS[scenes]]
        for count, index in enumerate(tqdm(drawn, desc=scene, unit="photo", disable=None)):
            kept = cache / scene / f"{names[index]}.npz"
            if not kept.is_file():
                photo = limit_size(read_gray(photos / scene / "images" / names[index]), SIDE)
                made = examples_of(photo, 50000 + 1000 * number + count)
                kept.parent.mkdir(parents=True, exist_ok=True)
                with atomic_file(kept) as temporary, open(temporary, "wb") as file:
                    np.savez(file, allow_pickle=False, **made)
            with np.load(kept) as stored:
                parts.append(dict(stored))
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


if __name__ == "__main__":
    main()
