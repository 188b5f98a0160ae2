"""What a GPU computes is what the CPU does."""

from __future__ import annotations

import ast
import dataclasses
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
import torch.nn.functional as F

import patchprint
from patchprint.detectors import DETECTORS, detect
from patchprint.features import describe_keypoints
from patchprint.features.extract import DescribeSettings
from patchprint.storage.feature_folder import describe_folder
from perf.speed import graph_matcher
from perf.speed.on_gpu._common import Lease, attempt, found_again

_TESTS = Path(__file__).resolve().parents[3] / "tests"
# Tests whose code runs on a GPU where there is one; pytest is not needed for it.
_CODE = (
    "ops/test_kernels.py",
    "detectors/test_scale_space.py",
    "networks/test_fast_layers.py",
    "networks/engines/test_cuda.py",
)
# Networks that test_cuda.py describes by kernels.
_CHAINS: tuple[Any, ...] = (
    ("hardnet", True),
    ("desdis", True),
    ("desdis", True, ("fovea", 3), ("size", 48)),
    ("hynet", True),
    ("sdgmnet", True, ("input_norm", "standard"), ("fovea", 2)),
)
_BEGIN = "import torch\ndevice = torch.device('cuda' if torch.cuda.is_available() else 'cpu')\ntorch.manual_seed(0)\n"


def kernels(lease: Lease) -> None:
    """Run the code that the tests give to Triton's interpreter."""
    for path in _CODE:
        _run_code(path)


def _run_code(path: str) -> None:
    for node in ast.parse((_TESTS / path).read_text()).body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and "import" in str(node.value.value):
            (name,) = node.targets
            code = _BEGIN + str(node.value.value)
            attempt(f"{path} {ast.unparse(name)}", partial(exec, code, {"__name__": "code", "CASES": _CHAINS}))


def layers(lease: Lease) -> None:
    """Compare single convolutions with PyTorch's, each with other numbers of warps, stages and pixels where it fails."""
    from patchprint.networks.engines import _cuda_kernels as fused

    def apart(count: int, side: int, inputs: int, channels: int, stride: int, **changes: int) -> list[Any]:
        torch.manual_seed(0)
        x = torch.randn(count, side, side, inputs, device=lease.device).half()
        kernel = (torch.randn(9, inputs, channels, device=lease.device) / (9 * inputs) ** 0.5).half()
        layer = fused.Layer(kernel, torch.randn(channels, device=lease.device), stride, None, torch.float16)
        plan = dataclasses.replace(fused.Layer.plan(layer, side), **changes)
        object.__setattr__(layer, "plan", lambda side: plan)
        weight = kernel.float().permute(2, 1, 0).unflatten(2, (3, 3))
        expected = F.conv2d(x.float().permute(0, 3, 1, 2), weight, layer.shift, stride, 1).relu().permute(0, 2, 3, 1)
        wrong = (layer(x).float() - expected).abs() > 5e-3
        rows = wrong.any(3).flatten().nonzero().flatten()
        columns = wrong.flatten(0, 2).any(0).nonzero().flatten()
        return [str(plan), float(wrong.float().mean()), rows[:12].tolist(), columns[:16].tolist()]

    cases = (
        (3, 24, 16, 16, 2), (3, 32, 16, 16, 2), (3, 32, 16, 16, 1), (64, 12, 16, 32, 1), (64, 12, 16, 32, 2),
        (64, 12, 32, 32, 1), (64, 3, 64, 64, 1), (64, 6, 32, 64, 2), (64, 6, 32, 32, 1), (3, 32, 16, 32, 2),
        (2, 32, 32, 32, 1), (2, 16, 32, 64, 2), (5, 8, 64, 64, 1), (3, 8, 128, 128, 1), (3, 24, 32, 32, 1),
    )  # fmt: skip
    for case in cases:
        found = attempt(f"layer {case}", partial(apart, *case))
        if found is None or found[1] > 0:
            for changes in ({"stages": 1}, {"stages": 2}, {"warps": 8}, {"warps": 2}, {"pixels": 128}, {"pixels": 32}):
                attempt(f"layer {case} {changes}", partial(apart, *case, **changes))


