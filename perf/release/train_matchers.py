r"""Train matchers on a GPU machine that is lent for minutes: the ablations of `patchprint study matcher`, several at once.

    python -m perf.release.train_matchers pack --train STORE... --test STORE... --out data/matcher   # at most --mib, carried
    python3 -m perf.release.train_matchers run --carried data/matcher --seconds 240 --out "$OUT"     # there
    python -m perf.release.train_matchers unpack OUT --carried data/matcher --work runs/matcher-study   # tables and weights

``pack`` makes images smaller, warps them, detects keypoints and leaves observations out, so that stores become small enough and
the machine needs no OpenCV. ``run`` describes all images with all processes, measures in a few steps how fast all runs are side
by side, takes as many steps as fit into the time, and hands back results and the best weights, of runs that were cut off too.
``--only`` and ``--model`` are those of the study: matchers for other descriptors are trained by the same commands.
"""

from __future__ import annotations

import argparse
import dataclasses
import fnmatch
import json
import multiprocessing
import os
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from patchprint.common import files
from patchprint.common.processes import run_tasks
from patchprint.common.safe_io import read_json, read_npz
from patchprint.common.types import Keypoints
from patchprint.data import track_files
from patchprint.data.builders.homographies import render_views
from patchprint.data.track_files import Names
from patchprint.data.tracks import Tracks
from patchprint.detectors import detect
from patchprint.features.model import load
from patchprint.interop.images import decode_gray, limit_size
from patchprint.matching.feature_bank import (
    FEWEST,
    BankSettings,
    Camera,
    bank_folder,
    keep_camera,
    keep_views,
    resect,
)
from patchprint.matching.matcher_training import MOST_KEYPOINTS, MatcherSettings
from patchprint.studies import STUDIES, Options, run_study
from patchprint.studies._engine import MADE_BY, do_run
from patchprint.studies._plan import Plan, asked_for, plan
from patchprint.training.run_folder import read_metrics
from perf.lease.gpu import _do_without_packages

STUDY, OBSERVATIONS, PROBE_STEPS = "matcher", 1000, 60
SETS = ("train", "test")
MEASURED_IMAGES = 40
# Keypoints are carried as whole numbers of 16 bits: parts of a pixel, of a natural logarithm of the scale, of a radian.
_SUBPIXELS, SMALLEST, _SUBSCALES, _SUBANGLES = 64, 0.3, 8000, 10_000
_CAMERA = 22  # numbers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    packing = commands.add_parser("pack")
    packing.set_defaults(function=pack)
    packing.add_argument("--train", type=Path, nargs="+", required=True)
    packing.add_argument("--test", type=Path, nargs="+", required=True)
    packing.add_argument("--images", type=int, default=50, help="of each store, evenly spread over it")
    packing.add_argument("--side", type=int, default=640, help="most pixels of an image along a side")
    packing.add_argument("--copies", type=int, default=1, help="of each image, warped")
    packing.add_argument("--keypoints", type=int, default=MOST_KEYPOINTS)
    packing.add_argument("--mib", type=float, default=13.5)
    packing.add_argument("--out", type=Path, required=True)
    running = commands.add_parser("run")
    running.set_defaults(function=run)
    running.add_argument("--carried", type=Path, required=True)
    running.add_argument("--work", type=Path, default=Path("/tmp/train-matchers"))
    running.add_argument("--seconds", type=float, default=450)
    running.add_argument("--jobs", type=int, default=16)
    running.add_argument("--model", default="patchprint.fast")
    running.add_argument("--only", nargs="+", default=["*"], help="patterns of names of runs")
    running.add_argument("--device", default="cuda")
    running.add_argument("--budget", type=float, help="of the steps of the study, in place of those that fit")
    running.add_argument("--out", type=Path, required=True)
    unpacking = commands.add_parser("unpack")
    unpacking.set_defaults(function=unpack)
    unpacking.add_argument("back", type=Path)
    unpacking.add_argument("--carried", type=Path, required=True)
    unpacking.add_argument("--work", type=Path, required=True)
    arguments = parser.parse_args()
    arguments.function(arguments)


# --- Here, before.


