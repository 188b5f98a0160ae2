"""What ``patchprint models`` shows of the shipped weights, out of ``results/`` and into the package, where results are not.

python -m tools.measured            write
python -m tools.measured --check    exit code 1 where the file is out of date
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from patchprint.cli.models import MEASURED
from patchprint.common.files import write_json
from patchprint.features import list_models
from tools.markdown import read

# Kinds of devices, and the result of ``patchprint bench`` that says how fast patches are described on one.
SPEEDS = {"cpu": "bench-cpu.json", "cuda": "bench-h200.json"}


def collect(results: Path) -> dict[str, Any]:
    """For each shipped model and baseline, by name and checksum: mAP on Oxford, and patches a second on each kind of device."""
    files = {kind: results / "speed" / name for kind, name in SPEEDS.items()}
    speeds = {kind: read(file) for kind, file in files.items() if file.is_file()}
    models: dict[str, Any] = {}
    for info in list_models():
        entry: dict[str, Any] = {"sha256": info.sha256}
        path = results / "oxford" / f"{info.name}.json"
        if path.is_file() and (result := read(path))["model"]["sha256"] == info.sha256:
            entry["oxford_map"] = round(result["scores"]["map"], 3)
        for kind, result in speeds.items():
            score = result["scores"]["describe"]["contenders"].get(f"patchprint {info.name}")
            if score and score["sha256"] == info.sha256:
                entry.setdefault("patches_per_second", {})[kind] = score["patches_per_second"]
        if len(entry) > 1:
            models[info.name] = entry
    machines = {kind: _machine(kind, result["run"]["machine"]) for kind, result in speeds.items()}
    return {"models": models, "machines": machines}


def _machine(kind: str, machine: dict[str, Any]) -> str:
    return machine["gpu"] if kind == "cuda" else f"{machine['cores']} cores of an {machine['cpu']}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=Path("results"))
    parser.add_argument("--check", action="store_true", help="write nothing")
    arguments = parser.parse_args()
    found = collect(arguments.results)
    if arguments.check:
        return int(json.loads(MEASURED.read_text(encoding="utf-8")) != found)
    write_json(MEASURED, found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
