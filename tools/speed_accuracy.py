"""The picture of the README: how good descriptors are against how long a photo's take, out of ``results/``.

python -m tools.speed_accuracy
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from patchprint.common.files import write_text
from patchprint.report.result_comparison import read_results
from patchprint.report.speed_accuracy import Bench, chart, points
from tools.markdown import read

SPEED, PICTURE = Path("speed/bench-cpu.json"), Path("speed/speed-accuracy.svg")


def main() -> int:
    parser = argparse.ArgumentParser(description="Draw the README's picture of speed and accuracy from results/.")
    parser.add_argument("--results", type=Path, default=Path("results"))
    results = parser.parse_args().results
    bench = Bench.of(read(results / SPEED))
    shown = points(bench, read_results(sorted((results / "oxford").glob("*.json"))))
    write_text(results / PICTURE, chart(bench, shown).file())
    return 0


if __name__ == "__main__":
    sys.exit(main())
