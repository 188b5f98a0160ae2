"""Write a loss, train it on a network, and compare it with HardNet's on held-out points.

python examples/add_a_loss.py IMAGES

CONTRIBUTING.md says how a loss becomes one of patchprint's own, with a recipe and all tests that every loss passes.
"""

import argparse
from pathlib import Path

import torch
from torch import Tensor

from patchprint import losses, networks
from patchprint.common import rng
from patchprint.data.batches import two_views
from patchprint.data.builders.homographies import make_tracks
from patchprint.data.tracks import TrackStore
from patchprint.interop.images import read_gray
from patchprint.losses import DescriptorBatch
from patchprint.losses.loss import Loss, PairLoss, Pairs
from patchprint.losses.mining import hardest_cosine
from patchprint.training.held_out import HeldOutPoints


class SoftHardLoss(PairLoss):
    """HardNet's triplets with a soft margin: ``mean log(1 + exp((negative - positive) / temperature))`` of cosines."""

    def __init__(self, temperature: float = 0.1) -> None:
        super().__init__()
        self.temperature = temperature

    def compute_pairs(self, pairs: Pairs) -> dict[str, Tensor]:
        positive = (pairs.anchor * pairs.positive).sum(1)
        negative = hardest_cosine(pairs.anchor, pairs.positive, 1.0, pairs.ignore)
        total = torch.nn.functional.softplus((negative - positive) / self.temperature).mean()
        return {"total": total, "positive": positive.mean(), "negative": negative.mean()}


def train(loss: Loss, source: TrackStore, steps: int) -> networks.PatchNetwork:
    """A narrow HardNet after ``steps`` batches of 64 points in two views each."""
    torch.manual_seed(0)
    network = networks.create("hardnet", width=8)
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
    network.train()
    for step in range(steps):
        key = rng.key(0, step)
        points = rng.permutation(rng.fold_in(key, 0), source.num_points)[:64]
        patches = source.sample(points, two_views(rng.fold_in(key, 1), source.num_views[points]), network.input_size)
        raw, _ = network.forward_features(patches.flatten(0, 1), with_maps=False)
        raw = raw.unflatten(0, (-1, 2))
        total = loss(DescriptorBatch(desc=torch.nn.functional.normalize(raw, dim=-1), raw=raw))["total"]
        optimizer.zero_grad()
        total.backward()
        optimizer.step()
    return network


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("images", type=Path)
    parser.add_argument("--steps", type=int, default=100)
    arguments = parser.parse_args()

    images = [read_gray(path) for path in sorted(arguments.images.iterdir()) if path.is_file()]
    source = TrackStore.from_images(*make_tracks(images, num_views=3, seed=0, max_keypoints=300))
    held_out = torch.arange(source.num_points) % 4 == 0
    judge = HeldOutPoints(source.select(held_out.nonzero().flatten()), 500, seed=0)
    training = source.select((~held_out).nonzero().flatten())
    for name, loss in (("soft", SoftHardLoss()), ("hardnet", losses.create("hardnet"))):
        measured = judge.measure(train(loss, training, arguments.steps).in_evaluation())
        print(f"{name}: {100 * measured['confusion']:.1f} % of held-out points confused")


if __name__ == "__main__":
    main()
