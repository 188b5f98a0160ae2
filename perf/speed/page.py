"""Time of the page that ``patchprint export`` writes in headless Chromium, beside Python on the same images.

    python -m perf.speed.page ../shared/data/photos/sceaux/images/100_710[01].jpg --out results/speed/page.json

``first`` is the first pair that a page matches, with memory to be reserved; ``next`` the least of ``--rounds`` more.
``seconds`` go from the choice of the second image to drawn matches, with both images at once in two workers;
``cpu_seconds`` are those of all processes of the browser. On a busy machine only the CPU seconds say something.
"""

import argparse
import functools
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from playwright.sync_api import Browser, Page, sync_playwright

from patchprint.common import files, provenance
from patchprint.common.types import Features
from patchprint.features import extract, load
from patchprint.features.model import Model
from patchprint.interop.images import image_size
from patchprint.matching import match_and_verify
from patchprint.networks.weights import load_network
from patchprint.web.offline import write_page

KINDS = ("relaxed", "simd", "javascript")  # WebAssembly with fused SIMD, with SIMD, plain JavaScript
SAME = 0.003  # pixels and radians, within which keypoints are the same
SETTLED = "() => document.getElementById('status').textContent === '' && !document.getElementById('result').hidden"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("images", type=Path, nargs=2)
    parser.add_argument("--model", default="patchprint.tiny")
    parser.add_argument("--keypoints", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--chromium", default="/usr/bin/chromium")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        page = Path(folder) / "try.html"
        size = write_page(load_network(given.model), page)
        browser = playwright.chromium.launch(executable_path=given.chromium)
        scores: dict[str, Any] = {f"page, {kind}": in_browser(browser, page, kind, given) for kind in given.kinds}
        version = browser.version
        browser.close()
    scores["python, float32"] = in_python(given)
    for name, each in scores.items():
        print(name, each)
    pixels = [width * height for width, height in map(image_size, given.images)]
    settings = {
        "keypoints": given.keypoints,
        "pixels": pixels,
        "rounds": given.rounds,
        "chromium": version,
        "page_bytes": size,
    }
    result = provenance.record(
        "page-speed", settings=settings, model={"name": given.model}, scores=scores, seed=None, started=started
    )
    if given.out:
        files.write_json(given.out, result.to_json())


def in_browser(browser: Browser, file: Path, kind: str, given: argparse.Namespace) -> dict[str, Any]:
    page, session = browser.new_page(), browser.new_browser_cdp_session()
    page.set_default_timeout(300_000)

    def cpu() -> float:
        return sum(process["cpuTime"] for process in session.send("SystemInfo.getProcessInfo")["processInfo"])

    page.goto(f"{file.as_uri()}?kernels={kind}")
    page.fill("[name=max_keypoints_number]", str(given.keypoints))
    page.wait_for_function("() => document.getElementById('about').textContent")
    times = []
    for _ in range(1 + given.rounds):
        page.set_input_files('[data-side="a"] input', given.images[0])
        before = time.perf_counter(), cpu()
        page.set_input_files('[data-side="b"] input', given.images[1])
        page.wait_for_function(SETTLED)
        times.append((time.perf_counter() - before[0], cpu() - before[1]))
        stages = page.evaluate("({...features.a.seconds, ...matches.seconds, ...verified.seconds})")
        agreement = compare(page, given)
        for side in ("first", "second"):
            page.get_by_label(f"Remove {side} image").click()
    page.close()
    least = [min(column) for column in zip(*times[1:], strict=True)]
    pairs = {"first": times[0], "next": least}
    found = {name: {"seconds": round(wall, 3), "cpu_seconds": round(cpu, 3)} for name, (wall, cpu) in pairs.items()}
    return {**found, "stages": {name: round(value, 4) for name, value in stages.items()}, **agreement}


def compare(page: Page, given: argparse.Namespace) -> dict[str, Any]:
    """Part of the page's matches that are Python's, and the largest difference of descriptors of the same keypoints."""
    described = described_in_python(given)
    points = [
        page.evaluate(f"features.{side}.points.map(({{x, y, scale, angle}}) => [x, y, scale, angle])") for side in "ab"
    ]
    values = [page.evaluate(f"Array.from(features.{side}.descriptors)") for side in "ab"]
    rows, errors = [], []
    for expected, found, numbers in zip(described, map(torch.tensor, points), map(torch.tensor, values), strict=True):
        keypoints = expected.keypoints
        known = torch.cat([keypoints.xy, torch.stack([keypoints.scale, keypoints.angle], 1)], 1)
        off, row = (found[:, None] - known).abs().amax(2).min(1)
        same = off < SAME
        rows.append(torch.where(same, row, -1))
        errors.append((numbers.view(len(found), -1) - expected.descriptors[row]).abs()[same].max())
    pairs = {(int(rows[0][i]), int(rows[1][j])) for i, j in page.evaluate("verified.pairs")}
    expected_pairs = set(map(tuple, match_and_verify(*described).indices.tolist()))
    common = len(pairs & expected_pairs) / max(len(pairs), len(expected_pairs))
    return {"matches": len(pairs), "common": round(common, 4), "descriptor_error": float(max(errors))}


def described_in_python(given: argparse.Namespace) -> tuple[Features, Features]:
    model = loaded(given.model)
    a, b = (extract(image, model, max_keypoints=given.keypoints, max_size=1200) for image in given.images)
    return a, b


@functools.cache
def loaded(name: str) -> Model:
    return load(name, engine="float32")


def in_python(given: argparse.Namespace) -> dict[str, Any]:
    loaded(given.model)
    times = []
    for _ in range(1 + given.rounds):
        before = time.perf_counter(), time.process_time()
        match_and_verify(*described_in_python(given))
        times.append((time.perf_counter() - before[0], time.process_time() - before[1]))
    pairs = {"first": times[0], "next": [min(column) for column in zip(*times[1:], strict=True)]}
    return {name: {"seconds": round(wall, 3), "cpu_seconds": round(cpu, 3)} for name, (wall, cpu) in pairs.items()}


if __name__ == "__main__":
    main()
