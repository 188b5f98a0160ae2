"""``patchprint train RECIPE --data STORE --out RUN``: one command for each recipe, a flag for each common setting of a run."""

import inspect
import typing
from collections.abc import Callable
from inspect import Parameter, Signature
from pathlib import Path
from typing import Annotated, Any, TypedDict

import tyro

from patchprint.cli import Commands, emit, flags, say
from patchprint.common import distributed
from patchprint.common.errors import UserError
from patchprint.pipelines.training_run import REPORT, train
from patchprint.training import RECIPES, Outcome, TrainConfig, resolve
from patchprint.training.config import FLAGS, checked, flag
from patchprint.training.held_out import measure_title
from patchprint.training.recipes import CHOICES, OPTIONS_OF, RunFile, read_options

USAGE = """usage: patchprint train RECIPE --data STORE [--out RUN] ...
       patchprint train --resume --out RUN
       patchprint train --list

patchprint train --list lists the recipes; patchprint train RECIPE --help shows the settings of one."""
# What is trained beside descriptors, by what stands in place of a recipe.
TASKS = {
    "matcher": "A matcher for the descriptors of a model, with settings of its own (train matcher --help).",
    "detector": "The detector learned, with settings of its own (train detector --help).",
}
# --freeze a b, or --freeze a --freeze b
Words = tuple[tuple[str, ...], ...]
Switch = tyro.conf.FlagCreatePairsOff[bool]


def _command(recipe: str) -> Callable[..., int]:
    """Return a typed function for tyro: the flags of every run, and one for each setting in FLAGS."""

    def command(
        *,
        config: Path | None = None,
        out: Path | None = None,
        resume: Switch = False,
        force: Switch = False,
        changes: Annotated[tyro.conf.UseAppendAction[Words], tyro.conf.arg(name="set", metavar="SETTING=VALUE")] = (),
        settings: dict[str, Any],
        **words: Words,
    ) -> int:
        config = config or (_config_of(out or _default_out(recipe)) if resume else None)
        file = None if config is None else RunFile.read(config)
        out = out or (Path(file.out) if file and file.out else _default_out(recipe))
        others = checked(read_options(word for several in changes for word in several), "--set")
        return _train(resolve(recipe, file, **{**others, **settings, **_read_words(words)}), out, resume, force)

    command.__doc__ = f"""{RECIPES[recipe].text}

Args:
    config: JSON or TOML file with settings, like the config.json of a run; flags win over it.
    changes: any other setting (patchprint train --list), as momentum=0.8.
    out: folder of the run, with report.html at its end; if not given, the one that --config names, or runs/{recipe}.
    resume: go on from the last checkpoint in --out, with the settings of that run; more --steps make it longer.
    force: replace a run that is in --out already.
"""
    command.__signature__ = _with_settings(inspect.signature(command, eval_str=True), recipe)  # type: ignore[attr-defined]
    command.paired_flags = True  # type: ignore[attr-defined]
    return command


def resume(
    out: Path,
    steps: int | None = None,
    data: tuple[str, ...] = (),
    device: str = "",
) -> int:
    """Resume the run in a folder, of any recipe, from its last checkpoint and with its own settings.

    Args:
        out: folder of the run.
        steps: make the run longer; its schedule goes on as that of the longer run. Default: its own length.
        data: where its stores lie now, if not where they were.
        device: cpu, cuda, mps or auto; default: that of the run.
    """
    file = RunFile.read(_config_of(out))
    if file.recipe in TASKS:
        from patchprint.cli import train_tasks

        outcome = train_tasks.resume(file.recipe, out, steps, data, device)
        return finish(outcome, out)
    if file.recipe is None:
        raise UserError(
            f"{file.path} names no recipe; resume the run by it: patchprint train RECIPE --out {out} --resume"
        )
    changes = {name: value for name, value in {"steps": steps, "data": data, "device": device}.items() if value}
    return _train(resolve(file.recipe, file, **changes), out, True, False)


def list_recipes() -> None:
    """List the recipes, and the settings that --set and --config can change."""
    recipes = {name: recipe.text.partition("\n")[0] for name, recipe in RECIPES.items()}
    recipes |= TASKS
    settings = {name: text for name, (_, text) in _settings().items()}
    width = max(map(len, (*recipes, *settings)))
    lists = [
        "\n".join(f"{name.ljust(width)}  {text}" for name, text in listed.items()) for listed in (recipes, settings)
    ]
    text = f"Recipes\n\n{lists[0]}\n\nSettings\n\n{lists[1]}"
    emit({name: recipe.config.to_json() for name, recipe in RECIPES.items()}, text)


