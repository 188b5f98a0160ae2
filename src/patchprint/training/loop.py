"""The training loop: steps on the device; logging, validation and checkpoints from the host.

Config, data and seed decide a run. Stopped at any moment, it resumes from its last checkpoint as if nothing had happened.
"""

import contextlib
import copy
import dataclasses
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from tqdm import tqdm

from patchprint.common import distributed as ranks, files, provenance
from patchprint.common.devices import keep_freed_memory
from patchprint.common.errors import UserError
from patchprint.common.signals import stop_as_event
from patchprint.data.patch_source import PatchSource
from patchprint.networks import weights
from patchprint.networks.network import TrainingRecord
from patchprint.training import assembly, checkpoint, held_out
from patchprint.training.config import TrainConfig
from patchprint.training.run_folder import RunFolder
from patchprint.training.task import PatchTask, Task


@dataclass(frozen=True)
class Outcome:
    """A finished run: the ``best`` weights by the score on ``selected_on`` data (see `held_out`) and what was ``measured`` of
    them, the ``last`` ones, and the validations of all best weights that were ``kept``."""

    steps: int
    best_step: int
    measured: dict[str, float]
    selected_on: str
    best: Path
    last: Path
    seconds: float
    kept: tuple[checkpoint.Validated, ...] = ()
    ratio: float | None = None  # of the ratio test, where it was calibrated

    def mean(self) -> dict[str, float]:
        """Mean of each measured number over ``kept``."""
        return {name: statistics.fmean(each.measured[name] for each in self.kept) for name in self.measured}

    def spread(self) -> dict[str, float]:
        """Standard deviation of each measured number over ``kept``; 0 where one is kept."""
        if len(self.kept) < 2:
            return dict.fromkeys(self.measured, 0.0)
        return {name: statistics.stdev(each.measured[name] for each in self.kept) for name in self.measured}

    def to_json(self) -> dict[str, Any]:
        plain = {**dataclasses.asdict(self), "best": str(self.best), "last": str(self.last)}
        return {**plain, "mean": self.mean(), "spread": self.spread()}


def train(
    config: TrainConfig,
    source: PatchSource | None = None,
    *,
    out: str | Path,
    resume: bool = False,
    force: bool = False,
    validation: PatchSource | None = None,
) -> Outcome:
    """Train by ``config`` into the folder ``out``.

    Args:
        source: data to learn from; by default the stores in ``config.data``, which alone can be divided among processes.
        resume: go on from the last checkpoint in ``out``.
        force: replace a run in ``out``.
        validation: data that select the best weights, in place of the "val" points of ``source``. All of ``source`` is learned
            from then; without ``config.hold_out``, and where test data select, all but its "test" points.
    """
    return run_task(PatchTask(config, source, validation), out=out, resume=resume, force=force)


def run_task(task: Task, *, out: str | Path, resume: bool = False, force: bool = False) -> Outcome:
    """Train what ``task`` says into the folder ``out``; the other arguments are those of `train`."""
    with (
        keep_freed_memory() if task.device.type == "cpu" else contextlib.nullcontext(),
        _deterministic(task.config.deterministic or task.device.type == "cpu"),
        files.exclusive_writer(out) if ranks.rank() == 0 else contextlib.nullcontext(),
    ):
        run = _Run(task, Path(out), resume, force)
        with contextlib.closing(run):
            return run.to_the_end()


