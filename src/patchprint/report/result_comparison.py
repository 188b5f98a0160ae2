"""Comparison of results: the headline numbers of each benchmark beside published ones."""

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchprint.benchmarks import BENCHMARKS
from patchprint.common.errors import UserError, parsing
from patchprint.common.safe_io import read_json

PUBLISHED = "published: "  # before the names of rows that the papers print
_FIELDS = {"benchmark": str, "settings": dict, "data": dict, "seed": int | None, "scores": dict, "model": dict}


@dataclass(frozen=True)
class Comparison:
    """Results of one benchmark with the same settings and data: rows of numbers by model, None if unknown."""

    title: str
    columns: list[str]
    rows: list[tuple[str, list[float | None]]]
    lower_is_better: frozenset[str] = frozenset()
    settings: str = ""
    results: Sequence[dict[str, Any]] = ()


def read_results(files: Sequence[Path]) -> list[dict[str, Any]]:
    """Read result files of ``patchprint eval``.

    Raises:
        UserError: a file is something else; the message names it.
    """
    if not files:
        raise UserError("no result files were given; name some, as in results/oxford/*.json")
    results: list[dict[str, Any]] = []
    for path in files:
        value = read_json(path, "a result file, as in results/oxford/*.json", object)
        for entry in value if isinstance(value, list) else [value]:
            with parsing(path, "a result of patchprint eval"):
                _check(entry, str(path))
            results.append(entry)
    return results


def _check(entry: Any, path: str) -> None:
    """Raise an error if an entry cannot be compared and shown."""
    if not isinstance(entry, dict) or not all(isinstance(entry[name], kind) for name, kind in _FIELDS.items()):
        raise UserError(f"{path} is not a result of patchprint eval")
    texts = [entry["data"]["path"], entry["model"]["name"], entry["model"]["sha256"]]
    texts += [entry["run"]["command"]] if "run" in entry else []
    if not all(isinstance(text, str) for text in texts):
        raise UserError(f"{path} is not a result of patchprint eval")
    if not all(isinstance(number, int | float) for number in headline(entry).values()):
        raise UserError(f"{path} is not a result of patchprint eval: its scores are no numbers")
    hardest = entry["scores"].get("hardest")
    for pairs in hardest.values() if isinstance(hardest, dict) else ():
        from patchprint.benchmarks.ubc import hardest_from_json  # with it come patch stores

        hardest_from_json(pairs, path)
    compare([entry])


def compare(results: Sequence[dict[str, Any]]) -> list[Comparison]:
    """Return a table for each group of comparable results."""
    return [_comparison(group) for group in comparable(results)]


def comparable(results: Sequence[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Group results by benchmark, settings, data and seed."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for result in results:
        name = result["benchmark"]
        # Settings that are newer than a result have their defaults.
        defaults = dataclasses.asdict(BENCHMARKS[name]().settings()) if name in BENCHMARKS else {}
        same = [name, {**defaults, **result["settings"]}, result["data"]["sha256"], result["seed"]]
        groups.setdefault(json.dumps(same, sort_keys=True, default=str), []).append(result)
    return list(groups.values())


def _comparison(group: list[dict[str, Any]]) -> Comparison:
    rows = [(label_of(result), headline(result)) for result in group]
    first, lower, columns = group[0], frozenset[str](), list(rows[0][1])
    if first["benchmark"] in BENCHMARKS:
        benchmark = BENCHMARKS[first["benchmark"]]()
        lower = benchmark.lower_is_better
        rows += [(name, benchmark.headline(scores)) for name, scores in benchmark.beside(first["scores"]).items()]
        rows += [(f"{PUBLISHED}{name}", row) for name, row in benchmark.published(first).items()]
    cells = [(label, [row.get(column) for column in columns]) for label, row in rows]
    changed = {name: value for name, value in first["settings"].items() if value not in (None, (), [], False, "all")}
    settings = ", ".join(f"{name} {value}" for name, value in changed.items())
    return Comparison(where(first), columns, cells, lower, settings, group)


def headline(result: dict[str, Any]) -> dict[str, float]:
    """Return the numbers of a result that go into tables; all plain numbers if the benchmark is unknown."""
    scores, name = result["scores"], result["benchmark"]
    if name in BENCHMARKS:
        return BENCHMARKS[name]().headline(scores)
    return {key: value for key, value in scores.items() if isinstance(value, int | float)}


def data_name(result: dict[str, Any]) -> str:
    """Return the last part of the path of the data; of several folders, that of their parent."""
    folders = [Path(name) for name in str(result["data"]["path"]).split(",")]
    return folders[0].parent.name if len(folders) > 1 else folders[0].name


def where(result: dict[str, Any]) -> str:
    """Return benchmark and data, "ubc on liberty"; one name if both are equal."""
    benchmark, data = result["benchmark"], data_name(result)
    return benchmark if benchmark == data else f"{benchmark} on {data}"


def label_of(result: dict[str, Any]) -> str:
    scale = result["model"].get("patch_scale")
    return result["model"]["name"] + ("" if scale in (None, 12.0) else f" at {scale:g} sigma")
