"""The picture of the README: how good descriptors are against how long a photo's take, out of ``results/``.

python -m tools.speed_accuracy
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

from patchprint.files import atomic_file
from tools.markdown import read

SPEED, PICTURE = Path("speed/bench-cpu.json"), Path("speed/speed-accuracy.svg")
OTHERS = {"OpenCV SIFT": "sift"}  # contenders of the bench that are not ours, and their names on Oxford
_ENGINES = {"": "o", "int8": "s"}  # the usual one, and that of folders


@dataclass(frozen=True)
class Point:
    """Descriptors of one model by one engine: milliseconds for the keypoints of a photo, mAP on Oxford."""

    model: str
    engine: str
    milliseconds: float
    score: float


def points(results: Path) -> list[Point]:
    """All contenders that were timed on the keypoints of a photo and scored on Oxford with the same weights."""
    found = []
    for name, timed in read(results / SPEED)["scores"]["keypoints"]["contenders"].items():
        model, _, engine = name.removeprefix("patchprint ").partition(", ")
        file = results / "oxford" / f"{OTHERS.get(name, model)}.json"
        if engine in _ENGINES and file.is_file():
            scored = read(file)
            if scored["model"]["sha256"] == timed.get("sha256", ""):
                found.append(Point(OTHERS.get(name, model), engine, timed["best_ms"], scored["scores"]["map"]))
    return found


def draw(shown: list[Point], path: Path) -> None:
    """Up and to the left is better; a line joins the engines of one model."""
    with matplotlib.rc_context({"svg.hashsalt": "patchprint", "svg.fonttype": "none"}):
        figure = Figure(figsize=(7.5, 4.2), layout="constrained")
        axes = figure.subplots()
        for number, model in enumerate(dict.fromkeys(point.model for point in shown)):
            own = sorted((point for point in shown if point.model == model), key=lambda point: point.milliseconds)
            axes.plot([point.milliseconds for point in own], [point.score for point in own], color=f"C{number}")
            for point in own:
                axes.plot(point.milliseconds, point.score, _ENGINES[point.engine], color=f"C{number}")
            end = (own[-1].milliseconds, own[-1].score)
            axes.annotate(model, end, (8, -3), textcoords="offset points", fontsize="small")
        axes.set_xscale("log")
        axes.set(xlabel="ms for 2000 keypoints of a photo, two CPU cores", ylabel="Oxford mAP")
        axes.plot([], [], "ko", label="usual engine")
        axes.plot([], [], "ks", label="int8, for folders")
        axes.legend(loc="lower right", fontsize="small", frameon=False)
        axes.grid(alpha=0.3)
        axes.margins(x=0.2, y=0.12)
        with atomic_file(path) as temporary:
            figure.savefig(temporary, format="svg", metadata={"Date": None})


def main() -> int:
    parser = argparse.ArgumentParser(description="Draw the README's picture of speed and accuracy from results/.")
    parser.add_argument("--results", type=Path, default=Path("results"))
    arguments = parser.parse_args()
    draw(points(arguments.results), arguments.results / PICTURE)
    return 0


if __name__ == "__main__":
    sys.exit(main())
