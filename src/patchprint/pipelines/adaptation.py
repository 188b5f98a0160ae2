"""Tune a descriptor, its matcher or both to a folder of images: reconstruct them, train on their tracks, measure the gain.

Two things are held out of the tuning: a region of the scene (points that no training batch holds) and some of the images, which
are matched with others afterwards (``adapt_judge``), beside the start model, SIFT and RootSIFT. The tuned weights are written
only where they gained something; otherwise the start weights are.
"""

import dataclasses
import math
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from patchprint.common import provenance
from patchprint.common.errors import UserError, require
from patchprint.common.files import atomic_file, check_output_file
from patchprint.common.provenance import Result
from patchprint.data.builders import colmap_tracks, image_folder
from patchprint.data.tracks import Tracks, TrackStore
from patchprint.features.model import NetworkModel, load
from patchprint.interop.images import list_images
from patchprint.matching.calibration import CALIBRATION_IMAGES, calibrate, spread_over
from patchprint.matching.matcher_training import MatcherSettings, MatcherTask
from patchprint.matching.matchers.graph import SHIPPED
from patchprint.networks import ModelInfo, weights
from patchprint.networks.network import TrainingRecord
from patchprint.pipelines.adapt_judge import HeldOutPairs, verdict
from patchprint.pipelines.training_run import train_task
from patchprint.training import TrainConfig, checkpoint, resolve
from patchprint.training.loop import train

SFM = "sfm"  # folder in the work folder
MIN_POINTS = 200
BASELINES = ("sift", "rootsift")
NEIGHBORS = 64  # points of one image that stand together in a batch
Tuned = Literal["descriptor", "matcher", "both"]
BESIDE = (".json", ".html")  # what `patchprint adapt` writes beside the weights


@dataclass(frozen=True, kw_only=True)
class AdaptSettings:
    """How a model is tuned; ``held_out`` images measure the gain."""

    # What is tuned: the descriptor, the matcher graph for it, or one after the other.
    tune: Tuned = "descriptor"

    # Where to start: a name or a file of trained weights.
    model: str = "patchprint"
    # Training steps.
    steps: int = 200
    # Points in a batch, two images of each.
    batch: int = 128
    # Learning rate at the start.
    lr: float = 0.1
    # Training steps of the matcher.
    matcher_steps: int = 200
    # Part of the images that training never sees.
    held_out: float = 0.1
    # Seed of everything random.
    seed: int = 0
    # cpu, cuda, mps or auto.
    device: str = "auto"
    # Stop at the first image that cannot be read; by default it is named and left out.
    strict: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.held_out < 1:
            raise UserError(f"--held-out is {self.held_out}; it is a part of the images, above 0 and below 1")


