"""From a study and what the user gave to the runs that are to be done, each with a name and a folder."""

from __future__ import annotations

import dataclasses
import fnmatch
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from patchprint.common.errors import UserError, suggest
from patchprint.common.provenance import sha256_of_file, sha256_of_folder
from patchprint.data import manifest
from patchprint.networks.engines import EXACT
from patchprint.studies._study import Case, Study
from patchprint.training import TrainConfig, resolve

# A run is at least this long, or as long as its recipe, however small the budget.
FEWEST_STEPS = 10
# Compiling a step takes as long as this many steps gain by it. A recorded step needs no compilation.
SHORT = 10_000
# A run logs at least this often, so that its curves can be drawn.
LINES = 100
# Settings that say where and how a run is done, not what it is; data are known by their checksum.
_NOT_PART_OF_A_RUN = ("data", "select_on_test", "device", "acceleration", "tensorboard")


@dataclass(frozen=True)
class Options:
    """What a user says beside the name of a study.

    Args:
        data: folders or files of the sets, by name; several stores are one set.
        out: folder of the study.
        budget: factor of the steps of every run.
        seeds: in place of those of the study.
        changes: settings of all runs, by the names of TrainConfig.
        only: pattern of the names of runs to do; the others are shown where they were done before.
        workers: runs at a time.
        device: cpu, cuda, mps or auto.
        engine: how networks are computed where they are measured; float32 is exact.
        keep: leave the weights of the runs in their folders.
        reuse: folders of other studies; what they did with the same settings and data is not done again.
    """

    data: Mapping[str, tuple[Path, ...]]
    out: Path
    budget: float = 1.0
    seeds: tuple[int, ...] = ()
    changes: Mapping[str, Any] = field(default_factory=dict)
    only: str = "*"
    workers: int = 1
    device: str = "auto"
    engine: str = EXACT
    keep: bool = False
    reuse: tuple[Path, ...] = ()

    def __post_init__(self) -> None:
        if not 0 < self.budget <= 100:
            raise UserError(f"--budget is {self.budget:g}; it is a factor of the steps, above 0 and at most 100")
        if self.workers < 1:
            raise UserError(f"--workers is {self.workers}; at least one run is done at a time")
        if len(set(self.seeds)) < len(self.seeds):
            raise UserError("--seeds names a seed twice; every run is done once")
        for name, flag in (("seed", "--seeds"), ("data", "--data"), ("device", "--device")):
            if name in self.changes:
                raise UserError(f"--set cannot change {name}; give {flag}")
        for folder in self.reuse:
            if not (folder / "runs").is_dir():
                raise UserError(f"--reuse names {folder}, which is not the folder of a study")


@dataclass(frozen=True)
class DataSet:
    """Where a set lies, and the checksum of what is in it."""

    paths: tuple[str, ...]
    sha256: str


@dataclass(frozen=True)
class PlannedMeasure:
    benchmark: str
    settings: dict[str, Any]
    data: DataSet
    signs: bool

    @property
    def identity(self) -> list[Any]:
        """What tells it from others."""
        return [self.benchmark, self.settings, self.data.sha256, *(["signs"] if self.signs else [])]


@dataclass(frozen=True)
class Plan:
    """One run, with all that a worker needs to do it; ``start`` is the run whose weights it starts from.

    Its folder is named after its settings too: a run with other settings never meets the files of this one, and a run that is
    there already is this very run.
    """

    name: str
    case: Case
    config: TrainConfig
    learns: DataSet
    measures: dict[str, PlannedMeasure]
    selects_on: tuple[DataSet, ...]
    start: Plan | None
    weights: str
    engine: str
    runs: Path
    keep: bool

    @property
    def folder(self) -> Path:
        """Folder of the training run."""
        return self.runs / f"{self.name}-{self.checksum}"

    @property
    def measured_weights(self) -> Path:
        """The weights that are measured, and that other runs start from."""
        return self.folder / f"{self.weights}.safetensors"

    @property
    def result(self) -> Path:
        """Written when the run was trained and measured."""
        return self.runs / f"{self.folder.name}.json"

    @property
    def log(self) -> Path:
        """What the run said; it stays only where the run failed."""
        return self.runs / f"{self.folder.name}.log"

    @property
    def checksum(self) -> str:
        """Of settings, data and measures: two runs that agree in it are one run, whatever they are called."""
        # What has its default does not count, so that a setting that is added later leaves old runs as they are.
        default = TrainConfig(recipe="", network="", loss="").to_json()
        config = {
            name: value
            for name, value in self.config.to_json().items()
            if name not in _NOT_PART_OF_A_RUN and value != default[name]
        }
        if self.start is not None:
            config["init"] = self.start.folder.name
        measures = {name: each.identity for name, each in self.measures.items()}
        parts = [
            config,
            self.learns.sha256,
            measures,
            self.weights,
            self.engine,
            *(each.sha256 for each in self.selects_on),
        ]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:8]


def run_name(case: Case, seed: int) -> str:
    return f"{case.name}-seed{seed}"


