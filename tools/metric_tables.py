"""Tables about metric learning on whole images, made from ``results/metric-learning/``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tools.markdown import read, table

_NORMS = ("plain", "L2 penalty", "SEC")


def losses(results: Path) -> str:
    """R@1 of each loss by what holds the norms, the gain of SEC beside the published one, and the variance of the norms."""
    rows_by_labels = _rows(results, "metric-losses")
    rows = []
    for data, loss in dict.fromkeys((labels[0], labels[1]) for labels in rows_by_labels):
        found = [rows_by_labels[data, loss, norms] for norms in _NORMS]
        recall = [each["R@1"] for each in found]
        rows.append(
            [
                data,
                loss,
                *map(_spread, recall),
                _gain(found, "R@1"),
                _published_gain(recall),
                _gain(found, "NMI"),
                _gain(found, "F1"),
                f"{_number(found[0]['norm variance'])} / {_number(found[2]['norm variance'])}",
            ]
        )
    header = [
        "set", "loss", "R@1 plain", "with L2 penalty", "with SEC", "gain of SEC", "published gain", "gain in NMI", "in F1",
        "norm variance plain / SEC",
    ]  # fmt: skip
    caption = "Percent on classes never seen, two seeds: results/metric-learning/metric-losses/metric-losses.md."
    return table(header, rows, caption)


def norms(results: Path) -> str:
    return _whole(results, "metric-norms", "Cars196-half, semi-hard, two seeds (published)")


def head(results: Path) -> str:
    return _whole(results, "metric-head", "Cars196-half, semi-hard, two seeds (published)")


def simclr(results: Path) -> str:
    return _whole(results, "simclr", "CIFAR-10, 30,000 images, two seeds (published)")


def large(results: Path) -> str:
    """What enlarged images reach."""
    rows = [
        [f"128 px images read at 224, {norms}", _spread(row["R@1"]), _spread(row["NMI"]), _spread(row["F1"])]
        for (norms,), row in _rows(results, "metric-large").items()
    ]
    caption = "CUB-200-2011, test classes, two seeds: results/metric-learning/metric-large/metric-large.md."
    return table(["", "R@1", "NMI", "F1"], rows, caption)


def choice(results: Path) -> str:
    """The tries on the validation part of the training classes."""
    result = read(results / "metric-learning" / "choice.json")
    rows = [
        [f"`{try_['flags']}`", *(f"{100 * value:.1f}" for _, value in try_["recall"])]
        for try_ in result["scores"]["tries"]
    ]
    steps = [f"step {step}" for step, _ in result["scores"]["tries"][0]["recall"]]
    caption = (
        "R@1 on 20 held-out training classes of CUB-200-2011; 80 are learned: results/metric-learning/choice.json."
    )
    return table(["flags beside `patchprint train metric-lite0 --set hold_out=true`", *steps], rows, caption)


def step_time(results: Path) -> str:
    result = read(results / "speed" / "image-step.json")
    scores = result["scores"]
    rows = [
        ["plain eager step", f"{scores['eager_ms']:.1f} ms", ""],
        ["recorded, norms folded into convolutions", f"{scores['record_ms']:.1f} ms", f"{scores['speedup']:.1f}"],
    ]
    gpu = result["run"]["machine"]["gpu"]
    caption = (
        f"One step of 120 images of 128 px, bf16, semi-hard loss with SEC, one {gpu}: results/speed/image-step.json."
    )
    return table(["", "one step", "times faster"], rows, caption)


def _whole(results: Path, study: str, what: str) -> str:
    """The table of a study as it is."""
    result = read(results / "metric-learning" / study / f"{study}.json")
    rows = result["scores"]["rows"]
    cells = [[*row["labels"].values(), *map(_beside_published, row["columns"].values())] for row in rows]
    caption = f"{what}: results/metric-learning/{study}/{study}.md."
    return table([*rows[0]["labels"], *rows[0]["columns"]], cells, caption)


def _beside_published(column: dict[str, Any]) -> str:
    published = "" if column["published"] is None else f" ({column['published']:g})"
    small = column["values"] and column["mean"] < 1
    return f"{_number(column) if small else _spread(column)}{published}"


def _rows(results: Path, study: str) -> dict[tuple[str, ...], dict[str, dict[str, Any]]]:
    """Columns of a study by the labels of the row."""
    result = read(results / "metric-learning" / study / f"{study}.json")
    return {tuple(row["labels"].values()): row["columns"] for row in result["scores"]["rows"]}


def _spread(column: dict[str, Any]) -> str:
    if not column["values"]:
        return "not run"
    spread = "" if column["spread"] is None else f" ± {column['spread']:.1f}"
    return f"{column['mean']:.1f}{spread}"


def _number(column: dict[str, Any]) -> str:
    if not column["values"]:
        return "not run"
    return f"{column['mean']:.0f}" if column["mean"] >= 100 else f"{column['mean']:.2g}"


def _gain(found: list[dict[str, dict[str, Any]]], title: str) -> str:
    plain, _, sec = (each[title] for each in found)
    return f"{sec['mean'] - plain['mean']:+.1f}" if plain["values"] and sec["values"] else "not run"


def _published_gain(columns: list[dict[str, Any]]) -> str:
    plain, _, sec = (each["published"] for each in columns)
    return "" if plain is None or sec is None else f"{sec - plain:+.1f}"
