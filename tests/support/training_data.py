"""Small training data and short runs that the training tests share."""

import dataclasses

import numpy as np
import torch

from patchprint.data import Tracks, TrackStore
from patchprint.data.image_store import ImageStore
from patchprint.data.patch_source import MinedLabels
from patchprint.training import RECIPES, resolve
from patchprint.training.loop import train
from patchprint.training.run_folder import read_metrics
from support import image_sets

SHORT = {
    "steps": 30,
    "batch": 16,
    "log_every": 1,
    "validate_every": 15,
    "checkpoint_every": 10,
    "validation_pairs": 64,
    "tensorboard": False,
    "device": "cpu",
    "precision": "float32",
}


def images(points=120, views=4, seed=0, upright=False, scenes=1, ragged=False):
    """A textured plane seen in several noisy photos, with slightly wrong keypoints; the last fifth of it is held out.

    Where all of them are ``upright``, every processor cuts the same patches: sines and cosines differ in their last digit.
    ``ragged`` leaves points with two to ``views`` views each.
    """
    generator = np.random.default_rng(seed)
    coarse = torch.from_numpy(generator.random((1, 1, 48, 48), dtype=np.float32))
    # In float64, since a pixel that one processor rounds down must not be rounded up by another.
    plane = torch.nn.functional.interpolate(coarse.double(), size=(192, 192), mode="bilinear")[0, 0].numpy()
    images = [
        np.clip(plane * 200 + generator.normal(25, 8, plane.shape), 0, 255).astype(np.uint8) for _ in range(views)
    ]
    xy, scale = generator.uniform(20, 172, (points, 2)), generator.uniform(1, 2.5, points)
    angle = generator.uniform(-3, 3, points)
    point, image = np.divmod(np.arange(points * views), views)
    if ragged:
        kept = image < 2 + point % (views - 1)
        point, image = point[kept], image[kept]
    tracks = Tracks.from_observations(
        image=image,
        xy=xy[point] + generator.normal(0, 0.7, (len(point), 2)),
        scale=scale[point] * np.exp(generator.normal(0, 0.1, len(point))),
        angle=(angle[point] + generator.normal(0, 0.1, len(point))) * (not upright),
        point=point,
        scene=point * scenes // points,
    )
    part = (np.arange(points) >= 0.8 * points).astype(np.uint8)
    return TrackStore.from_images(images, dataclasses.replace(tracks, part=part))


def with_mined_labels(source, clusters=5):
    """The source with random labels as mining leaves them: of each scene, patches of other clusters are distractors."""
    cluster = np.random.default_rng(0).integers(0, clusters, int(source.num_views.sum())).astype(np.int16)
    distractor = ~torch.eye(clusters, dtype=torch.bool).expand(int(source.scene.max()) + 1, -1, -1)
    source.mined = MinedLabels(torch.from_numpy(cluster), distractor)
    return source


def whole_images(folder):
    """Classes of images of 32 pixels, which every processor reads in the same way: no pixel lies between two others."""
    return ImageStore.open(image_sets.write_store(folder / "images", classes=24, size=(32, 32)))


def narrow(recipe):
    """Options that make the network of a recipe small."""
    if RECIPES[recipe].config.network == "embedding":
        return {"backbone": "resnet18-narrow", "dim": 16, "input_size": 32}
    return {"width": 4, "dim": 64 if "binary" in recipe else 32}


def short_run(recipe, folder, source=None, resume=False, **changes):
    """A run of 30 steps with a narrow network; returns the outcome and the loss of every step."""
    settings = {**SHORT, "network_options": narrow(recipe), **changes}
    outcome = train(resolve(recipe, **settings), images() if source is None else source, out=folder, resume=resume)
    return outcome, losses_of(folder)


def losses_of(folder):
    return [line["loss/total"] for line in read_metrics(folder / "metrics.jsonl") if "loss/total" in line]
