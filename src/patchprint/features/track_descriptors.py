"""Describe the observations of a TrackStore in their own images, so that SIFT and networks see the same pixels."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from patchprint.common.types import Keypoints
from patchprint.data.tracks import TrackStore
from patchprint.features.model import Model


def describe_observations(model: Model, store: TrackStore, rows: Tensor) -> Tensor:
    """Describe rows of ``store.tracks``; every distinct one is described once.

    Shape:
        rows (N,) int64 -> (N, D).
    """
    tracks = store.tracks
    distinct, place = torch.unique(rows.cpu(), return_inverse=True)
    chosen = distinct.numpy()
    order, descriptors = [], []
    for image in np.unique(tracks.image[chosen]).tolist():
        here = np.flatnonzero(tracks.image[chosen] == image)
        frames = (torch.from_numpy(values[chosen[here]]) for values in (tracks.xy, tracks.scale, tracks.angle))
        order.append(torch.from_numpy(here))
        descriptors.append(model.describe_keypoints(store.images.pixels(image), Keypoints(*frames)))
    return torch.cat(descriptors)[torch.argsort(torch.cat(order))][place]
