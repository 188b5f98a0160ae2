"""Makes the weights of learned frames (`--frames learned`): a turn and a stretch for keypoints, learned from tracks.

    python -m perf.release.train_frames --data data/dense/notredame data/warped/wild-1 --held-out data/dense/bodleian \
        --out runs/frames.safetensors --device cuda

Two views of a point are turned and stretched at random, each by itself, and over the whole circle, since the direction has to
be found from nothing. The network sees each and corrects its frame; patches are read from the photos at the corrected frames
and described by a network that does not learn. The loss is AffNet's: the distance of the two views, as long as it is not
smaller by a margin than that to the hardest other point of the batch, which carries no gradient. A turn that is far off has
no way downhill in there, so the angle between the two corrected frames is a loss as well.

Printed of held-out points: the part of pairs whose corrected frames differ by at most 10, 20 and 45 degrees, and the part
that are found among all others by their descriptors, at the frames of the tracks, at turned and stretched ones, and at what
becomes of both.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor
from tqdm import tqdm

from patchprint import rng
from patchprint.detectors._frames import PATCH_SCALE, SIDE, WEIGHTS, FrameNetwork
from patchprint.devices import choose_device
from patchprint.distances import chance_of_same_index
from patchprint.files import atomic_file
from patchprint.networks import PatchNetwork
from patchprint.networks.weights import load_network, to_bytes
from patchprint.patches import TrackStore
from patchprint.patches.augment import Augmentation
from patchprint.patches.batches import two_views

JITTER = Augmentation(rotation=180.0, shear=0.4, scale=0.25, shift=0.02)
MARGIN, RATE, DECAY = 1.0, 4e-3, 1e-4
DEGREES = (10, 20, 45)
HELD_OUT = 2000  # points
_CHUNK = 500  # of them at a time

Correct = Callable[[Tensor], Tensor]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--data", nargs="+", required=True, help="stores of tracks whose training points are learned from"
    )
    parser.add_argument("--held-out", nargs="+", required=True, help="stores whose held-out points are judged")
    parser.add_argument("--out", type=Path, default=WEIGHTS, help="file to write; that of the package if not given")
    parser.add_argument("--describer", default="sdgmnet.fast", help="what describes patches; it does not learn")
    parser.add_argument("--steps", type=int, default=8000)
    parser.add_argument("--batch", type=int, default=1024, help="points, in two views each")
    parser.add_argument("--agreement", type=float, default=1.0, help="weight of the angle between corrected frames")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    device = choose_device(arguments.device)
    describer = load_network(arguments.describer, device).requires_grad_(False)
    scale = describer.info.patch_scale
    source = TrackStore.open(arguments.data, device, scale).split("train")
    judged = TrackStore.open(arguments.held_out, device, scale).split("val")
    started = time.monotonic()
    network = train(source, describer, arguments.steps, arguments.batch, arguments.agreement, arguments.seed, judged)
    print(f"{arguments.steps} steps in {time.monotonic() - started:.0f} s")
    found = judge(network, describer, judged, arguments.seed)
    about = {
        "format": "patchprint frames",
        "made by": "python -m perf.release.train_frames",
        "tracks": ", ".join(Path(folder).name for folder in arguments.data),
        "learned": f"{arguments.steps} steps of {arguments.batch} points through {arguments.describer}",
        "seed": str(arguments.seed),
        "held out": f"{', '.join(Path(folder).name for folder in arguments.held_out)}: {in_words(found)}",
        "license": "Apache-2.0",
    }
    # Kernels in halves; statistics of batch norm in floats, since variances may be smaller than halves can tell.
    state = {name: value.detach().cpu().contiguous() for name, value in network.state_dict().items()}
    state = {name: value.half() if value.ndim == 4 else value for name, value in state.items()}
    with atomic_file(arguments.out) as temporary:
        temporary.write_bytes(to_bytes(state, about))


def train(
    source: TrackStore,
    describer: PatchNetwork,
    steps: int,
    batch: int,
    agreement: float,
    seed: int,
    judged: TrackStore | None = None,
) -> FrameNetwork:
    """A network that learned from the points of a source, cut at the patch scale of the describer.

    Ten times on the way it is judged by the points of ``judged``, where they are given.
    """
    torch.manual_seed(seed)
    network = FrameNetwork().to(source.device)
    usable = torch.nonzero(source.num_views >= 2)[:, 0]
    optimizer = torch.optim.AdamW(network.parameters(), lr=RATE, weight_decay=DECAY)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=steps)
    for step in tqdm(range(steps), desc="training", disable=None):
        key = rng.key(seed, step, source.device)
        points = usable[rng.integers(rng.fold_in(key, 0), len(usable), (batch,))]
        views = two_views(rng.fold_in(key, 1), source.num_views[points])
        frames = corrected(network, source, points, views, jitter(rng.fold_in(key, 2), views))
        # The chord and not its square, since where a place looks alike from two sides no turn is right.
        loss = agreement * (2 * torch.sin(angle_between(frames) / 2).abs()).mean()
        loss = loss + triplet_loss(*describe(describer, source, points, views, frames).unbind(1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if judged is not None and (step + 1) % max(steps // 10, 1) == 0:
            found = judge(network, describer, judged, seed)
            print(f"step {step + 1}, loss {float(loss.detach()):.4f}; {in_words(found)}", flush=True)
    return network.eval()


def jitter(key: Tensor, views: Tensor) -> Tensor:
    """Random frames in units of those of the tracks: views (P, K) -> (P, K, 2, 3)."""
    return JITTER.warp(key, torch.ones(*views.shape, 2, device=views.device))


def corrected(network: FrameNetwork, source: TrackStore, points: Tensor, views: Tensor, frames: Tensor) -> Tensor:
    """What becomes of frames in units of those of the tracks, where the network sees the photos at them.

    Shape:
        points (P,), views (P, K), frames (P, K, 2, 3) -> (P, K, 2, 3).
    """
    linear, shift = frames[..., :2], frames[..., 2:]
    seen = torch.cat([linear * (PATCH_SCALE / source.patch_scale), shift], -1)
    turn, stretch = network(source.sample(points, views, SIDE, seen).flatten(0, 1))
    return torch.cat([linear @ (stretch @ turn).unflatten(0, views.shape), shift], -1)


def describe(describer: PatchNetwork, source: TrackStore, points: Tensor, views: Tensor, frames: Tensor) -> Tensor:
    """Descriptors (P, K, D) of patches at frames (P, K, 2, 3) in units of those of the tracks."""
    patches = source.sample(points, views, describer.input_size, frames)
    return describer(patches.flatten(0, 1)).unflatten(0, views.shape)


def angle_between(frames: Tensor) -> Tensor:
    """Radians by which the second of two frames is turned against the first: (P, 2, 2, 3) -> (P,)."""
    cos = frames[..., 0, 0] + frames[..., 1, 1]
    sin = frames[..., 1, 0] - frames[..., 0, 1]
    first, second = torch.atan2(sin, cos).unbind(1)
    return second - first


def triplet_loss(first: Tensor, second: Tensor) -> Tensor:
    """AffNet's: descriptors (P, D) of two views; the distance to the hardest negative is taken as it is."""
    own = (first - second).square().sum(1).clamp(min=1e-8).sqrt()
    with torch.no_grad():
        others = (2 - 2 * first @ second.T).clamp(min=0).sqrt().fill_diagonal_(torch.inf)
        hardest = torch.minimum(others.amin(0), others.amin(1))
    return F.relu(MARGIN + own - hardest).mean()