def _train(run: TrainConfig, out: Path, resume: bool, force: bool) -> int:
    if not run.data:
        raise UserError(f"patchprint train {run.recipe} needs --data STORE; patchprint data build makes one")
    try:
        return finish(train(run, out=out, resume=resume, force=force), out)
    finally:
        distributed.stop()


def finish(outcome: Outcome, out: Path) -> int:
    if distributed.rank() == 0:
        emit(outcome.to_json(), _as_text(outcome))
        say(f"report: {out / REPORT}")
    return 0


def _as_text(outcome: Outcome) -> str:
    """Return the best weights and their measures as text; mean and spread where several are kept."""
    measured = ", ".join(f"{measure_title(name)} {100 * value:.2f} %" for name, value in outcome.measured.items())
    score = f", {outcome.selected_on} {measured}" if measured else ""
    text = f"{outcome.best}: step {outcome.best_step} of {outcome.steps}{score}"
    if len(outcome.kept) < 2:
        return text
    mean, spread = outcome.mean(), outcome.spread()
    kept = ", ".join(f"{measure_title(name)} {100 * mean[name]:.2f} ± {100 * spread[name]:.2f} %" for name in mean)
    return f"{text}\nmean and spread of the best {len(outcome.kept)}: {kept}"


def _with_settings(signature: Signature, recipe: str) -> Signature:
    """Replace ``settings`` and ``words`` by a flag for each setting; flags not given are left out of them."""
    parameters = [parameter for name, parameter in signature.parameters.items() if name not in ("settings", "words")]
    defaults, single = RECIPES[recipe].config, {}
    for name in FLAGS:
        kind, text = _settings()[name]
        value = getattr(defaults, name)
        if name in CHOICES:
            text += f": {', '.join(CHOICES[name])}"
        if isinstance(value, tuple | dict):
            called = "NAME=VALUE" if isinstance(value, dict) else flags.metavar(name, kind)
            words = [f"{option}={each}" for option, each in value.items()] if isinstance(value, dict) else value
            hint = f"(default: {' '.join(words)}; repeatable)" if value else "(repeatable)"
            kind = _flag(name, tyro.conf.UseAppendAction[Words], text, hint, called)
            parameters.append(Parameter(name, Parameter.KEYWORD_ONLY, default=(), annotation=kind))
        else:
            single[name] = _flag(name, kind, text, flags.hint(value), flags.metavar(name, kind))
    # Of all types that tyro reads, only this one leaves out what was not given.
    settings = TypedDict("settings", single, total=False)  # type: ignore[misc]
    return Signature([*parameters, Parameter("settings", Parameter.KEYWORD_ONLY, annotation=settings)])


def _settings() -> dict[str, tuple[Any, str]]:
    """Return type and help of each setting of a run."""
    annotated = typing.get_type_hints(TrainConfig, include_extras=True)
    return {name: typing.get_args(annotated[name]) for name in annotated if name != "recipe"}


def _flag(name: str, kind: Any, text: str, hint: str, metavar: str | None) -> Any:
    spelled = flag(name).removeprefix("--")
    return Annotated[kind, tyro.conf.arg(name=spelled, help=text, help_behavior_hint=hint, metavar=metavar)]


def _default_out(recipe: str) -> Path:
    return Path("runs") / recipe


def _config_of(run: Path) -> Path:
    """Return the config file of a run that is to be resumed."""
    path = run / "config.json"
    if not path.is_file():
        raise UserError(f"{run} holds no run to resume (there is no {path.name}); start one without --resume")
    return path


def _read_words(words: dict[str, Words]) -> dict[str, Any]:
    """Return the given settings of several words: tuples of names, or options by name."""
    given = {name: tuple(word for several in parts for word in several) for name, parts in words.items() if parts}
    return {name: read_options(each) if name in OPTIONS_OF.values() else each for name, each in given.items()}


_OTHERS: dict[str, Callable[..., int | None]] = {"--resume": resume, "--list": list_recipes}


def _make(name: str) -> Callable[..., int | None]:
    if name in TASKS:
        from patchprint.cli import train_tasks

        return train_tasks.COMMANDS[name]
    return _OTHERS[name] if name in _OTHERS else _command(name)


COMMANDS = Commands((*RECIPES, *TASKS, *_OTHERS), _make)
