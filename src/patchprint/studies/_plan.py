"""From a study and the options of the user to the runs to do, each with a name and a checksum."""

from __future__ import annotations

import dataclasses
import fnmatch
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from patchprint.common.errors import UserError, suggest
from patchprint.common.provenance import sha256_of_file, sha256_of_folder
from patchprint.data import manifest
from patchprint.data.builders.labeled_images import cached_store
from patchprint.networks.engines import EXACT
from patchprint.studies._learners import learner_of
from patchprint.studies._study import Case, Measure, Study
from patchprint.training import TrainConfig
from patchprint.training.recipes import read_options

# A run is at least this long, or as long as its recipe, however small the budget.
FEWEST_STEPS = 10
# A run logs at least this often, so that its curves can be drawn.
LINES = 100
# Settings that say where and how a run is done, not what it is; data are identified by their checksums.
_NOT_PART_OF_A_RUN = ("data", "select_on_test", "device", "acceleration", "tensorboard")
_FORMAT = 2  # of the result of a run; 1 had no series


@dataclass(frozen=True, kw_only=True)
class Options:
    """How the runs of a study are done."""

    # Folders or files of the sets, by name; several stores are one set.
    data: Mapping[str, tuple[Path, ...]] = field(default_factory=dict)
    # Output folder: a report (.html), .json, .md and .svg, and the runs. What is done there is not done again.
    out: Path
    # Factor of the steps of every run; 0.01 tries the whole study out.
    budget: float = 1.0
    # Seeds instead of those of the study.
    seeds: tuple[int, ...] = ()
    # Changed settings of all runs, by the names of TrainConfig.
    changes: Mapping[str, Any] = field(default_factory=dict)
    # Pattern of the names of runs to do, as 'cub-*-seed0'; the others are shown if they were done before.
    only: str = "*"
    # Runs at a time, each in its own process.
    workers: int = 1
    # cpu, cuda, mps or auto.
    device: str = "auto"
    # How networks are computed where they are measured, as in patchprint eval.
    engine: str = EXACT
    # Keep the training runs with their weights.
    keep: bool = False
    # Output folders or JSON files of other studies, whose runs with equal settings and data are not trained again.
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
        for path in self.reuse:
            if not path.is_file() and not (path / "runs").is_dir():
                raise UserError(
                    f"--reuse names {path}, which is neither the output folder nor the JSON file of a study"
                )


def read_sets(words: Iterable[str]) -> dict[str, tuple[Path, ...]]:
    """Parse ``--data``: NAME=PATH words; commas join several stores to one set."""
    sets: dict[str, tuple[Path, ...]] = {}
    for word in words:
        name, separator, paths = word.partition("=")
        if not separator or not name or not paths:
            raise UserError(f"--data is written NAME=PATH, not {word!r}")
        if name in sets:
            raise UserError(f"--data names {name} twice; commas join several stores: {name}=A,B")
        sets[name] = tuple(map(Path, paths.split(",")))
    return sets


def read_changes(words: Iterable[str]) -> dict[str, Any]:
    """Parse ``--set``: SETTING=VALUE words; a dot leads to an option: network_options.width=8."""
    changes: dict[str, Any] = {}
    for name, value in read_options(words).items():
        setting, separator, option = name.partition(".")
        if separator:
            changes.setdefault(setting, {})[option] = value
        else:
            changes[setting] = value
    return changes


@dataclass(frozen=True)
class DataSet:
    """Paths of a set, and the checksum of its contents."""

    paths: tuple[str, ...]
    sha256: str


@dataclass(frozen=True)
class Plan:
    """One run, with all that a worker process needs to do it.

    Its files are named after its settings too: a run with other settings never meets the files of this one, and a run whose
    result exists is this very run.
    """

    name: str  # of the case and seed
    case: Case
    config: TrainConfig
    sets: dict[str, DataSet]
    measures: dict[str, Measure]
    start: Plan | None  # whose weights it starts from
    weights: str  # that are measured: best or last
    engine: str  # with which the network is measured
    runs: Path  # folder of all runs

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
        """What the run printed; kept only if the run failed."""
        return self.runs / f"{self.folder.name}.log"

    @property
    def is_done(self) -> bool:
        return self.result.is_file()

    def set_of(self, measure: Measure) -> DataSet:
        """Return the set that a measure is taken on."""
        return self.sets[measure.on or self.case.learns]

    @property
    def checksum(self) -> str:
        """Checksum of settings, data and measures: runs that agree in it are one run, whatever their names."""
        # Settings with their defaults do not count, so that a setting that is added later leaves old runs valid.
        default = TrainConfig(recipe="", network="", loss="").to_json()
        config = {
            name: value
            for name, value in self.config.to_json().items()
            if name not in _NOT_PART_OF_A_RUN and value != default[name]
        }
        if self.start is not None:
            config["init"] = self.start.folder.name
        measures = {
            name: [each.benchmark, each.settings, self.set_of(each).sha256, each.signs]
            for name, each in self.measures.items()
        }
        data = [self.sets[name].sha256 for name in (self.case.learns, *self.case.selects_on)]
        parts = [_FORMAT, config, data, measures, self.weights, self.engine]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:8]