def pack(given: argparse.Namespace) -> None:
    """Write images, copies, their keypoints, and fewer observations of each store, of the best quality that fits."""
    smaller = {}
    for kind in SETS:
        for folder in getattr(given, kind):
            most, copies = (given.images, given.copies) if kind == "train" else (min(given.images, MEASURED_IMAGES), 1)
            images, tracks = _smaller(folder, most, given.side)
            smaller[kind, folder] = _with_copies(images, copies, given.keypoints, tracks)
    given.out.mkdir(parents=True, exist_ok=True)
    for quality in (80, 70, 60, 50, 40, 30):
        for (kind, folder), (images, arrays) in smaller.items():
            encoded = [_encode(image, quality) for image in images]
            blob = np.frombuffer(b"".join(encoded), np.uint8)
            lengths = np.array([len(each) for each in encoded], np.int32)
            packed: dict[str, Any] = {"images": blob, "lengths": lengths, **arrays}
            np.savez_compressed(given.out / f"{kind}-{folder.name}.npz", **packed)
        size = sum(path.stat().st_size for path in given.out.glob("*.npz")) / 2**20
        print(f"quality {quality}: {size:.1f} MiB, {sum(len(images) for images, _ in smaller.values())} views")
        if size <= given.mib:
            return
    sys.exit(f"{size:.1f} MiB are more than --mib {given.mib:g}; give fewer --images")


def _with_copies(
    images: list[np.ndarray], copies: int, most: int, tracks: dict[str, np.ndarray]
) -> tuple[list[np.ndarray], dict[str, np.ndarray]]:
    """Return images and their warped copies in turns, and of all of them keypoints, homographies and cameras."""
    views, found, cameras = [], [], []
    for number, image in enumerate(images):
        views += render_views(image, copies, seed=number)
        here = tracks["image"] == number
        xyz, xy = tracks["xyz"][tracks["point"][here]], tracks["xy"][here].astype(np.float32) / 8 - 4
        camera = resect(xyz, xy, np.array(image.shape[::-1])) if here.sum() >= FEWEST else None
        cameras.append(
            [np.nan] * _CAMERA if camera is None else np.concatenate([*map(np.ravel, vars(camera).values())])
        )
    for view in views:
        points = detect(view.image, "dog", max_keypoints=most)
        columns = [*points.xy.T * _SUBPIXELS, (points.scale / SMALLEST).log() * _SUBSCALES, points.angle * _SUBANGLES]
        found.append(torch.stack(columns, 1).round().clamp(0, 65535).numpy().astype(np.uint16))
    return [view.image for view in views], {
        **tracks,
        "keypoints": np.concatenate(found),
        "count": np.array([len(each) for each in found], np.int32),
        "homography": np.stack([view.homography for view in views]),
        "camera": np.array(cameras),
    }


def _encode(image: np.ndarray, quality: int) -> bytes:
    import cv2

    done, data = cv2.imencode(".webp", image, [cv2.IMWRITE_WEBP_QUALITY, quality])
    assert done
    return data.tobytes()


def _smaller(folder: Path, count: int, side: int) -> tuple[list[np.ndarray], dict[str, np.ndarray]]:
    """Return images of a store, and their observations of the points that most of them show."""
    stored = track_files.read(folder)
    total = len(stored.sizes)
    chosen = np.unique(np.linspace(0, total - 1, min(total, count)).round().astype(int))
    images = [limit_size(stored.image(int(number)), side) for number in chosen]
    factor = np.array(
        [max(image.shape) / max(stored.sizes[number]) for image, number in zip(images, chosen, strict=True)]
    )
    tracks = stored.arrays
    place = np.full(total, -1)
    place[chosen] = np.arange(len(chosen))
    image, point = place[tracks["image"]], np.asarray(tracks["point"])
    seen = np.bincount(point[image >= 0], minlength=len(tracks["xyz"]))
    kept = []
    for number in range(len(chosen)):
        here = np.flatnonzero((image == number) & (seen[point] >= 2))
        kept.append(here[np.argsort(-seen[point[here]], kind="stable")[:OBSERVATIONS]])
    rows = np.concatenate(kept)
    xy = (np.asarray(tracks["xy"])[rows] + 0.5) * factor[image[rows], None] - 0.5
    labels, dense = np.unique(point[rows], return_inverse=True)
    return images, {
        "image": image[rows].astype(np.uint16),
        "point": dense.astype(np.uint32),
        "xy": np.clip((xy + 4) * 8, 0, 65535).round().astype(np.uint16),
        "xyz": np.asarray(tracks["xyz"])[labels].astype(np.float32),
    }


# --- There.