def plan(study: Study, options: Options) -> dict[str, Plan]:
    """All runs by name; those that were not asked for are left out where their sets were not given."""
    named = [(run_name(case, seed), case, seed) for case in study.cases for seed in options.seeds or study.seeds]
    asked_for = [case for name, case, _ in named if _is_asked_for(name, options)]
    if named and not asked_for:
        raise UserError(f"no run matches --only {options.only!r}; they are called like {named[0][0]}")
    sets = _open_sets(study, options, asked_for)
    plans: dict[str, Plan] = {}
    for name, case, seed in named:
        if study.sets_of(case) <= set(sets):
            start = None if case.starts_from is None else plans[run_name(study.case(case.starts_from), seed)]
            plans[name] = _plan_run(study, options, name, case, seed, sets, start)
    return plans


def asked_for(plans: Mapping[str, Plan], options: Options) -> list[Plan]:
    """The runs that match ``options.only`` and those that they start from, in the order of ``plans``."""
    wanted: set[str] = set()
    for name, each in plans.items():
        if _is_asked_for(name, options):
            wanted |= {run.name for run in _chain(each)}
    return [each for name, each in plans.items() if name in wanted]


def _chain(run: Plan) -> Iterator[Plan]:
    """A run, the one it starts from, and so on."""
    yield run
    if run.start is not None:
        yield from _chain(run.start)


def _is_asked_for(name: str, options: Options) -> bool:
    return fnmatch.fnmatchcase(name, options.only)


def _plan_run(
    study: Study, options: Options, name: str, case: Case, seed: int, sets: Mapping[str, DataSet], start: Plan | None
) -> Plan:
    measures = {
        title: PlannedMeasure(each.benchmark, each.settings, sets[each.on or case.learns], each.signs)
        for title, each in study.measures_of(case).items()
    }
    config = _config(case, seed, options, sets, start)
    selects_on = tuple(sets[each] for each in case.selects_on)
    # What another run starts from stays until that one is done.
    keep = options.keep or any(other.starts_from == case.name for other in study.cases)
    runs = options.out / "runs"
    return Plan(
        name, case, config, sets[case.learns], measures, selects_on, start, study.weights, options.engine, runs, keep
    )


def _config(case: Case, seed: int, options: Options, sets: Mapping[str, DataSet], start: Plan | None) -> TrainConfig:
    settings = _merge(case.settings, options.changes)
    fixed: dict[str, Any] = {"data": sets[case.learns].paths, "seed": seed}
    fixed |= {"device": options.device, "tensorboard": False}
    if case.selects_on:
        fixed["select_on_test"] = tuple(path for name in case.selects_on for path in sets[name].paths)
    if start is not None:
        fixed["init"] = str(start.measured_weights)
    config = resolve(case.recipe, **{**settings, **fixed})
    steps = max(round(config.steps * options.budget), min(config.steps, FEWEST_STEPS))
    config = dataclasses.replace(config, steps=steps, log_every=min(config.log_every, max(1, steps // LINES)))
    if config.acceleration == "auto" and steps <= SHORT:
        config = dataclasses.replace(config, acceleration="record")
    if not case.selects_on:
        return config
    # A shorter run is tested as often as a whole one, as far as it has steps.
    return dataclasses.replace(config, validate_every=max(1, round(config.validate_every * options.budget)))


def _merge(settings: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Both, where ``changes`` win; options of network, loss and batcher are merged one by one."""
    merged = dict(settings)
    for name, value in changes.items():
        before = merged.get(name)
        merged[name] = {**before, **value} if isinstance(before, dict) and isinstance(value, dict) else value
    return merged


def _open_sets(study: Study, options: Options, cases: list[Case]) -> dict[str, DataSet]:
    """Every set that was given, after a look at those that the ``cases`` need."""
    for name in options.data:
        if name not in study.data:
            raise UserError(f"the study has no set {name!r}; {suggest(name, study.data)}")
    for name, what in study.data.items():
        if name not in options.data and any(name in study.sets_of(case) for case in cases):
            raise UserError(f"the study needs --data {name}=PATH ({what})")
    learned = {case.learns for case in study.cases}
    return {name: _open_set(paths, name in learned) for name, paths in options.data.items()}


def _open_set(paths: tuple[Path, ...], is_learned: bool) -> DataSet:
    for path in paths:
        if not path.exists():
            raise UserError(f"there is no {path}; give --data NAME=PATH a set that is there")
    folders = [_store(path) if is_learned else path for path in paths]
    checksums = [_checksum(path) for path in folders]
    joined = checksums[0] if len(checksums) == 1 else hashlib.sha256("\n".join(checksums).encode()).hexdigest()
    return DataSet(tuple(map(str, folders)), joined)


def _store(path: Path) -> Path:
    """The store itself, or the one that is made once of an archive or folder of labeled images."""
    if (path / manifest.NAME).is_file():
        return path
    from patchprint.data.builders import labeled_images

    return labeled_images.cached_store(path)


def _checksum(path: Path) -> str:
    """Of a store, that of the checksums of its files, which its manifest holds."""
    if (path / manifest.NAME).is_file():
        listing = {name: entry["sha256"] for name, entry in manifest.read(path)["files"].items()}
        return hashlib.sha256(json.dumps(listing, sort_keys=True).encode()).hexdigest()
    return sha256_of_folder(path) if path.is_dir() else sha256_of_file(path)
