"""Flags as ``--help`` shows them: names for their values, and a default only where there is one.

Left alone, tyro shows ``--ratio {None}|FLOAT ... (default: None)``; here it is ``--ratio NUMBER``, and the text of a flag
without a default says what happens when it is not given.
"""

import dataclasses
import importlib
import types
import typing
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from tyro.constructors import ConstructorRegistry, StructConstructorSpec, StructTypeInfo

from patchprint.networks.weights import weight_names

WEIGHTS = ",".join(weight_names())
# Names for values of flags that mean the same in every command; registries are imported for the help alone.
_VALUES: dict[str, Callable[[], str]] = {
    "detector": lambda: f"{{{_names('detectors', 'DETECTORS')}}}",
    "detectors": lambda: f"{{{_names('detectors', 'DETECTORS')},shi-tomasi}}",
    "engine": lambda: f"{{auto,{_names('networks.engines', 'ENGINES')}}}",
    "matcher": lambda: f"{{{_names('matching.matchers', 'MATCHERS')}}}",
    "model": lambda: f"{{{WEIGHTS},{_names('features.model', 'BASELINES')}}}|FILE",
    "models": lambda: f"{{{WEIGHTS}}}|FILE",
    "stages": lambda: f"{{{_names('pipelines.bench', 'STAGES')}}}",
}
# Settings whose flag has another name, the same in every command.
_FLAG_OF = {"keypoints": "max-keypoints"}
_OF_TYPE = {Path: "PATH", int: "N", float: "NUMBER"}


def readable_fields(with_help: bool = True) -> ConstructorRegistry:
    """Return a registry for ``tyro.cli(registry=...)`` that says how to show flags; values are named for the help alone."""
    registry, is_asked = ConstructorRegistry(), False

    @registry.struct_rule
    def rule(info: StructTypeInfo) -> StructConstructorSpec | None:
        nonlocal is_asked
        if is_asked or not dataclasses.is_dataclass(info.type):
            return None
        is_asked = True  # tyro's own rules answer below
        try:
            spec = ConstructorRegistry.get_struct_spec(info)
        finally:
            is_asked = False
        assert isinstance(spec, StructConstructorSpec)
        fields = [
            dataclasses.replace(field, type=_shown(field.name, field.type, field.default, with_help))
            for field in spec.fields
            if typing.get_origin(field.type) is not Mapping  # set by the command itself
        ]
        return dataclasses.replace(spec, fields=tuple(fields))

    return registry


def metavar(name: str, kind: Any) -> str | None:
    """Return the name of the value of a flag; None for a switch."""
    if name in _VALUES:
        return _VALUES[name]()
    plain, _ = _split_annotated(kind)
    is_union = typing.get_origin(plain) in (types.UnionType, typing.Union)
    options = [each for each in (typing.get_args(plain) if is_union else (plain,)) if each is not type(None)]
    option = Path if Path in options else options[0]
    if typing.get_origin(option) is tuple:
        return metavar(name, typing.get_args(option)[0])
    if typing.get_origin(option) is Literal:
        return "{" + ",".join(map(str, typing.get_args(option))) + "}"
    return None if option is bool else _OF_TYPE.get(option, name.upper().replace("_", "-"))


def hint(default: Any) -> str:
    """Return what stands behind the text of a flag: its default, if it has one."""
    if isinstance(default, bool):
        return f"(default: {'yes' if default else 'no'})"
    return "" if default in (None, (), "") else f"(default: {default})"


def _shown(name: str, kind: Any, default: Any, with_help: bool) -> Any:
    """Return the type of a flag, annotated with how to show it; annotations of the command itself win."""
    plain, given = _split_annotated(kind)
    if dataclasses.is_dataclass(plain) or typing.is_typeddict(plain):
        return kind
    positional, repeatable = tyro.conf.Positional in given, tyro.conf.UseAppendAction in given
    called = name.upper() if positional else metavar(name, plain) if with_help else None
    several = typing.get_origin(plain) is tuple and not repeatable
    if several:
        called = f"{called} ..."
    if positional and default not in (tyro.MISSING, tyro.MISSING_NONPROP):
        called = f"[{called}]"
    # A switch and an empty default need no words; of the others tyro shows the default.
    silent = not repeatable and (plain is bool or default in (None, (), "") or (several and positional))
    shown = tyro.conf.arg(name=_FLAG_OF.get(name), metavar=called, help_behavior_hint="" if silent else None)
    return Annotated[(plain, shown, *given)]


def _names(module: str, registry: str) -> str:
    return ",".join(getattr(importlib.import_module(f"patchprint.{module}"), registry))


def _split_annotated(kind: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return a type and its annotations."""
    return (kind.__origin__, kind.__metadata__) if typing.get_origin(kind) is Annotated else (kind, ())