def run_name(case: Case, seed: int) -> str:
    return f"{case.name}-seed{seed}"


def plan(study: Study, options: Options) -> dict[str, Plan]:
    """Return all runs by name; those that were not asked for are left out if their sets were not given."""
    named = [(run_name(case, seed), case, seed) for case in study.cases for seed in options.seeds or study.seeds]
    wanted = [case for name, case, _ in named if _is_asked_for(name, options)]
    if named and not wanted:
        raise UserError(f"no run matches --only {options.only!r}; they are called like {named[0][0]}")
    sets = _open_sets(study, options, wanted)
    plans: dict[str, Plan] = {}
    for name, case, seed in named:
        needed = study.sets_of(case)
        if needed <= set(sets):
            start = None if case.starts_from is None else plans[run_name(study.case(case.starts_from), seed)]
            config = _config(case, seed, options, sets, start)
            measures, chosen = study.measures_of(case), {each: sets[each] for each in sorted(needed)}
            runs = options.out / "runs"
            plans[name] = Plan(name, case, config, chosen, measures, start, study.weights, options.engine, runs)
    return plans


def asked_for(plans: Mapping[str, Plan], options: Options) -> list[Plan]:
    """Return the runs that match ``options.only`` and those that they start from, in the order of ``plans``."""
    wanted = {run.name for name, each in plans.items() if _is_asked_for(name, options) for run in _chain(each)}
    return [each for name, each in plans.items() if name in wanted]


def _chain(run: Plan) -> Iterator[Plan]:
    """Yield a run, the one it starts from, and so on."""
    yield run
    if run.start is not None:
        yield from _chain(run.start)


def _is_asked_for(name: str, options: Options) -> bool:
    return fnmatch.fnmatchcase(name, options.only)


def _config(case: Case, seed: int, options: Options, sets: Mapping[str, DataSet], start: Plan | None) -> TrainConfig:
    fixed: dict[str, Any] = {"data": sets[case.learns].paths, "seed": seed, "device": options.device}
    if case.selects_on:
        fixed["select_on_test"] = tuple(path for name in case.selects_on for path in sets[name].paths)
    if start is not None:
        fixed["init"] = str(start.measured_weights)
    config = learner_of(case.recipe).config(case.recipe, **{**_merge(case.settings, options.changes), **fixed})
    steps = max(round(config.steps * options.budget), min(config.steps, FEWEST_STEPS))
    config = dataclasses.replace(config, steps=steps, log_every=min(config.log_every, max(1, steps // LINES)))
    if not case.selects_on:
        return config
    # A shorter run is tested as often as a whole one, as far as it has steps.
    return dataclasses.replace(config, validate_every=max(1, round(config.validate_every * options.budget)))


def _merge(settings: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Merge both, where ``changes`` win; options of network, loss and batcher are merged one by one."""
    merged = dict(settings)
    for name, value in changes.items():
        before = merged.get(name)
        merged[name] = {**before, **value} if isinstance(before, dict) and isinstance(value, dict) else value
    return merged


def _open_sets(study: Study, options: Options, cases: list[Case]) -> dict[str, DataSet]:
    """Return every set that was given, after a check of those that the ``cases`` need."""
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
    folders = [cached_store(path) if is_learned else path for path in paths]
    checksums = [_checksum(path) for path in folders]
    joined = checksums[0] if len(checksums) == 1 else hashlib.sha256("\n".join(checksums).encode()).hexdigest()
    return DataSet(tuple(map(str, folders)), joined)


def _checksum(path: Path) -> str:
    """Return the checksum of a file or folder; of a store, that of the checksums in its manifest."""
    if (path / manifest.NAME).is_file():
        listing = {name: entry["sha256"] for name, entry in manifest.read(path)["files"].items()}
        return hashlib.sha256(json.dumps(listing, sort_keys=True).encode()).hexdigest()
    return sha256_of_folder(path) if path.is_dir() else sha256_of_file(path)