def run(given: argparse.Namespace) -> None:
    """Build the stores, describe their images, train, and hand back what there is when the time is over."""
    end = time.monotonic() + given.seconds
    os.environ["PATCHPRINT_CACHE"] = str(given.work / "cache")
    given.out.mkdir(parents=True, exist_ok=True)
    stores = _unpack_stores(given.carried, given.work / "stores")
    _say(end, f"{sum(map(len, stores.values()))} stores")
    _describe(stores, given)
    _say(end, "described")
    steps = MatcherSettings(**STUDIES[STUDY].cases[0].settings).steps
    budget = given.budget
    if budget is None:
        began = time.monotonic()
        _work(given, stores, given.work / "probe", PROBE_STEPS / steps, end)
        lines = [read_metrics(path) for path in (given.work / "probe/runs").glob("*/metrics.jsonl")]
        rates = [line["pairs_per_second"] for found in lines for line in found[-2:] if "pairs_per_second" in line]
        batch = STUDIES[STUDY].cases[0].settings["batch"]
        around = time.monotonic() - began - PROBE_STEPS * batch / min(rates)  # start, and measuring at the end
        budget = 0.85 * (end - time.monotonic() - around - 10) * min(rates) / batch / steps
        _say(
            end,
            f"{min(rates):.0f} to {max(rates):.0f} pairs a second, {around:.0f} s around, {budget * steps:.0f} steps",
        )
    _work(given, stores, given.work / "out", budget, end)
    _hand_back(given.work / "out", given.out)
    _say(end, "done")


def _say(end: float, what: str) -> None:
    print(f"{end - time.monotonic():.0f} s left: {what}", flush=True)


def _unpack_stores(carried: Path, folder: Path) -> dict[str, list[Path]]:
    _do_without_packages()
    stores: dict[str, list[Path]] = {kind: [] for kind in SETS}
    for path in sorted(carried.glob("*.npz")):
        kind, _, name = path.stem.partition("-")
        arrays = read_npz(path, "a packed store")
        images = _images(arrays)[:: _views(arrays)]
        xy, point = arrays["xy"].astype(np.float32) / 8 - 4, arrays["point"].astype(np.int64)
        same = np.zeros(len(xy), np.float32)
        tracks = Tracks.from_observations(arrays["image"], xy, same + 2, same, point, xyz=arrays["xyz"][point])
        if not (folder / path.stem).exists():
            names = Names([f"{number:04d}.webp" for number in range(len(images))], [name])
            track_files.write(folder / path.stem, images, tracks, names)
        stores[kind].append(folder / path.stem)
    return stores


def _images(arrays: dict[str, np.ndarray]) -> list[bytes]:
    """Return all images as they were encoded, each followed by its copies."""
    ends, blob = np.cumsum(arrays["lengths"]), arrays["images"].tobytes()
    return [blob[stop - length : stop] for stop, length in zip(ends, arrays["lengths"], strict=True)]


def _views(arrays: dict[str, np.ndarray]) -> int:
    return len(arrays["lengths"]) // len(arrays["camera"])


def _packed_settings(carried: Path) -> dict[str, Any]:
    """Return the copies of an image that were packed, and the most keypoints of a view."""
    packed = [read_npz(path, "a packed store") for path in sorted(carried.glob("train-*.npz"))]
    return {"copies": _views(packed[0]) - 1, "max_keypoints": max(int(each["count"].max()) for each in packed)}


def _bank(given: argparse.Namespace, kind: str) -> BankSettings:
    """Return what the study describes: of each store to learn from all copies, of the others one copy of some images."""
    settings = MatcherSettings(model=given.model, **_packed_settings(given.carried))
    bank = dict(settings.config(["store"]).batcher_options)
    bank.pop("model")
    if kind == "test":
        bank |= {"images": MEASURED_IMAGES, "copies": 1}
    return BankSettings(**bank)