class _Run:
    """One call of ``train``: the step, and what the host does around it."""

    def __init__(self, task: Task, out: Path, resume: bool, force: bool) -> None:
        self.task, self.config, self.is_first = task, task.config, ranks.rank() == 0
        self.state = task.create_state()
        # The first rank looks at the data for all of them; the others do only what it cannot do without them.
        self.takes_part = self.is_first or task.is_divided
        network = self.state.network
        self.step = task.create_step(self.state)
        if resume:
            checkpoint.read(checkpoint.latest(out / "checkpoints"), self.state, self.config)
            self.step.step.fill_(self.state.step)
        self.out, self.folder = out, RunFolder(out, self.config, resume, force) if self.is_first else None
        if self.folder and resume:
            self.folder.forget_after(self.state.step)
        # Weights as they are judged and saved: the running average where there is one.
        self.judged = network if self.state.average is None else copy.deepcopy(network).eval()
        if self.folder and resume:
            self._write_outcome()
        self.started = self.counted_from = time.perf_counter()
        self.began, self.first_step = time.monotonic(), self.state.step
        self.logged_step = self.state.step

    def to_the_end(self) -> Outcome:
        config, state, device = self.config, self.state, self.task.device
        with (
            stop_as_event() as asked_to_stop,
            tqdm(total=config.steps, initial=state.step, disable=None if self.is_first else True, unit="step") as bar,
        ):
            while state.step < config.steps:
                self._run_step()
                bar.update()
                at_end = state.step == config.steps
                to_log = at_end or state.step % config.log_every == 0
                to_validate = at_end or state.step % config.validate_every == 0
                # All ranks must stop at the same step; they compare notes when they log.
                stopping = (to_log or not ranks.is_distributed()) and ranks.any_rank(asked_to_stop.is_set(), device)
                to_save = at_end or stopping or state.step % config.checkpoint_every == 0
                if to_log or to_validate or to_save:
                    self._check_finite()
                if to_log:
                    self._log(bar)
                paused = time.perf_counter()
                if to_validate:
                    self._validate()
                if to_save and self.folder:
                    checkpoint.write(self.folder.checkpoints, state, config)
                    self._write_outcome()
                self.counted_from += time.perf_counter() - paused
                if stopping and not at_end:
                    raise asked_to_stop.exception()
        return Outcome(
            steps=state.step,
            best_step=state.best[0].step if state.best else state.step,
            measured=state.best[0].measured if state.best else {},
            selected_on=self.task.selected_on,
            best=self.out / "best.safetensors",
            last=self.out / "last.safetensors",
            seconds=round(time.perf_counter() - self.started, 3),
            kept=tuple(state.best),
        )

    def close(self) -> None:
        if self.folder:
            steps = {"first_step": self.first_step, "last_step": self.state.step}
            self.folder.append("calls.jsonl", {**steps, **provenance.run_info(self.began)})

    def _run_step(self) -> None:
        try:
            self.step.run()
            return
        except torch.OutOfMemoryError:
            pass  # leaving this block frees what the failed step held
        if ranks.is_distributed():
            advice = "give a smaller one, or start more processes"  # which one fits could only be tried by all of them
        else:
            fits = self.task.fitting_batch()
            advice = f"give --batch {fits}, which fits" if fits else "not even the smallest batch fits"
        raise UserError(f"the GPU has too little memory for --batch {self.config.batch}; {advice}")

    def _check_finite(self) -> None:
        """Raise UserError where a loss or weight was not finite; nothing else waits for the device."""
        first_bad = int(self.step.first_bad)
        if first_bad >= 0:
            kept = sorted((self.out / "checkpoints").glob("step-*"))
            good = f"the last good checkpoint is {kept[-1]}" if kept else "no checkpoint was written before it"
            raise UserError(f"loss or weights became NaN or infinite at step {first_bad + 1}; {good}; try a lower --lr")

    def _log(self, bar: tqdm) -> None:
        watched = self.task.monitor(self._judged()) if self.takes_part else {}
        if self.folder is None or not self.step.losses:
            return
        measured = {f"loss/{name}": value for name, value in self.step.losses.items()} | watched
        numbers = torch.stack([value.float() for value in measured.values()]).tolist()
        steps, self.logged_step = self.state.step - self.logged_step, self.state.step
        seconds, self.counted_from = time.perf_counter() - self.counted_from, time.perf_counter()
        rates = {
            "lr": assembly.learning_rate(self.config, self.state.step - 1),
            f"{self.task.counted}_per_second": round(
                steps * self.config.batch * self.config.views / max(seconds, 1e-9), 1
            ),
        }
        self.folder.log(self.state.step, {**dict(zip(measured, numbers, strict=True)), **rates})
        bar.set_postfix(loss=f"{numbers[0]:.4f}", refresh=False)

    def _validate(self) -> None:
        if self.folder:
            self.task.show_validation(self.state.step, self.folder)
        if len(self.task.judge) and self.takes_part:
            measured = self.task.judge.measure(self.task.evaluated(self._judged()))
            if self.folder:
                self._keep_best(measured, self.folder)

    def _keep_best(self, measured: held_out.Measured, folder: RunFolder) -> None:
        folder.log(self.state.step, {f"{self.task.selected_on}/{name}": value for name, value in measured.items()})
        found = checkpoint.Validated(self.state.step, held_out.score(measured), measured)
        # Of equals the earlier is the better one.
        self.state.best = sorted([*self.state.best, found], key=lambda each: each.score)[: self.config.keep_best]
        if found in self.state.best and self.config.keep_best > 1:
            self._save(_kept_name(found))
        if found is self.state.best[0]:
            self._save("best")

    def _write_outcome(self) -> None:
        """Write what follows the newest checkpoint; a killed run may not have come to it."""
        for name in ("last",) if self.state.best else ("last", "best"):
            path = self.out / f"{name}.safetensors"
            # Weights that are there already may carry a calibrated ratio.
            if _step_of_weights(path) != self.state.step:
                self._save(name)
        # Only now: a run that is resumed from the checkpoint before this one finds the weights that it had kept.
        kept = {f"{_kept_name(each)}.safetensors" for each in self.state.best}
        for file in self.out.glob("best-*.safetensors"):
            if file.name not in kept:
                file.unlink()

    def _judged(self) -> nn.Module:
        if self.state.average is not None:
            # Counters have no average.
            self.judged.load_state_dict({**self.state.network.state_dict(), **self.state.average})
        return self.judged

    def _save(self, name: str) -> None:
        record = TrainingRecord(
            recipe=self.config.recipe,
            data=", ".join(_called(Path(folder)) for folder in self.config.data),
            step=self.state.step,
            start="" if self.config.init in (None, assembly.RANDOM) else self.config.init,
            config=self.config.to_json(),
        )
        called = f"{self.config.network}.{self.out.resolve().name}"
        self.task.save(self._judged(), self.out / f"{name}.safetensors", called, record)


def _called(data: Path) -> str:
    return data.parent.name if data.name == "images" else data.name


def _kept_name(judged: checkpoint.Validated) -> str:
    return f"best-{judged.step:09d}"


def _step_of_weights(path: Path) -> int | None:
    """Return the step of a weight file; None where it cannot be read."""
    with contextlib.suppress(UserError, FileNotFoundError):
        return weights.read_info(path).training.step
    return None


@contextlib.contextmanager
def _deterministic(wanted: bool) -> Iterator[None]:
    """Use deterministic kernels; uninitialized memory is not filled, since no step reads it."""
    settings: Any = torch.utils.deterministic
    before, fill = torch.are_deterministic_algorithms_enabled(), settings.fill_uninitialized_memory
    if wanted:
        torch.use_deterministic_algorithms(True)
        settings.fill_uninitialized_memory = False
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)
        settings.fill_uninitialized_memory = fill
