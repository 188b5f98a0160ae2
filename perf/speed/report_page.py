"""Measure size and opening time of the report of a long run that logged every step.

python -m perf.speed.report_page --out results/speed/report-page.json
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np

from patchprint.common import files, provenance
from patchprint.report.page import write
from patchprint.report.runs import read_run
from patchprint.report.training_page import training_page
from patchprint.training import resolve
from patchprint.training.diagnostics import BINS
from patchprint.training.run_folder import RunFolder

_NAMES = [f"loss/{name}{part}" for name in ("positive", "negative", "relative") for part in ("", "_std")]
_NAMES += ["loss/total", "distance/positive", "distance/negative", "norm/mean", "norm/variance", "patches_per_second"]


def write_run(folder: Path, steps: int) -> None:
    """A run of SDGMNet that logged ``steps`` lines of random numbers and was validated 200 times."""
    run = RunFolder(folder, resolve("sdgmnet", steps=steps, tensorboard=False), resume=False)
    random = np.random.default_rng(0)
    for step in range(1, steps + 1):
        run.log(step, dict(zip(_NAMES, random.random(len(_NAMES)).tolist(), strict=True)))
        if step % max(steps // 200, 1) == 0:
            run.log(step, {"validation/fpr95": float(random.random()), "validation/confusion": float(random.random())})
            histograms = {name: random.integers(0, 90, BINS).tolist() for name in ("positive", "negative", "relative")}
            run.log_angles(step, histograms)


def seconds_to_open(page: Path, chromium: str, repeats: int) -> list[float]:
    """Until the load event, when all charts are drawn; each in a window of its own."""
    from playwright.sync_api import sync_playwright

    found = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium)
        for _ in range(repeats):
            window = browser.new_page()
            window.goto(page.resolve().as_uri())
            found.append(window.evaluate("() => performance.getEntriesByType('navigation')[0].loadEventStart / 1000"))
            window.close()
        browser.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=200_000)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--chromium", default="/usr/bin/chromium")
    parser.add_argument("--out", required=True)
    arguments = parser.parse_args()
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        write_run(Path(folder, "run"), arguments.steps)
        before = time.perf_counter()
        write(training_page([read_run(Path(folder, "run"))]), Path(folder, "report.html"))
        made = time.perf_counter() - before
        size = Path(folder, "report.html").stat().st_size
        opened = seconds_to_open(Path(folder, "report.html"), arguments.chromium, arguments.repeats)
    scores = {"bytes": size, "make_s": made, "open_s": statistics.median(opened), "open_s_slowest": max(opened)}
    settings = {"steps": arguments.steps, "repeats": arguments.repeats}
    result = provenance.record("report-page", settings=settings, scores=scores, started=started)
    files.write_json(arguments.out, result.to_json())
    print(
        f"{arguments.steps} steps: {size / 1e6:.2f} MB, opens in {scores['open_s']:.2f} s (at most {max(opened):.2f} s)"
    )


if __name__ == "__main__":
    main()
