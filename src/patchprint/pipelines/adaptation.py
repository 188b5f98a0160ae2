"""A descriptor tuned to your own photos: reconstruct them, learn from their tracks, and say what was gained.

Two things are held out of the tuning: a region of the scene (points that no training batch holds) and some of the photos, which
are matched with others and mapped afterwards (``adapt_judge``). The start model, SIFT and RootSIFT are measured on the same
keypoints. Written is what does better: where nothing was gained, the start weights.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from patchprint.common import provenance
from patchprint.common.errors import UserError
from patchprint.common.files import refuse_file
from patchprint.common.optional import require
from patchprint.common.provenance import Result
from patchprint.data.builders import colmap_tracks, image_folder
from patchprint.data.tracks import Tracks, TrackStore
from patchprint.features.model import NetworkModel, load
from patchprint.interop.image_files import list_images
from patchprint.matching.calibration import CALIBRATION_IMAGES, calibrate, spread_over
from patchprint.networks import ModelInfo, weights
from patchprint.pipelines.adapt_judge import HeldOutPhotos, Scores, measured_in, verdict
from patchprint.training import checkpoint, resolve
from patchprint.training.loop import train

SFM = "sfm"  # folder in the work folder
FEWEST_POINTS = 200
BASELINES = ("sift", "rootsift")
NEIGHBORS = 64  # points of one photo that stand together in a batch
BESIDE = (".json", ".html")  # what `patchprint adapt` writes beside the weights


@dataclass(frozen=True)
class AdaptPlan:
    """How to tune. ``held_out`` is the part of the photos that training never sees."""

    model: str = "sdgmnet"
    steps: int = 200
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
    start = load(plan.model)
    if not isinstance(start, NetworkModel):
        raise UserError(f"{plan.model} has no weights to tune; start from the name or file of trained weights")
    config = resolve(
        "sdgmnet",
        network=start.info.network,
        network_options=start.info.options,
        loss="doap-binary" if start.kind == "binary" else "sdgm",
        # Against other places of the same photo, and with frames as wrong as a detector's, as the shipped weights learned.
        batcher="neighbors",
        batcher_options={"run": math.gcd(plan.batch, NEIGHBORS)},
        augmentation="wide",
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
    candidates = {name: work / f"{name}.safetensors" for name in ("start", "tuned")}
    # One threshold of the ratio test for both: a looser one alone gives more matches and points.
    ratio = _ratio(plan.model, store)
    weights.save(start.network, candidates["start"], dataclasses.replace(start.info, ratio=ratio), half=True)
    _write_tuned(outcome.last, candidates["tuned"], Path(out).stem, start.info, store, ratio)
    judge = HeldOutPhotos(store, unseen_images, reconstruction_in(Path(folder), work), plan.seed)
    models = {**{name: str(path) for name, path in candidates.items()}, **{name: name for name in BASELINES}}
    measured, mapped = judge.compare({name: load(model, engine="float32") for name, model in models.items()})
    if "left_out" in mapped:
        report(str(mapped["left_out"]))
    scores = {name: each.scores for name, each in measured.items()}
    answer = verdict(measured["start"], measured["tuned"])
    info = _write_chosen(answer, candidates, Path(out), scores, store)
    return provenance.record(
        "adapt",
        settings=dataclasses.asdict(plan),
        model={"name": info.name, "sha256": info.sha256, "start": start.info.name, "verdict": answer},
        data={
            "path": str(folder),
            "photos": len(store.images),
            "held_out_photos": len(unseen_images),
            "pairs": len(judge.pairs),
            "points": store.num_points,
            "mapped": mapped,
        },
        seed=plan.seed,
        scores=scores,
        started=started,
    )


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
            colmap_tracks.build(folder, store, densify=True, patch_scale=patch_scale, strict=strict)
        else:
            sfm = store.with_name(SFM)
            image_folder.build(folder, store, densify=True, patch_scale=patch_scale, work=sfm, strict=strict)
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


def _write_tuned(trained: Path, out: Path, name: str, start: ModelInfo, store: TrackStore, ratio: float | None) -> None:
    network = weights.load_network(trained)
    info = dataclasses.replace(
        start,
        name=f"{start.network}.{name}",
        training=dataclasses.replace(
            network.info.training,
            data=f"{start.training.data}; then {len(store.images)} photos of {', '.join(store.names.scenes)}",
            start=start.name,
        ),
        sha256="",
        ratio=ratio,
        provisional=False,
    )
    weights.save(network, out, info, half=True)


def _write_chosen(
    answer: str, candidates: dict[str, Path], out: Path, scores: dict[str, Scores], store: TrackStore
) -> ModelInfo:
    """The tuned weights where they gained something, else those they started from, calibrated; the notes say which and why."""
    change = ", ".join(
        f"{measure.label} {measure.shown(scores['start'][name])} to {measure.shown(scores['tuned'][name])}"
        for name, measure in measured_in(scores).items()
    )
    start = weights.load_network(candidates["start"]).info
    if answer == "gained":
        chosen, notes = candidates["tuned"], f"tuned from {start.name} by patchprint adapt; {change}"
    else:
        chosen, notes = (
            candidates["start"],
            f"the weights of {start.name}, since patchprint adapt ended with {answer!r}: {change}",
        )
    network = weights.load_network(chosen)
    # That of the start weights is their own already.
    ratio = _ratio(chosen, store) if answer == "gained" else start.ratio
    return weights.save(network, out, dataclasses.replace(network.info, notes=notes, ratio=ratio), half=True)


def _ratio(model: str | Path, store: TrackStore) -> float | None:
    """The threshold of the ratio test on warped copies of some of the photos; None where they have too little to match."""
    try:
        chosen = spread_over(len(store.images), CALIBRATION_IMAGES)
        return calibrate(model, map(store.images.pixels, chosen)).ratio
    except UserError:
        return None
