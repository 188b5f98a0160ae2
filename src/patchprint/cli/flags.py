"""How flags look in ``--help``: what their value is called, and a default only where it tells something.

Left alone, tyro shows ``--ratio {None}|FLOAT ... (default: None)``. Here it is ``--ratio NUMBER``, and the text of a flag
without a default says what happens when it is not given.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from inspect import Parameter, Signature
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


def readable(signature: Signature) -> Signature:
    """The signature of a command with its flags as a reader wants them."""
    parameters = [
        each.replace(annotation=_shown(each.name, each.annotation, each.default))
        for each in signature.parameters.values()
    ]
    return signature.replace(parameters=parameters)


def readable_fields() -> ConstructorRegistry:
    """For ``tyro.cli(registry=...)``: the same for the fields of dataclasses that hold flags."""
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
    """What the value of a flag is called; None where tyro says it well (choices) and where there is none (switches)."""
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
    """What stands behind the text of a flag: its default, unless that is nothing."""
    if isinstance(default, bool):
        return f"(default: {'yes' if default else 'no'})"
    return "" if default in (None, (), "") else f"(default: {default})"


def _shown(name: str, kind: Any, default: Any) -> Any:
    """The type of a flag with what tyro is to show of it; what the command says itself comes later and wins."""
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
    """A type and what is annotated to it."""
    return (kind.__origin__, kind.__metadata__) if typing.get_origin(kind) is Annotated else (kind, ())


def _options(kind: Any) -> tuple[Any, ...]:
    return typing.get_args(kind) if typing.get_origin(kind) in (types.UnionType, typing.Union) else (kind,)
