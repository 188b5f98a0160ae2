"""Times on a GPU: stages of the contest, each step of an image, other sizes of kernels, the training step."""

from __future__ import annotations

import json
import re
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import cv2
import torch
import torch.nn.functional as F
from torch import Tensor

import patchprint
from patchprint.common import provenance
from patchprint.common.errors import MissingPackageError, require
from patchprint.common.progress import json_lines
from patchprint.common.types import Features, Keypoints, ModelId
from patchprint.detectors import detect, dog as dog_module, learned as learned_module
from patchprint.detectors._learned_networks import load_networks
from patchprint.features import load
from patchprint.features.extract import DescribeSettings
from patchprint.features.model import DEFAULT_MODEL
from patchprint.matching import match
from patchprint.networks.engines import AUTO
from patchprint.ops.sampling import ImagePyramids, cut_patches
from patchprint.pipelines import bench
from patchprint.storage import describe_jobs
from patchprint.storage.feature_folder import describe_folder
from perf.speed import contest, folder as speed_of_folder, graph_matcher as graph_speed, training_speed
from perf.speed.contest import _growth as growth_module
from perf.speed.on_gpu._common import Lease, attempt, milliseconds, on_device, profile

_MODELS = ("patchprint", "patchprint.fast", "patchprint.tiny")
_OTHERS = ("kornia HyNet", "kornia HardNet", "OpenCV SIFT")
_COUNT = 2000  # keypoints
_FOLDERS = (100, 900)  # images in the smaller and the larger folder
_PATCHES = 2048  # of a training step
# Rows and columns, or pixels, of the programs of `dog`.
_DOG: tuple[dict[str, Any], ...] = (
    {}, {"_BLUR": (1, 1024)}, {"_BLUR": (4, 128)}, {"_BLUR": (16, 64)}, {"_BLUR": (16, 128)}, {"_BLUR": (32, 32)},
    {"_EXTREMA": (1, 512)}, {"_EXTREMA": (8, 64)}, {"_EXTREMA": (2, 128)}, {"_PIXELS": 64}, {"_PIXELS": 32}, {"_CANVAS": 64},
)  # fmt: skip
# Queries, base, width and warps of the kernel for nearest neighbors.
_NEAREST = (
    (64, 64, 64, 4),
    (64, 64, 32, 4),
    (64, 128, 32, 4),
    (64, 128, 64, 8),
    (128, 64, 32, 4),
    (128, 128, 32, 8),
    (32, 64, 64, 4),
)
# Variants of the training step, and what results call them.
_STEPS = {
    "now": "sdgmnet",
    "tuned": "sdgmnet, sizes of programs by this run",
    "plain": "plain eager float32",
    "hardnet": "hardnet",
}
# Numbers in the registers of a program of the norm, and its warps.
_NORMS = ((8192, 4), (8192, 8), (16384, 8), (32768, 16))
_MAPS = ((32, 32), (64, 16), (128, 8))  # channels and side of the maps of the FRN trunk


def _show(lease: Lease, name: str, times: Mapping[str, Any]) -> None:
    lease.keep(name, times)
    for what, taken in times.items():
        print(f"   {what}: {taken}")


def _changed(module: ModuleType, changes: Mapping[str, Any], work: Callable[[], Any]) -> Any:
    """Return what ``work`` returns while names of a module have other values."""
    before = {name: getattr(module, name) for name in changes}
    try:
        for name, value in changes.items():
            setattr(module, name, value)
        return work()
    finally:
        for name, value in before.items():
            setattr(module, name, value)


def contest_stages(lease: Lease) -> None:
    """Run stages of the contest, kept one by one, since a lease may end at any time: results/speed/bench-h200.json."""
    data, scores, started = lease.bench, {}, time.monotonic()
    setup = contest.Contest(data, lease.device, _MODELS, [AUTO], _OTHERS)
    attempt("models", partial(setup.ours, [AUTO]))
    attempt("others", setup.others)
    for stage in ("image", "match", "latency", "keypoints", "sample", "describe", "limits", "detect"):

        def run(stage: str = stage) -> dict[str, float]:
            scores[stage] = contest.STAGES[stage](setup).score(stage, lease.rounds, lease.device)
            every = {**scores, "left_out": setup.left_out}
            lease.keep_result(
                "bench-h200", bench.record(data, every, lease.rounds, lease.device, started, busy_cores=0)
            )
            found = scores[stage]["contenders"]
            return {name: each["best_ms"] for name, each in sorted(found.items(), key=lambda item: item[1]["best_ms"])}

        attempt(f"contest, {stage}", run)