def adapt(
    images: str | Path,
    *,
    out: str | Path,
    work: str | Path | None = None,
    settings: AdaptSettings | None = None,
    force: bool = False,
    report: Callable[[str], None] = print,
) -> Result:
    """Tune a model to the images in a folder and write the weights to ``out``.

    Args:
        images: folder of images, or of ``images/`` and ``sparse/`` of a COLMAP model.
        out: weights to write (.safetensors).
        work: folder for the reconstruction and the training run, which are not done again; default: ``out`` with the suffix
            ``.work``.
        settings: how to tune.
        force: replace ``out`` if it exists.
        report: called with a line on each step.
    """
    settings, folder, out, started = settings or AdaptSettings(), Path(images), Path(out), time.monotonic()
    work = Path(work) if work is not None else out.with_suffix(".work")
    for written in (out, *map(out.with_suffix, BESIDE)):
        check_output_file(written, force)
    if out.suffix != ".safetensors":
        raise UserError(f"--out {out}: weights are written as .safetensors")
    start = load(settings.model)
    of_descriptor = settings.tune != "matcher"
    if of_descriptor and not isinstance(start, NetworkModel):
        raise UserError(f"{settings.model} has no weights to tune; start from the name or file of trained weights")
    for_matcher = out if not of_descriptor else out.with_name(f"{out.stem}-matcher.safetensors")
    if settings.tune == "both":
        check_output_file(for_matcher, force)
    config = _config(start, settings) if isinstance(start, NetworkModel) else None  # refused before the work
    if not (work / "tracks").is_dir():
        require("pycolmap", extra="sfm")
        if not _has_model(folder):
            list_images(folder)  # raises where there are none
    report("1/3  points that several images show")
    store = _tracks(folder, work / "tracks", start.patch_scale, settings.strict)
    judge = HeldOutPairs(store, _unseen(store, settings.held_out, settings.seed))
    if isinstance(start, NetworkModel) and config is not None and of_descriptor:
        info, counts = _tune_descriptor(start, store, judge, folder, out, work, config, report)
        about = {"name": info.name, "sha256": info.sha256, "verdict": verdict(counts["start"], counts["tuned"])}
    else:
        about, counts = {"name": start.id.name, "sha256": start.id.sha256}, {}
    if settings.tune != "descriptor":
        described = str(out) if of_descriptor else settings.model
        counts |= _tune_matcher(described, judge, for_matcher, work, settings, report)
        about["matcher_verdict"] = verdict(counts["matcher before"], counts["matcher tuned"])
    return provenance.record(
        "adapt",
        settings=dataclasses.asdict(settings),
        model={**about, "start": start.id.name},
        data={
            "path": str(folder),
            "images": len(store.images),
            "held_out_images": len(judge.held_out),
            "pairs": len(judge.pairs),
            "points": store.num_points,
        },
        seed=settings.seed,
        scores={name: {"inliers": float(values.mean())} for name, values in counts.items()},
        started=started,
    )


