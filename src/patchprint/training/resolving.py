"""Resolve recipe, file and flags to the config of a run; later ones win."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchprint import losses
from patchprint.common.errors import UserError
from patchprint.common.registry import Registry, check_options, option_names
from patchprint.data import augment
from patchprint.networks import catalog
from patchprint.training import batchers
from patchprint.training.config import TrainConfig, checked, flag, read_config
from patchprint.training.image_recipes import IMAGE_RECIPES
from patchprint.training.recipes import PATCH_RECIPES

RECIPES: Registry[Callable[[], TrainConfig]] = Registry("recipe", PATCH_RECIPES | IMAGE_RECIPES)

# Settings that are chosen by name, and where the options of what was chosen stand.
OPTIONS_OF = {"network": "network_options", "loss": "loss_settings", "batcher": "batcher_options"}
CHOICES = (*OPTIONS_OF, "augmentation")


@dataclass(frozen=True)
class RunFile:
    """Settings in a JSON file: the config.json of a run, or one written by hand, which may also name ``out``."""

    path: Path
    recipe: str | None
    out: str | None
    settings: dict[str, Any]

    @staticmethod
    def read(path: str | Path) -> RunFile:
        settings = read_config(path)
        named = {name: settings.pop(name, None) for name in ("recipe", "out")}
        for name, value in named.items():
            if not isinstance(value, str | None):
                raise UserError(f"{path}: {name} is {value!r}, which is not a name")
        return RunFile(Path(path), settings=settings, **named)


def resolve(recipe: str, file: RunFile | None = None, **changes: Any) -> TrainConfig:
    """Return the config of a recipe, changed by a file and then by ``changes`` (fields of TrainConfig).

    Options of network, loss and batcher are merged with those that the recipe has. Where another network is chosen, it takes
    over the options that it knows, and the others fall away; options that are given must be known. Likewise loss and batcher.
    """
    config = RECIPES[recipe]()
    if file is not None:
        if file.recipe not in (None, recipe):
            raise UserError(f"{file.path} is of the recipe {file.recipe}, not {recipe}; train {file.recipe} with it")
        config = _change(config, file.settings, str(file.path))
    return _change(config, changes, f"recipe {recipe}")


def read_options(words: Iterable[str]) -> dict[str, Any]:
    """Read name=value words; values are JSON, or else text."""
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


def registered(choice: str) -> Registry[Any]:
    """Return the registry of one of CHOICES."""
    everything: dict[str, Registry[Any]] = {
        "network": catalog.NETWORKS,
        "loss": losses.LOSSES,
        "batcher": batchers.BATCHERS,
        "augmentation": augment.PRESETS,
    }
    return everything[choice]


def _change(config: TrainConfig, changes: dict[str, Any], where: str) -> TrainConfig:
    values = checked(changes, where)
    if "teacher" in values:
        values = {"teacher_sha256": (), **values}  # that of another teacher
    for choice in CHOICES:
        _check_name(choice, values.get(choice, getattr(config, choice)))
    for choice, options in OPTIONS_OF.items():
        name, given = values.get(choice, getattr(config, choice)), values.get(options, {})
        chosen = registered(choice)[name]
        known = chosen.options if choice == "batcher" else option_names(chosen)
        check_options(f"{choice} {name!r}", given, known)
        kept = {option: value for option, value in getattr(config, options).items() if option in known}
        values[options] = {**kept, **given}
    return dataclasses.replace(config, **values)


def _check_name(choice: str, name: str) -> None:
    if "=" in name and choice in OPTIONS_OF:
        raise UserError(
            f"{flag(choice)} takes a name, not {name!r}; options are given by {flag(OPTIONS_OF[choice])} {name}"
        )
    registered(choice)[name]  # raises where there is none
