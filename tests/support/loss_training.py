"""A short training of a narrow network with any loss, on images that scikit-image ships.

``python tests/support/loss_training.py [loss ...]`` writes the curves of those losses, or of those that have none.
Everything is in float64, so that other processors follow the same curve closely; patches are cut at random places, so that
no version of a keypoint detector matters.
"""

import functools
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

if __name__ == "__main__":  # the helpers have one name, however this file is run
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from patchprint import losses, networks
from patchprint.common.devices import single_thread
from patchprint.data.builders import bundled_images
from patchprint.losses import DescriptorBatch
from patchprint.metrics.verification import fpr95
from patchprint.ops.sampling import ImagePyramids, sample_patches
from support.checkout import TESTS
from support.curve_files import PinnedCurves, Series, Tolerance

STEPS, PAIRS, LOGGED_EVERY = 30, 16, 5


@dataclass(frozen=True)
class ShortRun:
    """Mean loss of every five steps, and the share of false positives at 95 % recall on a held-out image."""

    curve: list[float]
    fpr95: float


def patches_of(names: tuple[str, ...], count: int, seed: int) -> Tensor:
    """Two views of ``count`` random places: turned, scaled and shifted against each other, in other light.

    Shape:
        -> (count, 2, 1, 32, 32) float64 in [0, 1].
    """
    random = np.random.default_rng(seed)
    images = [bundled_images.image(name) for name in names]
    image, center = [], []
    while len(center) < count:
        which = int(random.integers(len(images)))
        y, x = (int(random.integers(24, side - 24)) for side in images[which].shape)
        if images[which][y - 8 : y + 8, x - 8 : x + 8].std() > 12:  # something must be there to recognize
            image.append(which)
            center.append((x, y))
    turn, zoom = random.uniform(-0.4, 0.4, (2, count)), np.exp(random.uniform(-0.25, 0.25, (2, count)))
    views = []
    for view in range(2):
        cos, sin = (12 * zoom[view] * f(turn[view]) for f in (np.cos, np.sin))
        frame = np.stack([np.stack([cos, -sin], -1), np.stack([sin, cos], -1)], -2)
        moved = np.array(center) + random.uniform(-1.5, 1.5, (count, 2))
        arguments = (torch.tensor(image), torch.from_numpy(moved).float(), torch.from_numpy(frame).float())
        cut = sample_patches(ImagePyramids.build(images), *arguments, 32).double()
        gamma = torch.from_numpy(np.exp(random.uniform(-0.4, 0.4, count)))[:, None, None, None]
        views.append(cut.clamp_min(1e-3) ** gamma)
    return torch.stack(views, 1)


def false_positives(descriptors: Tensor) -> float:
    """FPR95 of descriptors (N, 2, D): matching views against views of other places, ten of them each."""
    anchor, positive = descriptors.unbind(1)
    matching = (anchor - positive).norm(dim=1)
    others = [(anchor - positive.roll(shift, 0)).norm(dim=1) for shift in range(1, 11)]
    distance = torch.cat([matching, *others])
    return fpr95(distance.numpy(), torch.arange(len(distance)).numpy() < len(matching))


def raw_pixels(patches: Tensor) -> Tensor:
    """Patches with their own mean and deviation removed, as descriptors (N, 2, 1024)."""
    flat = patches.flatten(2)
    return (flat - flat.mean(-1, keepdim=True)) / (flat.std(-1, keepdim=True) + 1e-7)


@single_thread()  # sums over several threads have another order
def train(name: str) -> ShortRun:
    training, held_out = data()
    random = np.random.default_rng(0)
    loss = losses.create(name, **losses.LOSSES[name].settings_for_run(steps=STEPS, batch=PAIRS, seed=0)).double()
    kind = "binary" if loss.binary else "float"
    network = networks.create("hardnet", dim=32, width=4, dropout=0.0, kind=kind).double().train()
    networks.set_num_views(network, 2)
    for weight in network.parameters():
        # NumPy's numbers are the same on every processor, PyTorch's normal ones are not.
        values = random.normal(size=tuple(weight.shape)) / np.sqrt(weight[0].numel())
        weight.data.copy_(torch.from_numpy(values))
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
    totals = []
    for step in range(STEPS):
        chosen = torch.from_numpy(random.permutation(len(training))[:PAIRS])
        raw, maps = network.forward_features(training[chosen].transpose(0, 1).flatten(0, 1), with_maps=loss.needs_maps)

        def by_point(value: Tensor) -> Tensor:
            return value.unflatten(0, (2, -1)).transpose(0, 1)

        batch = DescriptorBatch(
            desc=by_point(network.head(raw)),
            raw=by_point(raw),
            maps=None if maps is None else tuple(by_point(value) for value in maps),
            progress=step / STEPS,
            step=step,
        )
        total = loss(batch)["total"]
        optimizer.zero_grad()
        total.backward()
        optimizer.step()
        totals.append(total.item())
    network.eval()
    with torch.no_grad():
        descriptors = network(held_out.flatten(0, 1)).unflatten(0, (-1, 2))
    curve = np.array(totals).reshape(-1, LOGGED_EVERY).mean(1)
    return ShortRun(curve.tolist(), false_positives(descriptors))


@functools.cache
def data() -> tuple[Tensor, Tensor]:
    """Training patches (600, 2, 1, 32, 32) and held-out ones (200, 2, 1, 32, 32)."""
    return patches_of(("astronaut", "coins"), 600, seed=0), patches_of(("camera",), 200, seed=1)


def series(result: ShortRun) -> Series:
    return {"curve": result.curve, "fpr95": [result.fpr95]}


CURVES = PinnedCurves(
    script=Path(__file__).resolve(),
    folder=TESTS / "losses" / "curves",
    names=losses.LOSSES,
    compute=lambda name: series(train(name)),
    # There are 2000 wrong pairs: two of them may change places.
    allowed={"curve": Tolerance(1e-6, 1e-9), "fpr95": Tolerance(0.0, 0.001)},
)

if __name__ == "__main__":
    CURVES.write()
