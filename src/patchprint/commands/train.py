"""``patchprint train RECIPE --data STORE --out RUN``: one command for each published method."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from patchprint.commands.output import emit
from patchprint.errors import UserError
from patchprint.training import RECIPES, distributed, resolve, train
from patchprint.training.config import Acceleration, Optimizer, Precision, Schedule


@dataclass(frozen=True)
class Settings:
    """Numbers of the recipe to change; what is not given stays as published."""

    steps: int | None = None
    """Length of the run; schedule, warm-up and moving averages follow it."""
    batch: int | None = None
    """Points in a batch, over all processes."""
    views: int | None = None
    """Patches of each point in a batch."""
    augmentation: str | None = None
    """none, strong, or the setting of a paper: l2net, hardnet, hardnet2018, hynet, sdgmnet, cdf, doap, tfeat."""
    patch_scale: float | None = None
    """Side of patches cut from photos, in units of the keypoint's sigma."""
    optimizer: Optimizer | None = None
    """The optimiser."""
    lr: float | None = None
    """Learning rate at the start."""
    weight_decay: float | None = None
    """Weight decay."""
    schedule: Schedule | None = None
    """How the learning rate falls."""
    sec: float | None = None
    """Weight of the spherical embedding constraint; 0 leaves it out."""
    average: float | None = None
    """Decay of a running average of the weights, which is then validated and saved; 0 for none."""
    seed: int | None = None
    """Seed of everything random."""
    init: str | None = None
    """Weights to start from: a name or a file."""
    device: str | None = None
    """cpu, cuda or auto."""
    precision: Precision | None = None
    """Precision of the network; the loss is computed in float32 always."""
    acceleration: Acceleration | None = None
    """eager, compiled, or compiled and recorded as a CUDA graph."""
    log_every: int | None = None
    """Steps between lines of metrics.jsonl."""
    validate_every: int | None = None
    """Steps between validations."""
    validation_pairs: int | None = None
    """Pairs of held-out patches in a validation."""
    checkpoint_every: int | None = None
    """Steps between checkpoints."""


def _command(recipe: str) -> Callable[..., int]:
    def command(
        data: tyro.conf.UseAppendAction[tuple[Path, ...]] = (),
        out: Path = Path("runs") / recipe,
        settings: Settings = Settings(),  # noqa: B008 - frozen
        network: tyro.conf.UseAppendAction[tuple[str, ...]] = (),
        loss: tyro.conf.UseAppendAction[tuple[str, ...]] = (),
        freeze: tyro.conf.UseAppendAction[tuple[str, ...]] = (),
        select_on_test: Annotated[
            tyro.conf.UseAppendAction[tuple[Path, ...]], tyro.conf.arg(name="select-on-test-as-the-papers-did")
        ] = (),
        resume: bool = False,
        force: bool = False,
        deterministic: bool = False,
        json: bool = False,
    ) -> int:
        if not data:
            raise UserError(f"patchprint train {recipe} needs --data STORE; patchprint data build makes one")
        changes: dict[str, Any] = {k: v for k, v in dataclasses.asdict(settings).items() if v is not None}
        for name, given in (("network_options", network), ("loss_settings", loss)):
            if given:
                changes[name] = _read_options(given)
        config = resolve(
            recipe,
            **changes,
            data=tuple(map(str, data)),
            freeze=freeze,
            select_on_test=tuple(map(str, select_on_test)),
            deterministic=deterministic,
        )
        try:
            outcome = train(config, None, out, resume, force)
            score = (
                "" if outcome.best_fpr95 is None else f", {outcome.selected_on} FPR95 {100 * outcome.best_fpr95:.2f} %"
            )
            if distributed.rank() == 0:
                emit(outcome.to_json(), json, f"{outcome.best}: step {outcome.best_step} of {outcome.steps}{score}")
        finally:
            distributed.stop()
        return 0

    command.__doc__ = f"""{RECIPES[recipe].__doc__}

    Args:
        data: store to learn from (``patchprint data build``); give it again for several.
        out: folder of the run.
        settings: numbers of the recipe to change.
        network: option of the network, like width=16; repeatable.
        loss: setting of the loss, like margin=0.5; repeatable.
        freeze: layer that does not learn, like layer1 or features.0; repeatable.
        select_on_test: choose the best weights on these stores, as the papers did on their test sets; repeatable.
        resume: go on from the last checkpoint in --out.
        force: replace a run that is in --out already.
        deterministic: the same bits in every run on this machine (always so on a CPU).
        json: print the outcome as JSON.
    """
    return command


def _read_options(words: tuple[str, ...]) -> dict[str, Any]:
    """name=value words; values are read as JSON where they are, else as text."""
    import json

    options = {}
    for word in words:
        name, separator, text = word.partition("=")
        if not separator or not name:
            raise UserError(f"options are written name=value, not {word!r}")
        try:
            options[name] = json.loads(text)
        except json.JSONDecodeError:
            options[name] = text
    return options


COMMANDS = {recipe: _command(recipe) for recipe in RECIPES}
