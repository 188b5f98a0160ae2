"""Train a network as ``patchprint train`` does: the run, the threshold of its ratio test, and a page about it."""

import dataclasses
from collections.abc import Iterable, Sequence
from pathlib import Path

from patchprint.common import distributed
from patchprint.common.errors import UserError
from patchprint.common.progress import note
from patchprint.common.registry import option_names
from patchprint.common.safe_io import read_json
from patchprint.data.builders.labeled_images import cached_store
from patchprint.data.patch_source import PatchSource
from patchprint.matching.calibration import CALIBRATION_IMAGES, calibrate as choose_ratio, some_images, write_ratio
from patchprint.networks import NETWORKS
from patchprint.networks.weights import read_info
from patchprint.report.page import write
from patchprint.report.runs import read_run
from patchprint.report.training_page import training_page
from patchprint.training import Outcome, TrainConfig
from patchprint.training.loop import run_task, train as run_training
from patchprint.training.task import Task

REPORT = "report.html"  # in the folder of the run


def train(
    config: TrainConfig,
    source: PatchSource | None = None,
    *,
    out: str | Path,
    resume: bool = False,
    force: bool = False,
    validation: PatchSource | None = None,
    calibrate: bool = True,
    report: bool = True,
) -> Outcome:
    """Train a network, choose the threshold of the ratio test for its weights, and write a report.

    Args:
        config: settings of the run, as ``patchprint.training.resolve`` makes them of a recipe.
        source: points to learn from; default: the stores in ``config.data``. Archives and folders of labeled images that
            stand there become stores in the cache.
        out: folder of the run.
        resume: go on from the last checkpoint in ``out``.
        force: replace a run that is in ``out`` already.
        validation: points that choose the best weights; default: those that ``source`` holds out.
        calibrate: write the threshold of the ratio test into the weights.
        report: write ``report.html`` into ``out``.
    """
    if source is None and "backbone" in option_names(NETWORKS[config.network]):
        config = dataclasses.replace(config, data=tuple(str(cached_store(path)) for path in config.data))
    outcome = run_training(config, source, out=out, resume=resume, force=force, validation=validation)
    if distributed.rank() == 0:
        if calibrate and read_info(outcome.best).channels == 1:
            outcome = dataclasses.replace(outcome, ratio=_calibrate(outcome, () if source is not None else config.data))
        if report:
            _write_report(out)
    return outcome


def train_task(task: Task, *, out: str | Path, resume: bool = False, force: bool = False) -> Outcome:
    """Train what is no descriptor, and write a report; the arguments are those of `train`."""
    outcome = run_task(task, out=out, resume=resume, force=force)
    _write_report(out)
    return outcome


def resumed_config(out: str | Path, recipe: str, data: Sequence[str | Path] = ()) -> TrainConfig:
    """Read the settings of the run in ``out``, whose stores may lie elsewhere now; raises UserError for another recipe."""
    file = Path(out) / "config.json"
    config = TrainConfig.from_json(read_json(file, "the settings of a run"), str(file))
    if config.recipe != recipe:
        raise UserError(f"{out} is a run of {config.recipe}, not of {recipe}; resume it with its own recipe")
    return dataclasses.replace(config, data=tuple(map(str, data)) or config.data)


def _write_report(out: str | Path) -> None:
    write(training_page([read_run(Path(out))]), Path(out) / REPORT)


def _calibrate(outcome: Outcome, stores: Iterable[str]) -> float | None:
    """Write the threshold of the ratio test into the weights, chosen on some of the images they learned from."""
    images = [image for store in stores for image in some_images(store)]
    checksums = {path: read_info(path).sha256 for path in (outcome.best, outcome.last)}
    weights = {checksum: path for path, checksum in checksums.items()}  # the last ones may be the best
    try:
        choices = {each: choose_ratio(path, images[:CALIBRATION_IMAGES] or None) for each, path in weights.items()}
    except UserError as error:
        note(f"the ratio test is not calibrated ({error}); patchprint calibrate {outcome.best} --write does it")
        return None
    for path, checksum in checksums.items():
        write_ratio(path, choices[checksum].ratio)
    return choices[checksums[outcome.best]].ratio