def _describe(stores: dict[str, list[Path]], given: argparse.Namespace) -> None:
    """Fill the cache, with all processes."""
    parts = multiprocessing.get_context("spawn")
    workers = [
        parts.Process(target=_describe_part, args=(stores, given, number, given.jobs)) for number in range(given.jobs)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        if worker.exitcode:
            sys.exit("describing failed")


def _describe_part(stores: dict[str, list[Path]], given: argparse.Namespace, part: int, parts: int) -> None:
    """Describe the packed keypoints of some of the images, and keep them and their cameras in the cache."""
    _do_without_packages()
    torch.set_num_threads(1)
    model = load(given.model, given.device, engine="float32")
    for kind, folders in stores.items():
        settings = _bank(given, kind)
        for folder in folders:
            arrays = read_npz(given.carried / f"{folder.name}.npz", "a packed store")
            kept = bank_folder(track_files.read(folder), model, settings)
            kept.mkdir(parents=True, exist_ok=True)
            images, keypoints, each = _images(arrays), _keypoints(arrays), _views(arrays)
            for number in range(part, len(arrays["camera"]), parts):
                views = slice(number * each, (number + 1) * each)
                decoded = [decode_gray(data, folder.name) for data in images[views]]
                path = kept / f"{number:06d}.npz"
                keep_views(path, model, decoded, keypoints[views], list(arrays["homography"][views]))
                keep_camera(path.with_suffix(".camera.npz"), _camera(arrays["camera"][number]))


def _keypoints(arrays: dict[str, np.ndarray]) -> list[Keypoints]:
    x, y, scale, angle = torch.from_numpy(arrays["keypoints"].astype(np.float32)).T
    xy, scale = torch.stack([x, y], 1) / _SUBPIXELS, SMALLEST * (scale / _SUBSCALES).exp()
    parts = (each.split(arrays["count"].tolist()) for each in (xy, scale, angle / _SUBANGLES))
    return [Keypoints(*of_view) for of_view in zip(*parts, strict=True)]


def _camera(values: np.ndarray) -> Camera | None:
    if np.isnan(values[0]):
        return None
    intrinsics, rotation, translation, distortion = np.split(values, [9, 18, 21])
    return Camera(intrinsics.reshape(3, 3), rotation.reshape(3, 3), translation, float(distortion[0]))


def _options(given: argparse.Namespace, stores: dict[str, list[Path]], out: Path, budget: float) -> Options:
    changes = {"model": given.model, **_packed_settings(given.carried)}
    changes["validate_every"] = max(10, round(500 * budget))
    data = {kind: tuple(folders) for kind, folders in stores.items()}
    named = {"data": data, "out": out, "budget": budget, "changes": changes, "device": given.device}
    return Options(**named, seeds=(0,), keep=True)


def _work(given: argparse.Namespace, stores: dict[str, list[Path]], out: Path, budget: float, end: float) -> None:
    """Do all runs side by side in another process, which is ended when the time is over."""
    options = vars(_options(given, stores, out, budget))
    text = json.dumps(options, default=lambda value: str(value) if isinstance(value, Path) else dict(value))
    code = "from perf.release.train_matchers import work; import sys; work(sys.argv[1], int(sys.argv[2]), sys.argv[3:])"
    process = subprocess.Popen([sys.executable, "-c", code, text, str(given.jobs), *given.only], start_new_session=True)
    try:
        process.wait(max(1.0, end - time.monotonic() - 8))
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        process.wait()


def work(text: str, jobs: int, only: list[str]) -> None:
    """Do the runs of a study whose options are ``text`` and whose names match a pattern, ``jobs`` at a time."""
    values = json.loads(text)
    values["data"] = {name: tuple(map(Path, paths)) for name, paths in values["data"].items()}
    values |= {"out": Path(values["out"]), "reuse": (), "seeds": tuple(values["seeds"])}
    options = Options(**values)
    every = asked_for(plan(STUDIES[STUDY], options), options)
    wanted = [each for each in every if any(fnmatch.fnmatchcase(each.name, pattern) for pattern in only)]
    for number, answer in run_tasks(_runner, wanted, jobs):
        print(f"{wanted[number].name}: {answer or 'done'}", flush=True)


def _runner() -> Any:
    torch.set_num_threads(1)
    return _do


def _do(each: Plan) -> str:
    return do_run(each)


def _hand_back(done: Path, out: Path) -> None:
    """Pack results, what was logged, and the best weights of all runs."""
    with tarfile.open(out / "matchers.tar.gz", "w:gz") as stream:
        for path in sorted(done.glob("runs/*.json")) + sorted(done.glob("runs/*.log")):
            stream.add(path, path.name)
        for folder in sorted(path for path in done.glob("runs/*") if path.is_dir()):
            for name in ("best.safetensors", "last.safetensors", "metrics.jsonl", "config.json"):
                if (folder / name).is_file():
                    stream.add(folder / name, f"{folder.name}/{name}")


# --- Here, afterwards.


def unpack(given: argparse.Namespace) -> None:
    """Write the tables of the study, and the weights beside them."""
    given.work.mkdir(parents=True, exist_ok=True)
    files.claim_folder(given.work, MADE_BY, ["runs/*", "stores/*"])
    with tarfile.open(given.back / "matchers.tar.gz") as stream:
        stream.extractall(given.work / "runs", filter="data")
    runs = [read_json(path, "the result of a run") for path in sorted((given.work / "runs").glob("*.json"))]
    config = runs[0]["config"]
    bank = config["batcher_options"]
    same = {"model": bank["model"], "carried": given.carried, "device": "cpu"}
    budget = config["steps"] / MatcherSettings(**STUDIES[STUDY].cases[0].settings).steps
    stores = _unpack_stores(given.carried, given.work / "stores")
    options = _options(argparse.Namespace(**same), stores, given.work, budget)
    options = dataclasses.replace(options, only=runs[0]["name"])  # the others are shown, not run
    print(run_study(STUDY, STUDIES[STUDY], options).table)


if __name__ == "__main__":
    main()
