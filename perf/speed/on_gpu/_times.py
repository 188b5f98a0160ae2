"""Times on a GPU: stages of the contest, each step of an image, other sizes of kernels, the training step."""

from __future__ import annotations

import json
import re
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
from torch import Tensor, nn

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
from patchprint.networks.hynet import HyNet
from patchprint.ops.sampling import ImagePyramids, cut_patches
from patchprint.pipelines import bench
from patchprint.storage import describe_jobs
from patchprint.storage.feature_folder import describe_folder
from perf.speed import contest, folder as speed_of_folder, graph_matcher as graph_speed, training_speed
from perf.speed.contest import _growth as growth_module
from perf.speed.on_gpu import _step_kernels
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
    "all": "sdgmnet, new kernels of norm, first convolution and gradients of weights",
    "gradient": "sdgmnet, new kernel of gradients of weights",
    "norm": "sdgmnet, new kernel of the norm",
    "first": "sdgmnet, new kernel of the first convolution",
    "plain": "plain eager float32",
    "hardnet": "hardnet",
}
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
    matchers = ("mutual+ratio", "graph", *(["graph, recorded"] if lease.device.type == "cuda" else []))
    for count in (_COUNT,) if lease.brief else (_COUNT, 500, 8000):
        for matcher in matchers:
            work = partial(graph_speed.measure, matcher, count, Namespace(**settings))
            scores[f"{matcher}, {count} keypoints"] = attempt(f"{matcher}, {count} keypoints", work)
            record = provenance.record("graph-matcher-speed", settings=settings, scores=scores, seed=0, started=started)
            lease.keep_result("graph-matcher-h200", record)
    if lease.device.type == "cuda" and not lease.brief:
        a, b = graph_speed.features(_COUNT)
        for recorded in (False, True):
            work_of_one = partial(match, a, b, "graph", device=lease.device, record=recorded)
            attempt("profile", partial(profile, work_of_one, rows=20))


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
    _show(lease, "time of learned", times)
    attempt("profile", lambda: profile(find, calls=2))
    attempt("profile of the look", lambda: profile(look, calls=1))  # thousands of events, which take seconds to sort


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


def threads_of_a_folder(lease: Lease) -> None:
    """Images a second of `describe_folder`, with the time of each station, by threads that use the GPU."""
    counts = (8, 24) if lease.brief else _FOLDERS
    data, times = lease.bench, {}
    with tempfile.TemporaryDirectory() as name:
        made = Path(name)
        for count in counts:
            (made / str(count)).mkdir()
            for number in range(count):
                cv2.imwrite(str(made / str(count) / f"{number}.jpg"), data.images[number % len(data.images)])
        for threads, model in ((2, "patchprint"), (1, "patchprint"), (3, "patchprint"), (2, "patchprint.fast")):

            def run(threads: int = threads, model: str = model) -> dict[str, Any]:
                settings, seconds = DescribeSettings(model=model, max_keypoints=_COUNT, device=str(lease.device)), []
                for count in counts:
                    began, lines = time.perf_counter(), made / f"{count} {threads} {model}.jsonl"
                    with json_lines(lines):
                        describe_folder(made / str(count), made / f"{count} {threads} {model}", settings)
                    seconds.append(time.perf_counter() - began)
                stations = json.loads(lines.read_text().splitlines()[-1])["stations_ms"]
                return {
                    "images_per_second": (counts[1] - counts[0]) / (seconds[1] - seconds[0]),
                    "stations_ms": stations,
                }

            work = partial(_changed, describe_jobs, {"_DESCRIBERS": threads}, run)
            times[f"{threads} threads, {model}"] = attempt(f"{threads} threads, {model}", work)
    lease.keep("time of a folder", times)