def _config(start: NetworkModel, settings: AdaptSettings) -> TrainConfig:
    """Return the settings of the training of a descriptor."""
    return resolve(
        "sdgmnet",
        network=start.info.network,
        network_options=start.info.options,
        loss="doap-binary" if start.kind == "binary" else "sdgm",
        # Against other places of the same image, and with frames as wrong as a detector's, as the shipped weights learned.
        batcher="neighbors",
        batcher_options={"run": math.gcd(settings.batch, NEIGHBORS)},
        augmentation="wide",
        init=settings.model,
        steps=settings.steps,
        batch=settings.batch,
        lr=settings.lr,
        seed=settings.seed,
        device=settings.device,
        validate_every=max(settings.steps // 4, 1),
        checkpoint_every=max(settings.steps // 4, 1),
        log_every=max(settings.steps // 40, 1),
        tensorboard=False,
    )


def _tune_descriptor(
    start: NetworkModel,
    store: TrackStore,
    judge: HeldOutPairs,
    folder: Path,
    out: Path,
    work: Path,
    config: TrainConfig,
    report: Callable[[str], None],
) -> tuple[ModelInfo, dict[str, np.ndarray]]:
    """Train, judge and write a descriptor; returns what is written, and the verified matches of each candidate."""
    learned = _without_images(store, judge.held_out)
    points, fewest = learned.split("train").num_points, max(MIN_POINTS, config.batch)
    if points < fewest:
        raise UserError(
            f"the images in {folder} share only {points} points for training, fewer than {fewest}; "
            "give images that overlap more, or more of them"
        )
    report(f"2/3  tuning {config.init} on {points} points, {config.steps} steps")
    # A run that was stopped before its first checkpoint starts again.
    run = work / "training"
    begun = checkpoint.any_in(run / "checkpoints")
    outcome = train(config, learned, out=run, resume=begun, force=not begun)
    report("3/3  matching the images that were held out")
    # One threshold of the ratio test for both: a looser one alone gives more matches.
    start_info = dataclasses.replace(start.info, ratio=_ratio(str(config.init), store))
    tuned = weights.load_network(outcome.last)
    candidates = {
        "start": (start.network, start_info),
        "tuned": (tuned, _tuned_info(start_info, tuned.info, out.stem, store)),
    }
    files = {name: work / f"{name}.safetensors" for name in candidates}
    for name, (network, info) in candidates.items():
        weights.save(network, files[name], info, half=True)
    models = {name: str(file) for name, file in files.items()} | {name: name for name in BASELINES}
    counts = {name: judge.verified_matches(load(model, engine="float32")) for name, model in models.items()}
    answer = verdict(counts["start"], counts["tuned"])
    change = f"verified matches on held-out images {counts['start'].mean():.1f} to {counts['tuned'].mean():.1f}"
    if answer == "gained":
        network, info = candidates["tuned"]
        ratio, notes = _ratio(files["tuned"], store), f"tuned from {start.info.name} by patchprint adapt; {change}"
    else:
        network, info = candidates["start"]
        ratio = info.ratio
        notes = f"the weights of {start.info.name}, since patchprint adapt ended with {answer!r}: {change}"
    return weights.save(network, out, dataclasses.replace(info, notes=notes, ratio=ratio), half=True), counts


def _tune_matcher(
    model: str,
    judge: HeldOutPairs,
    out: Path,
    work: Path,
    settings: AdaptSettings,
    report: Callable[[str], None],
) -> dict[str, np.ndarray]:
    """Train, judge and write a matcher for a model, from the shipped weights."""
    report(f"2/3  tuning the matcher for {model}, {settings.matcher_steps} steps")
    chosen = MatcherSettings(
        model=model,
        steps=settings.matcher_steps,
        leave_out=tuple(map(int, judge.held_out)),
        init=SHIPPED,
        validate_every=max(settings.matcher_steps // 4, 1),
        seed=settings.seed,
        device=settings.device,
    )
    run = work / "matcher"
    begun = checkpoint.any_in(run / "checkpoints")
    task = MatcherTask(chosen.config([work / "tracks"]))
    outcome = train_task(task, out=run, resume=begun, force=not begun)
    report("3/3  matching the images that were held out")
    # The threshold of the start weights is chosen as that of the tuned ones: a looser one alone gives more matches.
    start = task.create_state().network
    task.pairs.measure(start)
    files = {"matcher before": work / "matcher-before.safetensors", "matcher tuned": Path(outcome.best)}
    task.save(start, files["matcher before"], "graph", TrainingRecord(start="graph"))
    counts = {name: judge.verified_matches(load(model), str(file)) for name, file in files.items()}
    gained = verdict(counts["matcher before"], counts["matcher tuned"]) == "gained"
    with atomic_file(out) as temporary:
        shutil.copyfile(files["matcher tuned" if gained else "matcher before"], temporary)
    return counts


def _has_model(folder: Path) -> bool:
    return (folder / "sparse").is_dir() and (folder / "images").is_dir()


def _tracks(folder: Path, store: Path, patch_scale: float, strict: bool) -> TrackStore:
    if not store.is_dir():
        if _has_model(folder):
            colmap_tracks.build(folder, store, densify=True, patch_scale=patch_scale, strict=strict)
        else:
            sfm = store.with_name(SFM)
            image_folder.build(folder, store, densify=True, patch_scale=patch_scale, work=sfm, strict=strict)
    return TrackStore.open(store, patch_scale=patch_scale)


def _unseen(store: TrackStore, part: float, seed: int) -> np.ndarray:
    """Choose the images that are held out."""
    count = len(store.images)
    return np.random.default_rng(seed).permutation(count)[: max(1, round(part * count))]


def _without_images(store: TrackStore, unseen: np.ndarray) -> TrackStore:
    """Return the store without the observations in some images."""
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
    return TrackStore(store.images, fewer, store.names, store.patch_scale)


def _tuned_info(start: ModelInfo, trained: ModelInfo, name: str, store: TrackStore) -> ModelInfo:
    """Return the metadata of the tuned weights."""
    images = f"{len(store.images)} images of {', '.join(store.names.scenes)}"
    training = dataclasses.replace(trained.training, data=f"{start.training.data}; then {images}", start=start.name)
    return dataclasses.replace(start, name=f"{start.network}.{name}", training=training, sha256="", provisional=False)


def _ratio(model: str | Path, store: TrackStore) -> float | None:
    """Return the ratio threshold chosen on warped copies of some images; None if they have too few matches."""
    try:
        chosen = spread_over(len(store.images), CALIBRATION_IMAGES)
        return calibrate(model, map(store.images.pixels, chosen)).ratio
    except UserError:
        return None