def folder(lease: Lease) -> None:
    """Images a second of a folder: results/speed/folder-h200.json."""
    counts = (8, 24) if lease.brief else _FOLDERS
    result = speed_of_folder.measure(lease.bench, model=DEFAULT_MODEL, device=str(lease.device), counts=counts)
    lease.keep_result("folder-h200", result)
    print("   ", result.scores)


def graph_matcher(lease: Lease) -> None:
    """The learned matcher beside the ratio test: results/speed/graph-matcher-h200.json."""
    started, scores = time.monotonic(), {}
    settings = {"device": str(lease.device), "threads": torch.get_num_threads(), "rounds": 4 if lease.brief else 30}
    counts = (_COUNT,) if lease.brief else (_COUNT, 500, 8000)
    for count in counts:
        for matcher in ("mutual+ratio", "graph"):
            work = partial(graph_speed.measure, matcher, count, Namespace(**settings))
            scores[f"{matcher}, {count} keypoints"] = attempt(f"{matcher}, {count} keypoints", work)
            record = provenance.record("graph-matcher-speed", settings=settings, scores=scores, seed=0, started=started)
            lease.keep_result("graph-matcher-h200", record)
    for count in counts if lease.device.type == "cuda" else ():
        work_of_one = partial(match, *graph_speed.features(count), "graph", device=lease.device)
        attempt(f"profile, {count} keypoints", partial(profile, work_of_one, rows=16))


def growth_by_keypoints(lease: Lease) -> None:
    """Time and memory by the number of keypoints: results/speed/growth-h200.json."""
    counts = (500, 1000) if lease.brief else growth_module.COUNTS
    models = [DEFAULT_MODEL] if lease.brief else [DEFAULT_MODEL, "patchprint.tiny"]
    result = growth_module.growth(lease.bench, models, counts, device=str(lease.device))
    lease.keep_result("growth-h200", result)
    for model, score in result.scores.items():
        print("   ", model, score["power_of_time"], [[row["keypoints"], row["seconds"]] for row in score["rows"]])