def dog(lease: Lease) -> None:
    """Compare the keypoints with OpenCV's: all of them, and those that are chosen of them."""
    table = {}
    for name, image in lease.real.items():
        for detector in ("dog", "dog-published"):

            def compare(image: np.ndarray = image, detector: str = detector) -> list[float]:
                find_on_gpu = DETECTORS[detector].find_on_gpu
                assert find_on_gpu is not None
                theirs, ours = (
                    DETECTORS[detector].find(image, None, None),
                    find_on_gpu(image, None, None, lease.device).to("cpu"),
                )
                chosen = [
                    detect(image, detector, max_keypoints=1000, device=device) for device in ("cpu", lease.device)
                ]
                again = [
                    found_again(theirs, ours),
                    found_again(ours, theirs),
                    found_again(*chosen),
                    found_again(*chosen[::-1]),
                ]
                assert min(again[:2]) >= 0.98, again
                mask = np.zeros_like(image)
                mask[:, : image.shape[1] // 2] = 1
                half = detect(image, detector, max_keypoints=300, mask=mask, upright=True, device=lease.device)
                assert float(half.xy[:, 0].max()) < image.shape[1] // 2 + 1 and not half.angle.any()
                return [len(theirs), len(ours), *(round(share, 5) for share in again)]

            table[f"{name}, {detector}"] = attempt(f"{name}, {detector}", compare)

    def tiles() -> list[float]:
        large = np.tile(next(iter(lease.real.values())), (5, 4))[:3000, :3200]  # searched in tiles
        here, there = (detect(large, max_keypoints=3000, device=device) for device in ("cpu", lease.device))
        again = [found_again(here, there), found_again(there, here)]
        assert min(again) >= 0.97, again
        return [len(here), len(there), *again]

    def learned(image: np.ndarray) -> list[float]:
        # The second search of a size records it, the third replays it.
        here = detect(image, "learned", max_keypoints=1000)
        *there_again, there = (detect(image, "learned", max_keypoints=1000, device=lease.device) for _ in range(3))
        assert all(found_again(there, each) >= 0.999 for each in there_again)
        again = [found_again(here, there), found_again(there, here)]
        assert min(again) >= 0.97, again
        return [len(here), len(there), *again]

    def threads() -> int:
        images = list(lease.real.values()) * 4
        with ThreadPoolExecutor(4) as pool:
            together = list(pool.map(partial(detect, max_keypoints=1000, device=lease.device), images))
        for image, found in zip(images, together, strict=True):
            assert torch.equal(detect(image, max_keypoints=1000, device=lease.device).xy, found.xy)
        return len(together)

    table["tiles"] = attempt("tiles", tiles)
    table["threads"] = attempt("threads", threads)
    for name, image in lease.real.items():
        table[f"{name}, learned"] = attempt(f"{name}, learned", partial(learned, image))
    lease.keep("dog", table)


def extract(lease: Lease) -> None:
    """Compare features of images, matches and a folder with those of the exact engine and of the CPU."""
    images = list(lease.real.values())

    def compare(name: str) -> tuple[float, int]:
        model, exact = patchprint.load(name, lease.device), patchprint.load(name, lease.device, engine="float32")
        found = patchprint.extract(images[0], model, max_keypoints=700)
        expected = describe_keypoints(images[0], found.keypoints, model=exact)
        apart = float((found.descriptors - expected.descriptors).abs().max())
        many = patchprint.extract_many(images[:3], model, max_keypoints=500)
        assert apart < 2e-2 and [len(each) for each in (found, *many)] == [700, 500, 500, 500], apart
        other = patchprint.extract(images[0], patchprint.load(name), max_keypoints=700)
        for matcher in ("mutual", "mutual+ratio"):
            there, here = (patchprint.match(found, other, matcher, device=device) for device in (lease.device, "cpu"))
            assert torch.equal(there.indices, here.indices), (matcher, len(there), len(here))
        return apart, len(here)

    for name in ("patchprint", "patchprint.tiny"):
        attempt(f"extract with {name}", partial(compare, name))

    def folder() -> float:
        with tempfile.TemporaryDirectory() as made:
            given, out = Path(made) / "in", Path(made) / "out"
            given.mkdir()
            for number, image in enumerate(images):
                cv2.imwrite(str(given / f"{number}.png"), image)
            (given / "broken.png").write_bytes(b"no image")
            said: list[str] = []
            settings = DescribeSettings(model="patchprint.fast", max_keypoints=500, device=str(lease.device))
            found = describe_folder(given, out, settings, report=said.append)
            alone = patchprint.extract(images[0], patchprint.load("patchprint.fast", lease.device), max_keypoints=500)
            assert len(found) == len(images) and "broken.png" in said[-1]
            assert torch.equal(found["0.png"].keypoints.xy, alone.keypoints.xy)
            return float((found["0.png"].descriptors - alone.descriptors).abs().max())

    attempt("a folder", folder)


def graph(lease: Lease) -> None:
    """Compare matches of the graph matcher with those of the CPU, and all of its stages."""

    def compare(count: int) -> list[float]:
        pair = graph_matcher.features(count)
        here, there = (patchprint.match(*pair, "graph", device=device) for device in ("cpu", lease.device))
        scores = [
            dict(zip(map(tuple, each.indices.tolist()), torch.as_tensor(each.score).tolist(), strict=True))
            for each in (here, there)
        ]
        both = scores[0].keys() & scores[1].keys()
        share = len(both) / len(scores[0].keys() | scores[1].keys())
        apart = max(abs(scores[0][match] - scores[1][match]) for match in both)
        assert len(here) > count // 4 and share > 0.99 and apart < 1e-4, (len(here), share, apart)
        return [share, apart]

    for count in (500, 2000, 8000):
        attempt(f"graph, {count}", partial(compare, count))
    sys.path.insert(0, str(_TESTS))  # for their support
    _run_code("matching/test_graph_kernels.py")