def layers(lease: Lease) -> None:
    """Kernels of the training step alone, beside those that may take their places."""
    from patchprint.networks import frn_kernel

    place = lease.device
    times: dict[str, Any] = {}
    torch.backends.cudnn.benchmark = True

    def made(*shape: int) -> Tensor:
        return torch.randn(*shape, device=place).bfloat16().contiguous(memory_format=torch.channels_last)

    for channels, side in _MAPS:
        x, gradient = made(_PATCHES, channels, side, side), made(_PATCHES, channels, side, side)
        weight, bias, tau = (torch.randn(1, channels, 1, 1, device=place) for _ in range(3))
        shift, eps = torch.randn(channels, device=place), torch.tensor([1e-6], device=place)
        _, scale = frn_kernel.frn_tlu(x, shift, weight, bias, tau, eps)
        forwards, backwards = (x, shift, weight, bias, tau, eps), (gradient, x, shift, scale, weight, bias, tau)
        times[f"norm {channels}: now"] = [
            on_device(partial(frn_kernel.frn_tlu, *forwards)), on_device(partial(frn_kernel.frn_tlu_backward, *backwards)),
        ]  # fmt: skip
        for plan in (
            (channels, 32, 4),
            (channels, 64, 4),
            (channels, 64, 8),
            (channels, 128, 8),
            (channels, 256, 8),
            (32, 64, 4),
        ):
            if plan[1] <= side * side:
                works = (
                    partial(_step_kernels.norm_forward, *forwards, *plan),
                    partial(_step_kernels.norm_backward, *backwards, *plan),
                )
                times[f"norm {channels}: {plan}"] = attempt(f"norm {channels}: {plan}", partial(_both, *works))
    x, kernel, gradient = made(_PATCHES, 1, 32, 32), made(32, 1, 3, 3), made(_PATCHES, 32, 32, 32)
    empty = (0, 0, 0, 0, 0, 7)
    padded = [F.pad(each, empty).contiguous(memory_format=torch.channels_last) for each in (x, kernel)]
    wide = [made(_PATCHES, 32, 32, 32), made(32, 32, 3, 3)]

    def backward(pair: list[Tensor], of_weights: bool) -> Any:
        mask = [not of_weights, of_weights, False]
        return torch.ops.aten.convolution_backward(
            gradient, *pair, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1, mask
        )

    for name, pair in (("first", padded), ("gradient", wide)):
        times[f"{name}: forward now"] = on_device(partial(F.conv2d, pair[0], pair[1], padding=1))
        times[f"{name}: of maps now"] = on_device(partial(backward, pair, False))
        times[f"{name}: of weights now"] = on_device(partial(backward, pair, True))
    first_backward = partial(_step_kernels.first_backward, gradient, x, kernel)
    alternatives: dict[str, tuple[tuple[tuple[int, ...], ...], Callable[[], Any]]] = {
        "first": (((64, 4), (128, 4), (256, 4), (256, 8)), partial(_step_kernels.first_forward, x, kernel)),
        "first_dx": (((32, 4), (64, 4), (128, 4), (128, 8)), first_backward),
        "first_dw": (((64, 4, 528), (128, 4, 528), (128, 4, 1056), (256, 8, 528)), first_backward),
        "gradient": (
            ((32, 4, 528), (64, 4, 528), (64, 4, 1056), (128, 4, 528), (128, 8, 528)),
            partial(_step_kernels.weight_gradient, gradient, wide[0], 1),
        ),
    }
    for key, (plans, work) in alternatives.items():
        for sizes in plans:
            change = {"PLAN": {**_step_kernels.PLAN, key: sizes}}
            timed = partial(_changed, _step_kernels, change, partial(on_device, work))
            times[f"{key}: {sizes}"] = attempt(f"{key}: {sizes}", timed)
    _show(lease, "time of layers", times)


def _both(forward: Callable[[], Any], backward: Callable[[], Any]) -> list[float]:
    return [on_device(forward), on_device(backward)]


