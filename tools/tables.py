"""Tables in Markdown files, made from ``results/``, so that no number in the documentation is typed by hand.

A file holds ``<!-- begin NAME -->`` and ``<!-- end NAME -->``; what stands between them is replaced.

    python -m patchprint.report.tables README.md            write
    python -m patchprint.report.tables --check README.md    exit code 1 where a table is out of date
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from patchprint.errors import UserError
from patchprint.files import write_text
from patchprint.report import use_tables, weights_tables
from patchprint.report.markdown import read, source_of, table


def demo(results: Path) -> str:
    result = read(results / "demo.json")
    models = {name: score for name, score in result["scores"].items() if "fpr95" in score}
    rows = [
        [
            name,
            f"{100 * score['fpr95']:.2f} %",
            f"{score['matching_ap']:.3f}",
            f"{score['stereo']['ap']:.3f}",
            f"{score['stereo']['correct']} of {score['stereo']['possible']}",
        ]
        for name, score in models.items()
    ]
    header = ["", "FPR95, held out", "matching AP, held out", "matching AP, stereo pair", "correct, stereo pair"]
    return table(header, rows, source_of(result, results / "demo.json"))


def training_speed(results: Path) -> str:
    result = read(results / "training-speed.json")
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
    return table(["", "one step", "times faster"], rows, source_of(result, results / "training-speed.json"))


def oxford(results: Path) -> str:
    found = [read(path) for path in sorted(results.glob("oxford-oxford-*.json"))]
    ranked = sorted(found, key=lambda result: -result["scores"]["map"])
    tried = Counter(result["model"]["name"] for result in ranked)
    best = list({result["model"]["name"]: result for result in reversed(ranked)}.values())[::-1]
    sequences = list(best[0]["scores"]["sequences"])
    rows = []
    for result in sorted(best, key=lambda result: -result["scores"]["map"]):
        model, scores = result["model"], result["scores"]
        scale = f" (patch of {model['patch_scale']:g} sigma, its best)" if tried[model["name"]] > 1 else ""
        each = (f"{scores['sequences'][name]:.3f}" for name in sequences)
        rows.append([model["name"] + scale, *each, f"**{scores['map']:.3f}**"])
    note = "mAP on the six Oxford sequences: 2000 OpenCV SIFT keypoints per picture, nearest neighbour, right within 4 px; "
    commands = "; ".join(sorted({f"`{result['run']['command']}`" for result in best}))
    return table(["", *sequences, "all"], rows, note + f"made by {commands}.")


TABLES: dict[str, Callable[[Path], str]] = {
    "demo": demo,
    "training-speed": training_speed,
    "oxford": oxford,
    "shipped": weights_tables.shipped,
    "hpatches": weights_tables.hpatches,
    "eth": weights_tables.eth,
    "comparison": weights_tables.comparison,
    "statistics": weights_tables.statistics,
    "tries": weights_tables.tries,
    "tries-neighbours": weights_tables.tries_neighbors,
    "tries-long": weights_tables.tries_long,
    "chosen-scales": weights_tables.chosen_scales,
    "inliers": use_tables.inliers,
    "sfm": use_tables.sfm,
    "compression": use_tables.compression,
    "adapt": use_tables.adapted,
}


def fill(text: str, results: Path) -> str:
    """``text`` with every known table made anew."""

    def replace(found: re.Match[str]) -> str:
        name = found.group(1)
        if name not in TABLES:
            raise UserError(f"there is no table {name!r}; known are {', '.join(TABLES)}")
        return f"<!-- begin {name} -->\n{TABLES[name](results)}\n<!-- end {name} -->"

    return re.sub(r"<!-- begin (\S+) -->\n.*?<!-- end \1 -->", replace, text, flags=re.DOTALL)


def main() -> int:
    parser = argparse.ArgumentParser(description="Fill the tables of Markdown files from results/.")
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--results", type=Path, default=Path("results"))
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    stale = 0
    for path in arguments.files:
        old = path.read_text(encoding="utf-8")
        new = fill(old, arguments.results)
        if arguments.check and new != old:
            print(f"{path} is out of date: python -m patchprint.report.tables {path}", file=sys.stderr)
            stale = 1
        elif new != old:
            write_text(path, new)
    return stale


if __name__ == "__main__":
    raise SystemExit(main())
