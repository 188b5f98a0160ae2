"""``patchprint eval BENCH --model M --data D``: run a benchmark; ``patchprint eval --compare FILES``: results side by side."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from patchprint.benchmarks import BENCHMARKS, Benchmark, PredictionCache, Run, measure
from patchprint.cli import Commands, emit
from patchprint.common.devices import choose_device
from patchprint.common.errors import UserError
from patchprint.common.files import cache_folder, check_output_file, write_json
from patchprint.common.table import Table, format_number
from patchprint.features.model import Model, ModelBase
from patchprint.networks.engines import EXACT
from patchprint.report.result_comparison import Comparison, compare, data_name, read_results


@dataclass(frozen=True)
class Common:
    """Settings of all benchmarks."""

    # A name, a weight file, or one of sift, rootsift, pixels; may be given several times. For pipelines also those of others:
    # opencv-sift, orb, beblid, aliked-n16, disk, xfeat ... (docs/benchmarks.md).
    model: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    # Data of the benchmark; may be given several times. Commas join several stores to one set.
    data: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    # Result file, or a folder that receives BENCH/DATA-MODEL.json for each model and data set; DATA leaves out the name of
    # BENCH (oxford/MODEL.json), and --patch-scale N adds -Nsigma.
    out: Path | None = None
    # Replace result files that exist.
    force: bool = False
    # Seed of everything that is drawn.
    seed: int = 0
    # Side of the patch in units of the keypoint's sigma; the model's own if not given.
    patch_scale: float | None = None
    # Measure the signs of the descriptors as packed bits, the binary form of float weights.
    signs: bool = False
    # cpu, cuda or auto.
    device: str = "auto"
    # How a network is computed; float32 is exact; auto: what users of match get.
    engine: str = EXACT
    # Folder for predictions; PATCHPRINT_CACHE or ~/.cache/patchprint if not given.
    cache: Path | None = None
    # Compute all predictions anew and keep none.
    no_cache: bool = False
    # Stop at the first image that cannot be read; by default it is named, left out and counted.
    strict: bool = False


def run(benchmark: Benchmark, common: Common, settings: Any) -> None:
    """Measure every model on every data set."""
    _check(benchmark, common)
    device, folder = choose_device(common.device), common.cache or cache_folder("predictions")
    results = []
    for name in common.model:  # before hours of work: all of them can be loaded, and all results written
        _targets(common, benchmark.name, _load(benchmark, common, name))
    for name in common.model:
        model = _load(benchmark, common, name)
        for data, target in _targets(common, benchmark.name, model).items():
            cache = PredictionCache(None if common.no_cache else folder)
            paths = tuple(map(Path, data.split(","))) if data else ()
            made = measure(Run(benchmark, settings, model, paths, common.seed, cache, common.strict, device))
            result = made.to_json()
            if target is not None:
                write_json(target, result)
            results.append(result)
    engines = ", ".join(dict.fromkeys(str(result["model"]["engine"]) for result in results))
    text = "\n\n".join([*map(text_of, compare(results)), f"engine: {engines}"])
    emit(results[0] if len(results) == 1 else results, text)


def side_by_side(files: Annotated[tuple[Path, ...], tyro.conf.Positional]) -> None:
    """Print results side by side, with published numbers where the protocol is the same.

    Args:
        files: result files that patchprint eval wrote.
    """
    tables = compare(read_results(files))
    values = [
        {"title": title_of(t), "columns": t.columns, "rows": [{"model": m, "values": v} for m, v in t.rows]}
        for t in tables
    ]
    emit(values, "\n\n".join(map(text_of, tables)))


def title_of(comparison: Comparison) -> str:
    """Return the title of a comparison with its settings."""
    return f"{comparison.title} ({comparison.settings})" if comparison.settings else comparison.title


def text_of(comparison: Comparison) -> str:
    """Return a comparison as a title and aligned columns."""
    rows = [[label, *map(format_number, values)] for label, values in comparison.rows]
    return f"{title_of(comparison)}\n{Table(['', *comparison.columns], rows).to_text()}"


def _check(benchmark: Benchmark, common: Common) -> None:
    name = benchmark.name
    if not common.model:
        raise UserError(f"patchprint eval {name} needs a model: --model sift, --model NAME or --model FILE")
    if not common.data and benchmark.data_package is None:
        raise UserError(f"patchprint eval {name} needs data: --data FOLDER")
    if common.data and benchmark.data_package is not None:
        raise UserError(f"patchprint eval {name} brings its own data; leave --data out")
    for data in common.data:
        for part in data.split(","):
            if not Path(part).exists():
                raise UserError(f"there is no {part}; --data takes the folder or file to measure on")
    many = len(common.model) * max(1, len(common.data)) > 1
    if many and common.out is not None and common.out.suffix == ".json":
        raise UserError(f"--out {common.out} is one file, but there are several results; give a folder")


def _load(benchmark: Benchmark, common: Common, name: str) -> ModelBase:
    model = benchmark.load(name, common.device, common.engine)
    if common.patch_scale is None and not common.signs:
        return model
    if not isinstance(model, Model):
        raise UserError(f"{model.info.name} describes no patches; leave --patch-scale and --signs out")
    if common.patch_scale is not None:
        model = model.with_patch_scale(common.patch_scale)
    return model.signs() if common.signs else model


def _targets(common: Common, name: str, model: ModelBase) -> dict[str, Path | None]:
    """Return the result file of every data set.

    Raises:
        UserError: a file cannot be written.
    """
    targets = {data: _target(common, name, data, model) for data in common.data or ("",)}
    for target in filter(None, targets.values()):
        check_output_file(target, common.force)
    return targets


def _target(common: Common, name: str, data: str, model: ModelBase) -> Path | None:
    if common.out is None or common.out.suffix == ".json":
        return common.out
    where = Path(data_name({"data": {"path": data}})).stem
    where = "" if where == name else where.removeprefix(f"{name}-")
    scale = "" if common.patch_scale is None else f"{common.patch_scale:g}sigma"
    file = "-".join(part for part in (where, model.info.name, scale) if part)
    # The model's name stands in a file that others wrote; it must not lead out of the folder.
    return common.out / name / (re.sub(r"[/\\:]", "-", file) + ".json")


def _make(name: str) -> Callable[..., None]:
    if name == "--compare":
        return side_by_side
    benchmark = BENCHMARKS[name]()

    def command(common: Common, settings: Any) -> None:
        run(benchmark, common, settings)

    command.__doc__ = benchmark.summary
    command.__annotations__ = {"common": Common, "settings": benchmark.settings, "return": None}
    return command


COMMANDS = Commands((*BENCHMARKS, "--compare"), _make)