def step(variant: str, lease: Lease) -> None:
    """Time the training step as it is ("now"), with one of the kernels of `_step_kernels`, or with "all" of them.

    Steps so far are in results/speed/training-speed-h200.json.
    """
    started = time.monotonic()
    norms = _fastest(lease.kept("time of layers"))
    print("   plans", _step_kernels.PLAN, norms)
    if variant in ("norm", "all"):
        _use_norms(norms)
    if variant in ("first", "gradient", "all"):

        def run_blocks(network: HyNet, layer: nn.Module, x: Tensor) -> Tensor:
            return _run_blocks(variant, network, layer, x)

        HyNet._run_blocks = run_blocks  # type: ignore[assignment]
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
        is_profiled = variant in ("now", "all") and not lease.brief
        found = training_speed.time_ours(
            source, "hardnet" if variant == "hardnet" else "sdgmnet", arguments, options, is_profiled
        )
    print("   ", {name: value for name, value in found.items() if name != "profile"}, flush=True)
    lease.keep(f"step, {variant}", found)
    measured = {called: kept for name, called in _STEPS.items() if (kept := lease.kept(f"step, {name}"))}
    training_speed.write_result(measured, arguments, started)


step_now, step_all, step_gradient, step_norm, step_first, step_plain, step_hardnet = (
    partial(step, name) for name in ("now", "all", "gradient", "norm", "first", "plain", "hardnet")
)


def _fastest(times: Mapping[str, Any]) -> dict[tuple[int, int], tuple[int, ...]]:
    """Take the fastest plans into use; returns those of norms, by channels and by direction (0 forward, 1 backward)."""

    def best(prefix: str, direction: int | None = None) -> tuple[int, ...] | None:
        rows = [
            (taken if direction is None else taken[direction], name)
            for name, taken in times.items()
            if re.fullmatch(rf"{prefix}: \([\d, ]+\)", name) and taken
        ]
        return tuple(int(number) for number in re.findall(r"\d+", min(rows)[1].split(":")[1])) if rows else None

    _step_kernels.PLAN |= {key: plan for key in _step_kernels.PLAN if (plan := best(key))}
    found = {(channels, way): best(f"norm {channels}", way) for channels, _ in _MAPS for way in (0, 1)}
    return {key: plan for key, plan in found.items() if plan}


def _use_norms(plans: Mapping[tuple[int, int], tuple[int, ...]]) -> None:
    """Let `frn_kernel` launch the kernels of `_step_kernels`."""
    from patchprint.networks import frn_kernel

    class Launched:
        def __init__(self, kernel: Any, way: int) -> None:
            self.kernel, self.way = kernel, way

        def __getitem__(self, grid: tuple[int, int]) -> Callable[..., None]:
            def launch(*arguments: Any, C: int, HW: int, BLOCK: int, num_warps: int) -> None:
                block, pixels, warps = plans.get((C, self.way), (C, min(64, HW), 4))
                self.kernel[(grid[0], C // block)](*arguments, C=C, HW=HW, BLOCK=block, PIXELS=pixels, num_warps=warps)

            return launch

    frn_kernel._forward_kernel = Launched(_step_kernels._frn_forward, 0)
    frn_kernel._backward_kernel = Launched(_step_kernels._frn_backward, 1)


def _run_blocks(variant: str, network: HyNet, layer: nn.Module, x: Tensor) -> Tensor:
    """`HyNet._run_blocks` with other convolutions."""
    parts: Any = tuple(layer.children())
    assert network._fused is not None
    for convolution, norm, unit in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        weight = convolution.weight
        if convolution.in_channels == 1 and variant in ("first", "all"):
            x = _step_kernels.first(x.bfloat16(), weight.bfloat16())
        elif convolution.in_channels == convolution.out_channels == 32 and variant in ("gradient", "all"):
            x = _step_kernels.Convolution.apply(x, weight.to(x.dtype), convolution.stride[0])
        else:
            x = convolution._conv_forward(x, weight, None)
        x = network._fused(x, convolution.bias, norm.weight, norm.bias, unit.tau, norm.eps)
    return x
