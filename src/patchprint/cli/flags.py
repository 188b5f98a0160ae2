"""Flags in ``--help``: ``--ratio NUMBER`` where tyro would show ``--ratio {None}|FLOAT ... (default: None)``."""

from __future__ import annotations

import dataclasses
import inspect
import types
import typing
from collections.abc import Callable
from inspect import Parameter
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from tyro.constructors import ConstructorRegistry, StructConstructorSpec, StructTypeInfo

from patchprint.detectors import DETECTORS
from patchprint.features.model import BASELINES
from patchprint.networks.weights import weight_names

WEIGHTS = "{" + ",".join(weight_names()) + "}|FILE"
# Values of flags that mean the same in every command.
_VALUES = {
    "detector": "{" + ",".join(DETECTORS) + "}",
    "model": "{" + ",".join([*weight_names(), *BASELINES]) + "}|FILE",
    "models": WEIGHTS,
}
# Settings whose flag has another name, the same in every command.
_FLAG_OF = {"keypoints": "max-keypoints"}
_OF_TYPE = {Path: "PATH", int: "N", float: "NUMBER"}


def with_readable_flags(bind: Callable[..., Any], command: Callable[..., Any]) -> Callable[..., Any]:
    """Give ``bind`` the docstring and flags of a command, the flags as a reader wants them."""
    signature, bind.__doc__ = inspect.signature(command, eval_str=True), command.__doc__
    kinds = {name: _shown(name, each.annotation, each.default) for name, each in signature.parameters.items()}
    parameters = [each.replace(annotation=kinds[name]) for name, each in signature.parameters.items()]
    bind.__signature__, bind.__annotations__ = signature.replace(parameters=parameters), kinds  # type: ignore[attr-defined]
    return bind


def readable_fields() -> ConstructorRegistry:
    """Return the ``registry`` of ``tyro.cli`` that does the same for fields of dataclasses."""
    registry, asked = ConstructorRegistry(), False

    @registry.struct_rule
    def rule(info: StructTypeInfo) -> StructConstructorSpec | None:
        nonlocal asked
        if asked or not dataclasses.is_dataclass(info.type):
            return None
        asked = True  # by us: tyro's own rules answer
        try:
            spec = ConstructorRegistry.get_struct_spec(info)
        finally:
            asked = False
        assert isinstance(spec, StructConstructorSpec)
        fields = [
            dataclasses.replace(field, type=_shown(field.name, field.type, field.default)) for field in spec.fields
        ]
        return dataclasses.replace(spec, fields=tuple(fields))

    return registry


def metavar(name: str, kind: Any) -> str | None:
    """Return the name of a flag's value; None for switches."""
    if name in _VALUES:
        return _VALUES[name]
    plain, _ = _taken_apart(kind)
    options = [option for option in _options(plain) if option is not type(None)]
    option = Path if Path in options else options[0]
    if typing.get_origin(option) is tuple:
        return metavar(name, typing.get_args(option)[0])
    if typing.get_origin(option) is Literal:
        return "{" + ",".join(map(str, typing.get_args(option))) + "}"
    return None if option is bool else _OF_TYPE.get(option, name.upper().replace("_", "-"))


def hint(default: Any) -> str:
    """Return the default of a flag as its help shows it."""
    if isinstance(default, bool):
        return f"(default: {'yes' if default else 'no'})"
    return "" if default in (None, (), "") else f"(default: {default})"


def _shown(name: str, kind: Any, default: Any) -> Any:
    """Annotate the type of a flag with what its help shows; annotations of the command itself come later and win."""
    plain, said = _taken_apart(kind)
    if dataclasses.is_dataclass(plain) or typing.is_typeddict(plain):
        return kind
    positional, repeatable = tyro.conf.Positional in said, tyro.conf.UseAppendAction in said
    called = name.upper() if positional else metavar(name, plain)
    several = typing.get_origin(plain) is tuple and not repeatable
    if several:
        called = f"{called} ..."
    if positional and default is not Parameter.empty:
        called = f"[{called}]"
    # A switch that is not given leaves things as they are, which needs no word; of values tyro tells the default.
    silent = not repeatable and (plain is bool or default in (None, (), "") or (several and positional))
    shown = "" if silent else None
    return Annotated[(plain, tyro.conf.arg(name=_FLAG_OF.get(name), metavar=called, help_behavior_hint=shown), *said)]


def _taken_apart(kind: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return a type and its annotations."""
    return (kind.__origin__, kind.__metadata__) if typing.get_origin(kind) is Annotated else (kind, ())


def _options(kind: Any) -> tuple[Any, ...]:
    return typing.get_args(kind) if typing.get_origin(kind) in (types.UnionType, typing.Union) else (kind,)