def dog(lease: Lease) -> None:
    """Finding keypoints: beside OpenCV, by kernel, and with other sizes of programs."""
    from patchprint.detectors import _scale_space_kernels as kernels

    image, place = lease.bench.images[0], lease.device
    find = partial(detect, image, max_keypoints=_COUNT, device=place)
    times: dict[str, Any] = {
        "OpenCV SIFT": milliseconds(
            lambda: require("cv2", extra="images").SIFT_create(nfeatures=_COUNT).detect(image, None)
        ),
        "on the CPU": milliseconds(lambda: detect(image, max_keypoints=_COUNT)),
        "on the GPU": milliseconds(find),
        "before the choice": milliseconds(lambda: dog_module.find_dog_on_gpu(image, None, None, place)),
    }
    attempt("profile", lambda: profile(find))
    size = torch.tensor(image.shape, dtype=torch.int32).view(torch.uint8)
    given = torch.cat([size, torch.from_numpy(image).flatten()]).to(place)

    def recorded() -> float:
        canvas = [-(-side // kernels._CANVAS) * kernels._CANVAS for side in image.shape]
        run = kernels._Prepared.make(canvas[0], canvas[1], dog_module.CONTRAST, dog_module.EDGE, 1, place).run
        return on_device(lambda: run(given))

    for changes in _DOG:
        times[f"recorded {changes}"] = attempt(str(changes), partial(_changed, kernels, changes, recorded))
    _show(lease, "time of dog", times)


def learned(lease: Lease) -> None:
    """Finding keypoints with `learned`: on both devices, before and after its size was recorded, and by stage."""
    image, place = lease.bench.images[0], lease.device
    find = partial(detect, image, "learned", max_keypoints=_COUNT, device=place)
    networks, pixels = load_networks(device=place), torch.from_numpy(image).to(place)
    look = torch.no_grad()(partial(learned_module._Look.at, pixels, networks))
    times: dict[str, Any] = {
        "on the CPU": milliseconds(partial(detect, image, "learned", max_keypoints=_COUNT)),
        "on the GPU": milliseconds(find),
        "dog on the GPU": milliseconds(partial(detect, image, max_keypoints=_COUNT, device=place)),
        "look, operation by operation": attempt("look", partial(milliseconds, look)),
    }
    if place.type == "cuda":
        looks = learned_module._Looks(networks, image.size)
        times["look, recorded"] = attempt("recorded", torch.no_grad()(lambda: on_device(lambda: looks.at(pixels))))
    attempt("profile of the look", lambda: profile(look))
    attempt("profile", lambda: profile(find))
    _show(lease, "time of learned", times)


def matching(lease: Lease) -> None:
    """Mutual matches, beside kornia where it is and its formula in plain operations; other sizes of programs."""
    from patchprint.ops import distances_kernel as kernels

    def features(count: int, seed: int) -> Features:
        vectors = F.normalize(torch.randn(count, 128, generator=torch.Generator().manual_seed(seed)), dim=1)
        return Features(Keypoints(torch.rand(count, 2), 1.0), vectors, (9, 9), None, ModelId("made up"))

    def plainly(a: Tensor, b: Tensor) -> Tensor:
        apart = torch.cdist(a.to(lease.device), b.to(lease.device))
        column, back = apart.min(1).indices, apart.min(0).indices
        rows = torch.arange(len(a), device=lease.device)
        keep = back[column] == rows
        return torch.stack([rows[keep], column[keep]], 1).cpu()

    times: dict[str, Any] = {}
    for count in (500, 2000, 8000, 20_000):
        a, b = features(count, 0), features(count, 1)
        b.descriptors[: count // 2] = F.normalize(
            a.descriptors[: count // 2] + 0.03 * torch.randn(count // 2, 128), dim=1
        )
        times[f"{count}, plain operations"] = milliseconds(partial(plainly, a.descriptors, b.descriptors))
        try:
            kornia = require("kornia.feature", extra="eval")
            there = [each.descriptors.to(lease.device) for each in (a, b)]
            times[f"{count}, kornia, on the GPU already"] = milliseconds(partial(kornia.match_mnn, *there))
        except MissingPackageError as error:
            print(f"   {error}")
        for matcher in ("mutual", "mutual+ratio"):
            times[f"{count}, {matcher}"] = milliseconds(partial(match, a, b, matcher, device=lease.device))
        if count <= 8000:
            here, found = (match(a, b, "mutual", device=device).indices for device in ("cpu", lease.device))
            print(f"   {count}: the same matches as on the CPU: {torch.equal(here, found)}")
        if count in (2000, 20_000):
            queries, base = (each.descriptors.to(lease.device) for each in (a, b))
            for sizes in _NEAREST:
                changes = dict(zip(("_QUERIES", "_BASE", "_WIDTH", "_WARPS"), sizes, strict=True))
                work = partial(on_device, partial(kernels.two_nearest, queries, base, True), 5)
                times[f"{count}, {sizes}"] = attempt(f"{count}, {sizes}", partial(_changed, kernels, changes, work))
        if count == _COUNT:
            attempt("profile", partial(profile, partial(match, a, b, "mutual+ratio", device=lease.device)))
    _show(lease, "time of match", times)


def image(lease: Lease) -> None:
    """The steps from an image to its descriptors, at 500 and 2000 keypoints, and by kernel."""
    data, place, times = lease.bench, lease.device, {}
    pixels = data.images[0]
    for name in ("patchprint", "patchprint.tiny", "patchprint.fast"):
        model = load(name, place)

        def cut(points: Keypoints, model: Any = model) -> Tensor:
            return cut_patches(ImagePyramids.build([pixels], place), 0, points, model.patch_scale, model.input_size)

        for count in (500, _COUNT):
            points = data.keypoints[0][:count]
            patches = cut(points)
            times[f"{name}, {count}: pyramid"] = milliseconds(lambda: ImagePyramids.build([pixels], place))
            times[f"{name}, {count}: and patches"] = milliseconds(partial(cut, points))
            times[f"{name}, {count}: network"] = milliseconds(partial(model.describe_patches, patches))
            times[f"{name}, {count}: all"] = milliseconds(partial(model.describe_keypoints, pixels, points))
        times[f"{name}: whole image"] = milliseconds(partial(patchprint.extract, pixels, model, max_keypoints=_COUNT))
        attempt(
            f"profile, {name}", partial(profile, partial(model.describe_keypoints, pixels, data.keypoints[0][:500]))
        )
    attempt("profile, whole image", partial(profile, partial(patchprint.extract, pixels, model, max_keypoints=_COUNT)))
    _show(lease, "time of an image", times)


def ways_of_a_folder(lease: Lease) -> None:
    """Images a second of `describe_folder` by threads that use the GPU and turns of Python's lock, and in processes."""
    counts = (8, 24) if lease.brief else (50, 400)
    data, times = lease.bench, {}
    with tempfile.TemporaryDirectory() as name:
        made = Path(name)
        for count in counts:
            (made / str(count)).mkdir()
            for number in range(count):
                cv2.imwrite(str(made / str(count) / f"{number}.jpg"), data.images[number % len(data.images)])
        settings = DescribeSettings(max_keypoints=_COUNT, device=str(lease.device))

        def run(way: str, describe: Callable[[int, Path], None]) -> dict[str, Any]:
            seconds, lines = [], made / f"{way}.jsonl"
            for count in counts:
                began = time.perf_counter()
                with json_lines(lines):
                    describe(count, made / f"{count} {way}")
                seconds.append(round(time.perf_counter() - began, 3))
            said = [json.loads(line) for line in lines.read_text().splitlines()]
            rate = (counts[1] - counts[0]) / (seconds[1] - seconds[0])
            return {
                "images_per_second": round(rate, 1),
                "seconds": seconds,
                "stations_ms": said and said[-1]["stations_ms"],
            }

        def in_threads(count: int, out: Path) -> None:
            describe_folder(made / str(count), out, settings)

        def in_processes(count: int, out: Path) -> None:
            """Read, find, describe and pack in three processes."""
            out.mkdir()
            jobs = [describe_jobs.Job(path, None, out / f"{path.stem}.npz") for path in (made / str(count)).iterdir()]
            prepare = partial(describe_jobs._describer, settings, 2)
            there = partial(describe_jobs._run_here, 3)
            for number, (each,) in describe_jobs._run_blocks(there, [[job] for job in jobs], prepare):
                describe_jobs._save(jobs[number], each)

        usual = sys.getswitchinterval()
        for threads, interval in ((2, usual), (1, usual), (3, usual), (2, usual / 20), (3, usual / 20)):
            sys.setswitchinterval(interval)
            way = f"{threads} threads, turns of {1e3 * interval:g} ms"
            work = partial(_changed, describe_jobs, {"_DESCRIBERS": threads}, partial(run, way, in_threads))
            times[way] = attempt(way, work)
        sys.setswitchinterval(usual)
        times["processes"] = attempt("processes", partial(run, "processes", in_processes))
    _show(lease, "time of a folder", times)


def layers(lease: Lease) -> None:
    """Kernels of the training step alone, with other sizes of programs."""
    from patchprint.networks import convolution_kernels, frn_kernel

    place = lease.device
    times: dict[str, Any] = {}

    def made(*shape: int) -> Tensor:
        return torch.randn(*shape, device=place).bfloat16().contiguous(memory_format=torch.channels_last)

    for channels, side in _MAPS:
        x, gradient = made(_PATCHES, channels, side, side), made(_PATCHES, channels, side, side)
        weight, bias, tau = (torch.randn(1, channels, 1, 1, device=place) for _ in range(3))
        shift, eps = torch.randn(channels, device=place), torch.tensor([1e-6], device=place)
        _, scale = frn_kernel.frn_tlu(x, shift, weight, bias, tau, eps)
        works: dict[str, Callable[[], Any]] = {
            "forward": partial(frn_kernel.frn_tlu, x, shift, weight, bias, tau, eps),
            "backward": partial(frn_kernel.frn_tlu_backward, gradient, x, shift, scale, weight, bias, tau),
        }
        for direction, work in works.items():
            for sizes in _NORMS:
                name, change = f"norm {channels} {direction}: {sizes}", {"PLAN": {**frn_kernel.PLAN, direction: sizes}}
                times[name] = attempt(name, partial(_changed, frn_kernel, change, partial(on_device, work)))
    x, kernel = made(_PATCHES, 1, 32, 32), made(32, 1, 3, 3)
    gradient, wide = made(_PATCHES, 32, 32, 32), made(_PATCHES, 32, 32, 32)
    backward = partial(convolution_kernels.first_backward, gradient, x, kernel)
    alternatives: dict[str, tuple[tuple[tuple[int, ...], ...], Callable[[], Any]]] = {
        "first": (((128, 4), (256, 4)), partial(convolution_kernels.first, x, kernel)),
        "first_dx": (((64, 4), (128, 4), (128, 8), (256, 8)), backward),
        "first_dw": (((128, 4, 528), (128, 4, 1056)), backward),
        "gradient": (
            ((32, 4, 528), (64, 4, 528), (64, 4, 1056), (128, 8, 528)),
            partial(convolution_kernels.weight_gradient, gradient, wide),
        ),
    }
    for key, (plans, work) in alternatives.items():
        for plan in plans:
            change = {"PLANS": {**convolution_kernels.PLANS, key: plan}}
            name, timed = f"{key}: {plan}", partial(on_device, work)
            times[name] = attempt(name, partial(_changed, convolution_kernels, change, timed))
    _show(lease, "time of layers", times)


def step(variant: str, lease: Lease) -> None:
    """Time the training step of the FRN trunk, as it is or "tuned" by what `layers` found, of HardNet, or without any of this.

    Steps so far are in results/speed/training-speed-h200.json.
    """
    from patchprint.networks import convolution_kernels, frn_kernel

    started = time.monotonic()
    if variant == "tuned":
        times = lease.kept("time of layers")
        convolution_kernels.PLANS |= _fastest(times, convolution_kernels.PLANS, r"{}")
        frn_kernel.PLAN |= _fastest(times, frn_kernel.PLAN, r"norm \d+ {}")
        print("   plans", convolution_kernels.PLANS, frn_kernel.PLAN)
    options = {"width": 32, "dropout": 0.3}
    arguments = Namespace(
        pairs=_PATCHES // 2, width=32, steps=10 if lease.brief else 100, data=None,
        out=lease.folder / "results" / "training-speed-h200.json",
    )  # fmt: skip
    if lease.device.type != "cuda":  # to try the script
        arguments.pairs, arguments.steps, options["width"] = 8, 2, 8
    source = training_speed.synthetic_images(lease.device)
    if variant == "plain":
        found = training_speed.time_plain(source, arguments, options)
    else:
        recipe = "hardnet" if variant == "hardnet" else "sdgmnet"
        found = training_speed.time_ours(source, recipe, arguments, options, variant == "tuned" and not lease.brief)
    print("   ", {name: value for name, value in found.items() if name != "profile"}, flush=True)
    lease.keep(f"step, {variant}", found)
    measured = {called: kept for name, called in _STEPS.items() if (kept := lease.kept(f"step, {name}"))}
    training_speed.write_result(measured, arguments, started)


step_now, step_tuned, step_plain, step_hardnet = (partial(step, name) for name in _STEPS)


def _fastest(times: Mapping[str, Any], plans: Mapping[str, Any], pattern: str) -> dict[str, tuple[int, ...]]:
    """Return the plans with the least time, added up over all measurements of a plan."""
    found = {}
    for key in plans:
        total: dict[str, float] = {}
        for name, taken in times.items():
            if taken and re.fullmatch(pattern.format(key), name.split(":")[0]):
                total[name.split(":")[1]] = total.get(name.split(":")[1], 0.0) + taken
        if total:
            found[key] = tuple(int(number) for number in re.findall(r"\d+", min(total, key=lambda plan: total[plan])))
    return found
