"""Tables in Markdown files, made from ``results/``, so that no number in the documentation is typed by hand.

A file holds ``<!-- begin NAME -->`` and ``<!-- end NAME -->``; what stands between them is replaced.

    python -m tools.tables README.md MODELS.md docs/*.md docs/evidence/*.md            write
    python -m tools.tables README.md MODELS.md docs/*.md docs/evidence/*.md --check    exit code 1 where a table is out of date
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from patchprint.common.files import write_text
from patchprint.common.registry import Registry
from patchprint.pipelines.demo import table_rows
from tools import (
    metric_tables,
    pipeline_tables,
    readme_tables,
    reliability_tables,
    scale_tables,
    speed_tables,
    study_tables,
    training_tables,
    use_tables,
    weights_tables,
)
from tools.markdown import read, table

# Trained to show how far a recipe repeats; not shipped.
OTHER_SEEDS = ("sdgmnet-seed1", "ranking-seed0", "ranking-seed1", "sdgmnet.plain-seed1")
_TRIES = (
    "neighbours",
    "long",
    "batch",
    "fovea",
    "pooled",
    "ranking",
    "pooled-ranking",
    "ranking-long",
    "students",
    "students-longer",
)


def demo(results: Path) -> str:
    result = read(results / "demo.json")
    models = {name: score for name, score in result["scores"].items() if "fpr95" in score}
    header = ["", "FPR95, held out", "matching AP, held out", "matching AP, stereo pair", "correct, stereo pair"]
    return table(
        header, table_rows(models), "`make demo` on photographs that come with scikit-image: results/demo.json."
    )


def training_speed(results: Path) -> str:
    result = read(results / "speed" / "training-speed.json")
    variants = result["scores"]["variants"]
    plain = variants["plain eager float32"]["milliseconds"]
    names = {
        "plain eager float32": "`sdgmnet`, plain eager float32 step in the manner of the authors' code",
        "sdgmnet": "`sdgmnet` (FRN trunk)",
        "hardnet": "`hardnet` (batch-norm trunk)",
    }
    rows = []
    for name, label in names.items():
        time = variants[name]["milliseconds"]
        # The plain step is of sdgmnet, so only its own row compares.
        rows.append([label, f"{time:.2f} ms", f"{plain / time:.1f}" if name == "sdgmnet" else ""])
    caption = f"Median time of one step on one {result['run']['machine']['gpu']}: results/speed/training-speed.json."
    return table(["", "one step", "times faster"], rows, caption)


def oxford(results: Path) -> str:
    """Every model at the patch scale that suits it best, best model first."""
    found = [read(path) for path in sorted((results / "oxford").glob("*.json"))]
    tried = Counter(result["model"]["name"] for result in found)
    best: dict[str, dict[str, Any]] = {}
    for result in sorted(found, key=lambda result: -result["scores"]["map"]):
        best.setdefault(result["model"]["name"], result)
    for name in OTHER_SEEDS:
        best.pop(name, None)
    scale = {name: f" (patch of {result['model']['patch_scale']:g} sigma, its best)" for name, result in best.items()}
    return _oxford_rows({name + scale[name] * (tried[name] > 1): result["scores"] for name, result in best.items()})


def oxford_seeds(results: Path) -> str:
    """Runs beside the same with another seed."""
    names = {
        "sdgmnet": "sdgmnet, seed 0",
        "sdgmnet-seed1": "sdgmnet, seed 1",
        "ranking-seed0": "sdgmnet without the two more layers, ranking 1, seed 0",
        "ranking-seed1": "sdgmnet without the two more layers, ranking 1, seed 1",
        "sdgmnet.plain": "sdgmnet.plain, seed 0",
        "sdgmnet.plain-seed1": "sdgmnet.plain, seed 1",
    }
    return _oxford_rows({label: read(results / "oxford" / f"{name}.json")["scores"] for name, label in names.items()})


def _oxford_rows(scores: dict[str, dict[str, Any]]) -> str:
    sequences = list(next(iter(scores.values()))["sequences"])
    rows = [
        [label, *(f"{score['sequences'][name]:.3f}" for name in sequences), f"**{score['map']:.3f}**"]
        for label, score in scores.items()
    ]
    caption = "mAP on the six Oxford sequences, 2000 SIFT keypoints a photo, right within 4 px: results/oxford/."
    return table(["", *sequences, "all"], rows, caption)


TABLES: Registry[Callable[[Path], str]] = Registry(
    "table",
    {
        "demo": demo,
        "training-speed": training_speed,
        "models": readme_tables.models,
        "peers": readme_tables.peers,
        "oxford": oxford,
        "oxford-seeds": oxford_seeds,
        "shipped": weights_tables.shipped,
        "costs": weights_tables.costs,
        "hpatches": weights_tables.hpatches,
        "eth": weights_tables.eth,
        "pipelines": pipeline_tables.pipelines(
            "oxford", "5 px", "Means of 30 pairs of the six Oxford sequences, CPU time in units of `opencv-sift`"
        ),
        "pipelines-cameras": pipeline_tables.pipelines(
            "eth",
            "1 deg",
            "Means of 83 pairs of the photos of fountain and Herz-Jesu, CPU time in units of `opencv-sift`",
        ),
        "keypoint-choice": pipeline_tables.keypoint_choice,
        "comparison": study_tables.page("comparison", 1),
        "statistics": study_tables.statistics,
        **{
            f"study-{name}": study_tables.page(name)
            for name in ("hynet-frn", "hynet-similarity", "l2net-dif", "sec-patches")
        },
        "engines": speed_tables.engines,
        "scale-retrieval": scale_tables.retrieval,
        "scale-reconstruction": scale_tables.reconstruction,
        "scale-growth": scale_tables.growth,
        "scale-cost": scale_tables.cost,
        "doap-before": weights_tables.doap_before,
        "tries": weights_tables.choice("choice-tries"),
        "chosen-scales": weights_tables.choice("choice-shipped"),
        "tries-groups": weights_tables.choice("choice-doap-groups"),
        **{f"tries-{name}": weights_tables.choice(f"choice-{name}") for name in _TRIES},
        "lost-matches": weights_tables.lost_matches,
        "frames": weights_tables.frames,
        "students": weights_tables.students,
        "inliers": use_tables.inliers,
        "verdict": use_tables.verdict,
        "sfm": use_tables.sfm,
        "compression": use_tables.compression,
        "adapt": use_tables.adapted("adapt.json", "Bodleian"),
        "adapt-underwater": use_tables.adapted("adapt-underwater.json", "frames from under water"),
        "metric-losses": metric_tables.losses,
        "metric-large": metric_tables.large,
        "metric-norms": metric_tables.norms,
        "metric-head": metric_tables.head,
        "simclr": metric_tables.simclr,
        "metric-choice": metric_tables.choice,
        "metric-step": metric_tables.step_time,
        "reliability": reliability_tables.held,
        "reliability-readers": reliability_tables.readers,
        "reliability-defects": reliability_tables.defects,
        **{
            f"speed-{stage}": speed_tables.stage(stage, "bench-cpu.json")
            for stage in ("describe", "photo", "sample", "latency", "detect", "step")
        },
        "speed-match": speed_tables.stage("match", "match-cpu.json"),
        **{f"speed-busy-{stage}": speed_tables.stage(stage, "bench-cpu-busy.json") for stage in ("describe", "photo")},
        "speed-growth": speed_tables.growth("growth-cpu.json"),
        "speed-limits": speed_tables.limits("bench-cpu.json"),
        **{
            f"speed-gpu-{stage}": speed_tables.stage(stage, "bench-h200.json")
            for stage in ("describe", "keypoints", "latency", "sample", "match", "photo")
        },
        "speed-gpu-growth": speed_tables.growth("growth-h200.json"),
        "speed-gpu-limits": speed_tables.limits("bench-h200.json"),
        "speed-gpu-folder": speed_tables.folder("folder-h200.json"),
        "training-divided": training_tables.divided,
        "training-on-paper": training_tables.on_paper,
    },
)


def fill(text: str, results: Path) -> str:
    """``text`` with every table made anew."""

    def replace(found: re.Match[str]) -> str:
        name = found.group(1)
        return f"<!-- begin {name} -->\n{TABLES[name](results)}\n<!-- end {name} -->"

    return re.sub(r"<!-- begin (\S+) -->\n.*?<!-- end \1 -->", replace, text, flags=re.DOTALL)


def main() -> int:
    parser = argparse.ArgumentParser(description="Fill the tables of Markdown files from results/.")
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--results", type=Path, default=Path("results"))
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 where a table is out of date")
    arguments = parser.parse_args()
    stale = 0
    for path in arguments.files:
        old = path.read_text(encoding="utf-8")
        new = fill(old, arguments.results)
        if arguments.check and new != old:
            print(f"{path} is out of date: make tables", file=sys.stderr)
            stale = 1
        elif new != old:
            write_text(path, new)
    return stale


if __name__ == "__main__":
    raise SystemExit(main())
