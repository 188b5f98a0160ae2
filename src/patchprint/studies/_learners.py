"""What the runs of a study train and measure, by their recipe: a descriptor, or the matcher graph."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import torch

from patchprint.benchmarks import BENCHMARKS, evaluate
from patchprint.common.devices import choose_device
from patchprint.common.provenance import sha256_of_file
from patchprint.common.registry import check_options, option_names
from patchprint.features.image_model import load_any
from patchprint.features.model import Model, load
from patchprint.matching.candidate_graph import GraphOptions
from patchprint.matching.feature_bank import BankSettings, open_bank
from patchprint.matching.matcher_training import RECIPE, HeldOutImagePairs, MatcherSettings, MatcherTask
from patchprint.matching.matchers.graph import read_weights
from patchprint.studies._measures import PROBES
from patchprint.training import Outcome, TrainConfig, resolve, train
from patchprint.training.loop import run_task

if TYPE_CHECKING:
    from patchprint.studies._plan import Plan
    from patchprint.studies._study import Measure

MATCHES = "matches"  # what is measured of a matcher


class Learner(Protocol):
    """Makes settings of a run, trains it, and measures its weights."""

    def config(self, recipe: str, data: Sequence[str], **settings: Any) -> TrainConfig: ...

    def check(self, measure: Measure) -> None:
        """Raise UserError for a measure or a setting of it that is not known."""

    def train(self, config: TrainConfig, out: Path, begun: bool) -> Outcome: ...

    def measure(self, plan: Plan) -> tuple[str, dict[str, Any]]:
        """Return the checksum of the measured weights, and by measure what was found and what it was measured on."""


class DescriptorLearner:
    """Trains descriptors of patches and images, which benchmarks and probes measure."""

    def config(self, recipe: str, data: Sequence[str], **settings: Any) -> TrainConfig:
        return resolve(recipe, data=tuple(data), tensorboard=False, **settings)

    def check(self, measure: Measure) -> None:
        benchmark = (PROBES if measure.benchmark in PROBES else BENCHMARKS)[measure.benchmark]()
        check_options(measure.benchmark, measure.settings, option_names(benchmark.settings))

    def train(self, config: TrainConfig, out: Path, begun: bool) -> Outcome:
        return train(config, out=out, resume=begun, force=not begun)

    def measure(self, plan: Plan) -> tuple[str, dict[str, Any]]:
        model = load_any(plan.measured_weights, plan.config.device, engine=plan.engine)
        found = {}
        for name, each in plan.measures.items():
            benchmark = (PROBES if each.benchmark in PROBES else BENCHMARKS)[each.benchmark]()
            measured = model.signs() if each.signs and isinstance(model, Model) else model
            paths, device = plan.set_of(each).paths, plan.config.device
            result = evaluate(benchmark, measured, data=paths, device=device, **each.settings)
            found[name] = {
                "benchmark": result.benchmark,
                "settings": result.settings,
                "data": result.data,
                "engine": result.model["engine"],
                "headline": benchmark.headline(result.scores),
                "scores": result.scores,
            }
        return model.info.sha256, found


@dataclass(frozen=True)
class MatchesSettings:
    """Which pairs of the images of stores a matcher is measured on."""

    images: int = 40  # of each store, evenly spread over it
    pairs: int = 60  # of each kind, drawn once for all runs


class MatcherLearner:
    """Trains the matcher graph, of which right matches at equal precision are measured, beside the ratio test.

    Settings of a run are fields of `MatcherSettings`; those of the network, by name, are in ``network``.
    """

    def config(self, recipe: str, data: Sequence[str], **settings: Any) -> TrainConfig:
        network = settings.pop("network", {})
        check_options(f"recipe {recipe}", settings, [each.name for each in dataclasses.fields(MatcherSettings)])
        check_options("network 'graph'", network, option_names(GraphOptions))
        config = MatcherSettings(**settings, network=GraphOptions(**network)).config(data)
        return dataclasses.replace(config, tensorboard=False)

    def check(self, measure: Measure) -> None:
        check_options("measure", [measure.benchmark], [MATCHES])
        check_options(MATCHES, measure.settings, option_names(MatchesSettings))

    def train(self, config: TrainConfig, out: Path, begun: bool) -> Outcome:
        return run_task(MatcherTask(config), out=out, resume=begun, force=not begun)

    def measure(self, plan: Plan) -> tuple[str, dict[str, Any]]:
        device = choose_device(plan.config.device)
        network = read_weights(plan.measured_weights, device).network
        bank = dict(plan.config.batcher_options)
        model = load(bank.pop("model"), device)
        found = {}
        for name, each in plan.measures.items():
            settings, data = MatchesSettings(**each.settings), plan.set_of(each)
            bank |= {"images": settings.images, "leave_out": (), "copies": 1}
            scenes = [scene.to(device) for scene in open_bank(data.paths, model, BankSettings(**bank))]
            everyone = [list(range(len(scene.images))) for scene in scenes]
            pairs = HeldOutImagePairs(scenes, everyone, everyone, device, settings.pairs)
            with torch.no_grad():
                scores = {"graph": pairs.right_matches(network), "mutual+ratio": pairs.right_by_ratio()}
            found[name] = {
                "benchmark": MATCHES,
                "settings": dataclasses.asdict(settings),
                "data": {"path": ",".join(data.paths), "sha256": data.sha256},
                "engine": plan.engine,
                "headline": {f"right, {kind}": value for kind, value in scores["graph"].items()},
                "scores": scores,
            }
        return sha256_of_file(plan.measured_weights), found


_DESCRIPTORS, _MATCHER = DescriptorLearner(), MatcherLearner()


def learner_of(recipe: str) -> Learner:
    """Return what trains a recipe."""
    return _MATCHER if recipe == RECIPE else _DESCRIPTORS
