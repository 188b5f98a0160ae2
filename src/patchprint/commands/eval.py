"""``patchprint eval BENCH --model M --data D``: run a benchmark; ``patchprint eval --compare FILES``: results side by side."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from patchprint.benchmarks import BENCHMARKS, Benchmark
from patchprint.benchmarks.cache import PredictionCache, default_folder
from patchprint.benchmarks.compare import Comparison, compare, data_name, read_results, train_test_table
from patchprint.benchmarks.setup import Setup, measure
from patchprint.commands.output import emit, table
from patchprint.errors import UserError
from patchprint.features import describers
from patchprint.files import refuse_overwrite, write_json


@dataclass(frozen=True)
class Common:
    """What all benchmarks ask for."""

    # A name, a weight file, or one of sift, rootsift, pixels; may be given several times.
    model: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    # Data of the benchmark; may be given several times. Commas join several stores to one set.
    data: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    # Result file, or a folder that receives BENCH/DATA-MODEL.json for each model and data set; DATA leaves out the name of
    # BENCH (oxford/MODEL.json), and --patch-scale N adds -Nsigma.
    out: Path | None = None
    # Replace result files that exist.
    force: bool = False
    # Print the results as JSON.
    json: bool = False
    # Seed of everything that is drawn.
    seed: int = 0
    # Side of the patch in units of the keypoint's sigma; the model's own if not given.
    patch_scale: float | None = None
    # cpu, cuda or auto.
    device: str = "auto"
    # Folder for predictions; PATCHPRINT_CACHE or ~/.cache/patchprint if not given.
    cache: Path | None = None
    # Compute all predictions anew and keep none.
    no_cache: bool = False
    # Leave unreadable pictures out and count them, instead of stopping.
    skip_bad: bool = False
    # Only for ubc: the set that each model was trained on, in the order of --model; prints the train > test table.
    trained_on: tyro.conf.UseAppendAction[tuple[str, ...]] = ()


def run(name: str, common: Common, settings: Any) -> None:
    """Measure every model on every data set."""
    _check(name, common)
    benchmark, device = BENCHMARKS[name], describers.choose_device(common.device)
    results, trained_on = [], []
    for position, model in enumerate(common.model):
        describer = _describer(model, common)
        for data in common.data:
            target = _target(common, name, data, describer)
            if target is not None:
                refuse_overwrite(target, common.force)
            cache = PredictionCache(None if common.no_cache else common.cache or default_folder())
            setup = Setup(describer, Path(data), common.seed, cache, common.skip_bad, device)
            result = measure(name, setup, settings, benchmark.evaluate).to_json()
            if target is not None:
                write_json(target, result)
            results.append(result)
            trained_on.append(common.trained_on[position] if common.trained_on else "")
    tables = compare(results)
    if common.trained_on:
        tables.append(train_test_table(results, trained_on))
    emit(results[0] if len(results) == 1 else results, common.json, "\n\n".join(map(text_of, tables)))


def side_by_side(files: Annotated[tuple[Path, ...], tyro.conf.Positional], json: bool = False) -> None:
    """Print results side by side, with published numbers where the protocol is the same.

    Args:
        files: result files that patchprint eval wrote.
        json: print the tables as JSON.
    """
    tables = compare(read_results(files))
    values = [
        {"title": t.title, "columns": t.columns, "rows": [{"model": m, "values": v} for m, v in t.rows]} for t in tables
    ]
    emit(values, json, "\n\n".join(map(text_of, tables)))


def text_of(comparison: Comparison) -> str:
    """A comparison as a title and aligned columns."""
    rows = [[label, *(cell(value) for value in values)] for label, values in comparison.rows]
    return f"{comparison.title}\n{table(['', *comparison.columns], rows)}"


def cell(value: float | None) -> str:
    """A number with four significant places, whole numbers whole, nothing as a dash."""
    if value is None:
        return "-"
    return f"{value:.0f}" if float(value).is_integer() or abs(value) >= 1000 else f"{value:.4f}"


def _check(name: str, common: Common) -> None:
    if not common.model:
        raise UserError(f"patchprint eval {name} needs a model: --model sift, --model NAME or --model FILE")
    if not common.data:
        raise UserError(f"patchprint eval {name} needs data: --data FOLDER")
    for data in common.data:
        for part in data.split(","):
            if not Path(part).exists():
                raise UserError(f"there is no {part}; give --data what the benchmark is to run on")
    if common.trained_on and (name != "ubc" or len(common.trained_on) != len(common.model)):
        raise UserError("--trained-on belongs to ubc and is given once for each --model")
    many = len(common.model) * len(common.data) > 1
    if many and common.out is not None and common.out.suffix == ".json":
        raise UserError(f"--out {common.out} is one file, but there are several results; give a folder")


def _describer(model: str, common: Common) -> describers.Describer:
    describer = describers.create(model, common.device)
    if common.patch_scale is not None:
        if model in ("sift", "rootsift"):
            raise UserError(f"{model} has its own patch; leave --patch-scale out")
        if not 1 <= common.patch_scale <= 200:
            raise UserError(f"--patch-scale {common.patch_scale:g} is not between 1 and 200")
        describer.patch_scale = common.patch_scale
    return describer


def _target(common: Common, name: str, data: str, describer: describers.Describer) -> Path | None:
    if common.out is None or common.out.suffix == ".json":
        return common.out
    where = Path(data_name({"data": {"path": data}})).stem
    where = "" if where == name else where.removeprefix(f"{name}-")
    scale = "" if common.patch_scale is None else f"{common.patch_scale:g}sigma"
    file = "-".join(part for part in (where, describer.id.name, scale) if part)
    # The model's name stands in a file that others wrote; it must not lead out of the folder.
    return common.out / name / (file.replace("/", "-").replace("\\", "-") + ".json")


def _command(name: str, benchmark: Benchmark) -> Callable[..., None]:
    """A typed function for tyro: the flags of all benchmarks, and those of this one."""

    def command(common: Common, settings: Any) -> None:
        run(name, common, settings)

    command.__doc__ = benchmark.summary
    command.__annotations__ = {"common": Common, "settings": benchmark.settings, "return": None}
    return command


COMMANDS: dict[str, Callable[..., None]] = {
    **{name: _command(name, benchmark) for name, benchmark in BENCHMARKS.items()},
    "--compare": side_by_side,
}
