"""Time ``import patchprint`` against ``import torch``, alternating in fresh processes.

python -m perf.speed.import_time --out results/speed/import-time.json
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time

from patchprint.common import files, provenance


def seconds(module: str) -> float:
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", f"import {module}"], check=True)
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--out", required=True)
    arguments = parser.parse_args()
    started = time.monotonic()
    seconds("torch")  # fills the file cache, so that both are measured warm
    times = [(seconds("torch"), seconds("patchprint")) for _ in range(arguments.repeats)]
    torch_seconds, patchprint_seconds = (statistics.median(column) for column in zip(*times, strict=True))
    ratio = patchprint_seconds / torch_seconds
    scores = {"torch_s": torch_seconds, "patchprint_s": patchprint_seconds, "ratio": ratio}
    settings = {"repeats": arguments.repeats}
    result = provenance.record("import-time", settings=settings, scores=scores, started=started)
    files.write_json(arguments.out, result.to_json())
    print(f"import torch {torch_seconds:.2f} s, import patchprint {patchprint_seconds:.2f} s, ratio {ratio:.2f}")


if __name__ == "__main__":
    main()