@torch.no_grad()
def judge(network: FrameNetwork, describer: PatchNetwork, source: TrackStore, seed: int) -> dict[str, float]:
    """Angles that agree and points that are found, each as a part of held-out points, by what the network started from."""
    network = network.eval()
    key = rng.fold_in(rng.key(seed, device=source.device), 0x7A11D)
    usable = torch.nonzero(source.num_views >= 2)[:, 0]
    points = usable[rng.permutation(rng.fold_in(key, 0), len(usable))[:HELD_OUT]]
    views = two_views(rng.fold_in(key, 1), source.num_views[points])
    given = {"tracks": torch.eye(2, 3, device=source.device).expand(*views.shape, 2, 3), "jitter": jitter(key, views)}
    found: dict[str, float] = {}
    for name, frames in given.items():
        parts = list(zip(*(each.split(_CHUNK) for each in (points, views, frames)), strict=True))
        learned = torch.cat([corrected(network, source, *part) for part in parts])
        degrees = angle_between(learned).cpu().rad2deg()
        apart = ((degrees + 180) % 360 - 180).abs()
        found |= {f"{name}, angles within {limit}": float((apart <= limit).float().mean()) for limit in DEGREES}
        for suffix, looked in (("", frames), (", learned", learned)):
            pieces = zip(points.split(_CHUNK), views.split(_CHUNK), looked.split(_CHUNK), strict=True)
            both = torch.cat([describe(describer, source, *piece).cpu() for piece in pieces])
            found[f"{name}{suffix}, found"] = float(chance_of_same_index(*both.unbind(1))[1].mean())
    network.train()
    return found


def in_words(found: dict[str, float]) -> str:
    return "; ".join(f"{name} {value:.4f}" for name, value in found.items())


if __name__ == "__main__":
    main()
