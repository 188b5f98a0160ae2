"""The page of ``patchprint report``: speed and results first, then training, images and cost."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from patchprint.report import benchmark_results as of_results, runs as of_runs
from patchprint.report.angles import angle_sections
from patchprint.report.curves import curve_sections
from patchprint.report.embedded_images import EmbeddedImage
from patchprint.report.example_images import example_sections
from patchprint.report.page import Page, Part, Section
from patchprint.report.run_cost import cost_sections, origin
from patchprint.report.runs import Run
from patchprint.report.speed_accuracy import Bench, speed_sections


def whole_page(
    results: Sequence[dict[str, Any]] = (),
    runs: Sequence[Run] = (),
    images: Sequence[Path] = (),
    title: str = "",
    benches: Sequence[Bench] = (),
) -> Page:
    """Return the page of evaluation results, training runs, image files and results of ``patchprint bench``."""
    shown: list[Part] = [EmbeddedImage.from_file(path, path.name) for path in images]
    sections = [
        *speed_sections(benches, results),
        *of_results.result_sections(results),
        *curve_sections(results),
        *of_runs.run_sections(runs),
        *angle_sections(runs),
        *([Section("Images", shown)] if shown else []),
        *example_sections(runs, results),
        *cost_sections(results, runs, of_runs.settings_parts(runs)),
    ]
    spent = [call for run in runs for call in run.calls] + [each["run"] for each in results if "run" in each]
    verdicts = [of_results.verdict(results) if results else "", of_runs.verdict(runs) if runs else ""]
    return Page(
        title or _title(results, runs, images),
        " ".join(filter(None, verdicts)),
        _lead(results, runs),
        sections,
        origin(spent),
    )


def _title(results: Sequence[dict[str, Any]], runs: Sequence[Run], images: Sequence[Path]) -> str:
    if runs:
        return f"Training of {', '.join(run.label for run in runs)}" if len(runs) < 4 else f"{len(runs)} trainings"
    names = list(dict.fromkeys(result["benchmark"] for result in results))
    if names:
        return f"Results of {', '.join(names)}" if len(names) < 4 else f"Results of {len(names)} benchmarks"
    return ", ".join(path.name for path in images[:3]) or "Speed"


def _lead(results: Sequence[dict[str, Any]], runs: Sequence[Run]) -> str:
    words = [f"{len(results)} results of {len({r['model']['name'] for r in results})} models"] if results else []
    for run in runs[:3]:
        data = run.config.get("data")
        names = [Path(str(name)).name for name in data] if isinstance(data, list) else []
        learned = f" on {', '.join(names)}" if names else ""
        words.append(f"{run.label}: recipe {run.config.get('recipe', '–')}{learned}, {run.steps:,} steps")
    return "; ".join(words) + "." if words else ""
