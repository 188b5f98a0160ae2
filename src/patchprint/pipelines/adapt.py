"""A descriptor tuned to your own photos: reconstruct them, learn from their tracks, and say what was gained.

Two things are held out of the tuning and measured afterwards: a region of the scene (points that no training batch holds)
and some of the photos (points that are known, seen in pictures that are not). The start model, SIFT and RootSIFT are measured
on the same keypoints.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from patchprint import provenance
from patchprint.distances import pair_distances
from patchprint.errors import UserError
from patchprint.extras import require
from patchprint.features.calibration import CALIBRATION_IMAGES, calibrate, spread_over
from patchprint.features.model import Model, NetworkModel, load
from patchprint.features.observations import describe_observations
from patchprint.files import refuse_file
from patchprint.interop.images import list_images
from patchprint.metrics.verification import fpr95
from patchprint.networks import ModelInfo, weights
from patchprint.patches.sources import bare_images, colmap
from patchprint.patches.splits import TRAIN
from patchprint.patches.tracks import Tracks, TrackStore
from patchprint.training import checkpoint, resolve
from patchprint.training.held_out import HeldOutPoints
from patchprint.training.loop import train
from patchprint.types import Result

SFM = "sfm"  # folder in the work folder
FEWEST_POINTS = 200
PAIRS = 20_000
HELD_OUT_POINTS = 5000  # among which each is looked for
BASELINES = ("sift", "rootsift")
BESIDE = (".json", ".html")  # what `patchprint adapt` writes beside the weights
# What is measured, and what it is called. FPR95 is at its floor for a good start model; confusion still tells models apart.
MEASURES = {
    "fpr95_held_out_points": "FPR95, held-out points",
    "fpr95_held_out_photos": "FPR95, held-out photos",
    "confused_held_out_points": "confused, held-out points",
}
# What can come of it, and what to do then.
VERDICTS = {
    "gained": "The tuned weights are better than those they started from: use them.",
    "lost": "The tuned weights are worse than those they started from: keep to these, or give more photos, or a lower --lr.",
    "mixed": "The tuned weights are better in one thing and worse in another: choose by what you need.",
    "no difference": "No difference beyond chance: nothing was gained on these photos, and the start weights will do.",
}


@dataclass(frozen=True)
class AdaptPlan:
    """How to tune. ``held_out`` is the part of the photos that training never sees."""

    model: str = "sdgmnet"
    steps: int = 400
    batch: int = 128
    lr: float = 0.1
    held_out: float = 0.1
    seed: int = 0
    device: str = "auto"
    # Stop at a photo that cannot be read; otherwise it is named and left out.
    strict: bool = False


def adapt(
    folder: str | Path,
    out: str | Path,
    work: str | Path,
    plan: AdaptPlan | None = None,
    force: bool = False,
    report: Callable[[str], None] = print,
) -> Result:
    """Tune ``plan.model`` to the photos in ``folder`` and write the weights to ``out``.

    ``folder`` holds pictures, or ``images/`` and ``sparse/`` of a COLMAP model. ``work`` keeps the reconstruction and the
    training run; what is there already is not done again.
    """
    plan, work, started = plan or AdaptPlan(), Path(work), time.monotonic()
    for written in (out, *map(Path(out).with_suffix, BESIDE)):
        refuse_file(written, force)
    if Path(out).suffix != ".safetensors":
        raise UserError(f"--out {out}: weights are written as .safetensors")
    if not 0 < plan.held_out < 1:
        raise UserError(f"--held-out is {plan.held_out}; it is a part of the photos, above 0 and below 1")
    start = load(plan.model).for_keypoints()
    if not isinstance(start, NetworkModel):
        raise UserError(f"{plan.model} has no weights to tune; start from the name or file of trained weights")
    config = resolve(
        "sdgmnet",
        network=start.info.network,
        network_options=start.info.options,
        loss="doap-binary" if start.kind == "binary" else "sdgm",
        init=plan.model,
        steps=plan.steps,
        batch=plan.batch,
        lr=plan.lr,
        seed=plan.seed,
        device=plan.device,
        validate_every=max(plan.steps // 4, 1),
        checkpoint_every=max(plan.steps // 4, 1),
        log_every=max(plan.steps // 40, 1),
        tensorboard=False,
    )
    if not (work / "tracks").is_dir():
        require("pycolmap", extra="sfm")
        if not _has_model(Path(folder)):
            list_images(folder)  # says what is wrong with the folder
    report("1/3  points that several photos show")
    store = _tracks(Path(folder), work / "tracks", start.info.patch_scale, plan.strict)
    learned, unseen_images = _hold_images_out(store, plan.held_out, plan.seed)
    points = learned.split("train").num_points
    if points < max(FEWEST_POINTS, plan.batch):
        raise UserError(
            f"the photos in {folder} share only {points} points for training, fewer than {max(FEWEST_POINTS, plan.batch)}; "
            "give photos that overlap more, or more of them"
        )
    report(f"2/3  tuning {plan.model} on {points} points, {plan.steps} steps")
    run = work / "training"
    # A run that was stopped before its first checkpoint starts again.
    begun = checkpoint.any_in(run / "checkpoints")
    outcome = train(config, learned, run, resume=begun, force=not begun)
    report("3/3  measuring on what was held out")
    models = {"start": plan.model, "tuned": str(outcome.last), **{name: name for name in BASELINES}}
    scores, trials = measure({name: load(model) for name, model in models.items()}, store, unseen_images, plan.seed)
    info = _write_weights(outcome.last, Path(out), start.info, store, scores)
    return provenance.record(
        "adapt",
        settings=dataclasses.asdict(plan),
        model={
            "name": info.name,
            "sha256": info.sha256,
            "start": start.info.name,
            "verdict": verdict(scores["start"], scores["tuned"], trials),
        },
        data={
            "path": str(folder),
            "photos": len(store.images),
            "held_out_photos": len(unseen_images),
            "points": store.num_points,
            "trials": trials,
        },
        seed=plan.seed,
        scores=scores,
        started=started,
    )


def measure(
    models: dict[str, Model], store: TrackStore, unseen_images: np.ndarray, seed: int
) -> tuple[dict[str, dict[str, float]], dict[str, int]]:
    """FPR95 of every model on the held-out region and on the held-out photos, and its confusion in the region, judged as
    training judges (``training.held_out``); and how many negatives or points each of these numbers is a part of."""
    region = store.split("val")
    held_out = HeldOutPoints(region, HELD_OUT_POINTS, seed)
    rows = region.observation(held_out.points, held_out.views).T.reshape(-1)
    first, second, is_match = _pairs_with_images(store, unseen_images, seed)
    scores: dict[str, dict[str, float]] = {}
    for name, model in models.items():
        judged = held_out.judge(*describe_observations(model, store, rows).split(len(held_out)))
        both = describe_observations(model, store, torch.cat([first, second])).split(len(first))
        scores[name] = {
            "fpr95_held_out_points": judged.fpr95,
            "fpr95_held_out_photos": fpr95(pair_distances(*both), is_match),
            "confused_held_out_points": judged.confusion,
        }
    counts = (len(held_out), int((~is_match).sum()), len(held_out))
    return scores, dict(zip(MEASURES, counts, strict=True))


def verdict(start: dict[str, float], tuned: dict[str, float], trials: dict[str, int]) -> str:
    """One of VERDICTS, from MEASURES before and after.

    A number has changed where the difference is more than twice its standard error, both numbers taken for parts of as many
    independent trials; they share their trials, so the true error is smaller.
    """
    changes = set()
    for name, count in trials.items():
        error = math.sqrt(sum(part * (1 - part) for part in (start[name], tuned[name])) / count)
        difference = start[name] - tuned[name]
        changes.add(0 if abs(difference) <= 2 * error else math.copysign(1, difference))
    better, worse = 1 in changes, -1 in changes
    return "mixed" if better and worse else "gained" if better else "lost" if worse else "no difference"


def reconstruction_in(folder: Path, work: Path) -> Path | None:
    """Where the sparse model lies that the points of ``work`` come from."""
    own = work / SFM / "sparse"
    if own.is_dir():
        return own
    return folder / "sparse" if _has_model(folder) else None


def _has_model(folder: Path) -> bool:
    return (folder / "sparse").is_dir() and (folder / "images").is_dir()


def _tracks(folder: Path, store: Path, patch_scale: float, strict: bool) -> TrackStore:
    if not store.is_dir():
        if _has_model(folder):
            colmap.build(folder, store, densify=True, patch_scale=patch_scale, strict=strict)
        else:
            sfm = store.with_name(SFM)
            bare_images.build(folder, store, densify=True, patch_scale=patch_scale, work=sfm, strict=strict)
    return TrackStore.open(store, patch_scale=patch_scale)


def _hold_images_out(store: TrackStore, part: float, seed: int) -> tuple[TrackStore, np.ndarray]:
    """The store without the observations in some photos, and those photos."""
    count = len(store.images)
    unseen = np.random.default_rng(seed).permutation(count)[: max(1, round(part * count))]
    tracks = store.tracks
    kept = ~np.isin(tracks.image, unseen)
    kept &= np.bincount(tracks.point[kept], minlength=tracks.num_points)[tracks.point] >= 2
    labels = np.unique(tracks.point[kept])
    fewer = Tracks.from_observations(
        tracks.image[kept],
        tracks.xy[kept],
        tracks.scale[kept],
        tracks.angle[kept],
        tracks.point[kept],
        scene=tracks.scene[tracks.point[kept]],
    )
    assert tracks.part is not None
    fewer = dataclasses.replace(fewer, part=tracks.part[labels])
    return TrackStore(store.images, fewer, store.names, store.patch_scale), unseen


def _pairs_with_images(store: TrackStore, unseen: np.ndarray, seed: int) -> tuple[Tensor, Tensor, np.ndarray]:
    """Observations in held-out photos, each with one of the same training point elsewhere and one of another point."""
    tracks, generator = store.tracks, np.random.default_rng(seed)
    assert tracks.part is not None
    of_training = tracks.part[tracks.point] == TRAIN
    new = np.isin(tracks.image, unseen)
    known = np.flatnonzero(of_training & ~new)
    candidates = np.flatnonzero(of_training & new & np.isin(tracks.point, tracks.point[known]))
    if len(candidates) < 20:
        raise UserError("the held-out photos show too few of the points of the others; give photos that overlap more")
    anchor = generator.choice(candidates, min(PAIRS // 2, 20 * len(candidates)))
    # Known observations are sorted by point, so those of one point are a stretch of them.
    low = np.searchsorted(tracks.point[known], tracks.point[anchor], side="left")
    high = np.searchsorted(tracks.point[known], tracks.point[anchor], side="right")
    positive = known[low + (generator.random(len(anchor)) * (high - low)).astype(np.int64)]
    outside = (generator.random(len(anchor)) * (len(known) - (high - low))).astype(np.int64)
    negative = known[np.where(outside < low, outside, outside + (high - low))]
    first, second = np.concatenate([anchor, anchor]), np.concatenate([positive, negative])
    return torch.from_numpy(first), torch.from_numpy(second), np.repeat([True, False], len(anchor))


def _write_weights(trained: Path, out: Path, start: ModelInfo, store: TrackStore, scores: dict[str, Any]) -> ModelInfo:
    gain = ", ".join(
        f"{MEASURES[place]} {100 * scores['start'][place]:.2f} % to {100 * value:.2f} %"
        for place, value in scores["tuned"].items()
    )
    network = weights.load_network(trained)
    info = dataclasses.replace(
        start,
        name=f"{start.network}.{out.stem}",
        training=dataclasses.replace(
            network.info.training,
            data=f"{start.training.data}; then {len(store.images)} photos of {', '.join(store.names.scenes)}",
            start=start.name,
        ),
        notes=f"tuned from {start.name} by patchprint adapt; {gain}",
        sha256="",
        ratio=_ratio(trained, store),
        provisional=False,
    )
    return weights.save(network, out, info, half=True)


def _ratio(trained: Path, store: TrackStore) -> float | None:
    """The threshold of the ratio test on warped copies of some of the photos; None where they have too little to match."""
    try:
        chosen = spread_over(len(store.images), CALIBRATION_IMAGES)
        return calibrate(trained, map(store.images.pixels, chosen)).ratio
    except UserError:
        return None
