"""Short tables for the first pages: which model to take, and how it compares with the pipelines of others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from patchprint.networks import weights

# Default settings where a program has them, one row each: files of results/pipelines without the name of the data.
_PEERS = ("aliked-n16+lightglue", "sdgmnet", "aliked-n16rot", "disk", "xfeat", "rootsift", "opencv-sift", "orb")
_UNIT = "opencv-sift"  # whose time is one


def models(results: Path) -> str:
    """Accuracy, time and size of every shipped model, best first, SIFT below."""
    cpu, gpu = (
        _read(results / "speed" / f"bench-{name}.json")["scores"]["keypoints"]["contenders"] for name in ("cpu", "h200")
    )
    found = []
    for info in weights.list_weights():
        score = _read(results / "oxford" / f"{info.name}.json")["scores"]["map"]
        megabytes = (weights.WEIGHTS_FOLDER / f"{info.name}.safetensors").stat().st_size / 1e6
        timed = ((cpu, ""), (cpu, ", int8"), (gpu, ""))
        times = [_time(contenders.get(f"patchprint {info.name}{engine}"), info.sha256) for contenders, engine in timed]
        found.append((score, f"`{info.name}`", *times, f"{megabytes:.1f}", info.license))
    for name in ("rootsift", "sift"):
        score = _read(results / "oxford" / f"{name}.json")["scores"]["map"]
        found.append((score, f"`{name}` (OpenCV)", _time(cpu["OpenCV SIFT"]), "", "", "", "Apache-2.0"))
    rows = [[name, f"{score:.3f}", *rest] for score, name, *rest in sorted(found, reverse=True)]
    header = ["model", "Oxford mAP", "ms, CPU", "ms, CPU int8", "ms, GPU", "MB", "license"]
    caption = (
        "2000 keypoints of an image on 2 CPU cores and on one H200: results/speed/bench-*.json and results/oxford/."
    )
    return _table(header, rows, caption)


def peers(results: Path) -> str:
    """Our default beside the pipelines of others: homographies, relative poses and time."""

    def scores(data: str, name: str) -> dict[str, Any] | None:
        file = results / "pipelines" / f"{data}-{name}.json"
        return _read(file)["scores"] if file.is_file() else None

    rows = []
    for name in _PEERS:
        row = [f"`{name}`"]
        for data, limits in (("oxford", ("3 px", "5 px")), ("eth", ("1 deg", "5 deg"))):
            found, unit = scores(data, name), scores(data, _UNIT)
            if found is None or unit is None:
                row += [""] * 5
                continue
            row += [f"{found['right']:.0f}", *(f"{found['auc'][limit]:.3f}" for limit in limits)]
            row += [f"{found[what] / unit[what]:.2g}" for what in ("cpu_ms_per_image", "cpu_ms_per_pair")]
        rows.append(row)
    columns = ["time an image", "time a pair"]
    header = [
        "",
        "Oxford: right",
        "AUC 3 px",
        "AUC 5 px",
        *columns,
        "cameras: right",
        "AUC 1 deg",
        "AUC 5 deg",
        *columns,
    ]
    return _table(
        header, rows, f"30 Oxford and 83 calibrated pairs, CPU time in units of `{_UNIT}`: results/pipelines/."
    )


def _time(contender: dict[str, Any] | None, sha256: str | None = None) -> str:
    """Milliseconds, where these very weights were timed."""
    if contender is None or contender.get("sha256") != sha256:
        return "–"
    return f"{contender['best_ms']:,.0f}" if contender["best_ms"] >= 1000 else f"{contender['best_ms']:.3g}"


def _read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))


def _table(header: list[str], rows: list[list[str]], caption: str) -> str:
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + f"\n\n{caption}"
