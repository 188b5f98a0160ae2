"""The command line: find the subcommand, let tyro read its flags, turn errors into one sentence and an exit code.

Exit codes: 0 done, 1 failed, 2 wrong use. A subcommand is a module of this package with a typed function ``main``, with
``select(arguments)``, which returns the function, or with ``COMMANDS``, functions by name (nested for ``data build colmap``).
A command may be named like a flag (``eval --compare``), and then stands anywhere among the flags. A function with
``paired_flags = True`` has ``--no-NAME`` beside ``--NAME``. All have ``--json``, which `emit` obeys, but those with
``has_result = False``.
"""

import contextlib
import contextvars
import dataclasses
import errno
import importlib
import inspect
import io
import json
import os
import re
import select
import sys
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any

import patchprint
from patchprint.common.errors import UserError, require, suggest

SUBCOMMANDS = {
    "models": "list the networks and weights, with license and training data",
    "data": "build, inspect and download training and benchmark data",
    "train": "train a descriptor with a published recipe",
    "calibrate": "choose the threshold of the ratio test for a model",
    "adapt": "tune a descriptor to your own images",
    "eval": "run a benchmark",
    "study": "run a table or figure of a paper: many trainings, one table",
    "describe": "detect and describe the keypoints of images",
    "match": "match two images, or many",
    "sfm": "reconstruct a COLMAP model from images, or extend one",
    "localize": "find the camera pose of an image in a model",
    "export": "write a network as ONNX, or as a page for browsers",
    "bench": "time patchprint on this machine",
    "report": "one HTML page from results or runs",
    "serve": "a local page and HTTP API for two images",
}


class Commands(Mapping[str, Callable[..., Any]]):
    """Typed functions by name, made when they are asked for, since many need packages that others do without."""

    def __init__(self, names: Iterable[str], make: Callable[[str], Callable[..., Any]]) -> None:
        self._names, self._make = tuple(names), make

    def __getitem__(self, name: str) -> Callable[..., Any]:
        if name not in self._names:
            raise KeyError(name)
        return self._make(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


_as_json = contextvars.ContextVar("as_json", default=False)


def emit(result: Any, text: str) -> None:
    """Print the result of a command on stdout, with ``--json`` as JSON, else as ``text``; all else goes to stderr."""
    takes_all = (sys.stdout.encoding or "utf-8").lower().replace("-", "").startswith("utf")
    print(json.dumps(result, indent=2, ensure_ascii=not takes_all) if _as_json.get() else text)


def say(message: str) -> None:
    """Print a line for people on stderr."""
    print(message, file=sys.stderr)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line and return the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    # Threads that spin while they wait slow each other down on a busy machine; torch looks at this when it is imported.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    warnings.formatwarning = lambda message, *_, **__: f"{message}\n"  # of Python code, a person wants the sentence
    with _streams():
        try:
            code = _dispatch(arguments)
            sys.stdout.flush()
            return code
        except UserError as error:
            return _fail(error, code=2)
        except OSError as error:
            return 1 if _reader_is_gone(error) else _fail(error, code=1)
        except KeyboardInterrupt:
            return _fail("stopped", code=130)
        except Exception:
            traceback.print_exc()
            return _fail("this is a fault of patchprint; please report it with the lines above and the command", code=1)


@contextlib.contextmanager
def _streams() -> Iterator[None]:
    """Replace stdout and stderr, which Python leaves None where the caller closed them.

    A character that the encoding of stdout lacks (cp1252 on Windows) becomes an escape, as on stderr, and no error.
    """
    with contextlib.ExitStack() as stack:
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="backslashreplace")
        if sys.stdout is None:
            stack.enter_context(
                contextlib.redirect_stdout(stack.enter_context(open(os.devnull, "w", encoding="utf-8")))
            )
        if sys.stderr is None:
            stack.enter_context(
                contextlib.redirect_stderr(stack.enter_context(open(os.devnull, "w", encoding="utf-8")))
            )
        yield


def _reader_is_gone(error: OSError) -> bool:
    """Return whether nobody reads stdout anymore, as after ``| head``; discard the rest of the output then."""
    if hasattr(select, "poll"):
        if not isinstance(error, BrokenPipeError):
            return False
        look = select.poll()
        look.register(sys.stdout.fileno(), 0)  # errors are always reported
        if not look.poll(0):
            return False
    elif error.filename is not None or error.errno not in (
        errno.EPIPE,
        errno.EINVAL,
    ):  # Windows: EINVAL for a closed pipe
        return False
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return True


def _dispatch(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_listing("patchprint COMMAND", SUBCOMMANDS))
        return 0 if arguments else 2
    if arguments[0] == "--version":
        print(f"patchprint {patchprint.__version__}")
        return 0
    name, rest = _choose(arguments[0], SUBCOMMANDS, "patchprint"), arguments[1:]
    require("tyro", extra="images")  # which every subcommand needs
    module = importlib.import_module(f"patchprint.cli.{name}")
    prog, command = f"patchprint {name}", getattr(module, "main", None) or module.COMMANDS
    if hasattr(module, "select"):
        command = module.select(rest)
    while isinstance(command, Mapping):
        if not rest or rest[0] in ("-h", "--help"):
            texts = {name: _summary(each) for name, each in command.items()}
            print(getattr(module, "USAGE", None) or _listing(f"{prog} WHAT", texts))
            return 0 if rest else 2
        if rest[0].startswith("-"):
            flags = [name for name in command if name.startswith("--")]
            rest = sorted(rest, key=lambda word: word not in flags)
        command = command[_choose(rest[0], command, prog)]
        prog, rest = f"{prog} {rest[0]}", rest[1:]
    given = _parse(command, rest, prog)
    if given is None:
        return 0
    _as_json.set(given.pop("json", False))
    return int(command(**given) or 0)


def _parse(function: Callable[..., Any], arguments: list[str], prog: str) -> dict[str, Any] | None:
    """Read the arguments of a function with tyro; return None if help was printed, and raise its messages as one sentence."""
    import tyro

    from patchprint.cli import flags

    pairs = () if getattr(function, "paired_flags", False) else (tyro.conf.FlagCreatePairsOff,)
    config, wants_help = (tyro.conf.OmitArgPrefixes, *pairs), bool({"-h", "--help"} & set(arguments))
    fields = [
        (each.name, each.annotation, dataclasses.field(default=_default_of(each)))
        for each in inspect.signature(function, eval_str=True).parameters.values()
    ]
    if getattr(function, "has_result", True):
        switch = Annotated[tyro.conf.FlagCreatePairsOff[bool], tyro.conf.arg(help="Print the result as JSON.")]
        fields.append(("json", switch, dataclasses.field(default=False)))
    kind = dataclasses.make_dataclass("Flags", fields, kw_only=True, namespace={"__doc__": function.__doc__})
    errors = io.StringIO()
    try:
        with contextlib.redirect_stderr(errors):
            given: Any = tyro.cli(
                kind, args=arguments, prog=prog, config=config, registry=flags.readable_fields(wants_help)
            )
        return {name: getattr(given, name) for name, *_ in fields}
    except SystemExit as stop:
        if stop.code == 0:
            return None
        raise UserError(_one_sentence(errors.getvalue(), prog)) from None


def _default_of(parameter: inspect.Parameter) -> Any:
    return dataclasses.MISSING if parameter.default is parameter.empty else parameter.default


def _one_sentence(box: str, prog: str) -> str:
    """Return the message inside tyro's box, which is drawn with ASCII where the terminal has no Unicode."""
    lines = [re.sub(r"^[│╭╰╮╯─|+\-\s]*(?=[│|+╭╰\s])[│|+╭╰\s]+|[│╭╰╮╯─|+\s]+$", "", line) for line in box.splitlines()]
    lines = [line for line in lines[1:] if line.strip("-─ ") and not line.startswith(("For full helptext", prog))]
    text = " ".join(lines).partition(" Argument helptext:")[0].partition(" Got errors:")[0]
    text = re.sub(r"Error parsing (?!--)\S+: ", "", text)  # of settings that are checked once constructed
    text = re.sub(r"invalid literal for int\(\) with base 10: (\S+)", r"\1 is not a whole number", text)
    text = re.sub(r"could not convert string to float: (\S+)", r"\1 is not a number", text)
    text = re.sub(r"no type matching \{None\}\|(\w+) could be instantiated from \['(.*?)'\]\.?", _not_a_number, text)
    head, _, meant = text.partition("Perhaps you meant:")
    flags = re.findall(r"--[a-z][\w-]*", meant)
    head = head.strip()
    if head.startswith("Unrecognized options:") and flags:
        head += f"; did you mean {' or '.join(dict.fromkeys(flags[:3]))}?"
    return f"{head} ({prog} --help lists the options)"


def _not_a_number(found: re.Match[str]) -> str:
    kinds = {"INT": "a whole number", "FLOAT": "a number"}
    return f"{found[2]} is not {kinds.get(found[1], found[1])}"


def _choose(word: str, known: Any, prog: str) -> str:
    if word in known:
        return word
    raise UserError(f"{prog} has no {word!r}; {suggest(word, known)}")


def _listing(usage: str, texts: Mapping[str, str]) -> str:
    width = max(map(len, texts))
    lines = [f"  {name.ljust(width)}  {text}" for name, text in texts.items()]
    return "\n".join([f"usage: {usage} ...", "", *lines, "", f"{usage} --help says more."])


def _summary(command: Any) -> str:
    """Return the first line of a command's docstring; the names in a group of commands."""
    if isinstance(command, Mapping):
        return f"WHAT is one of {', '.join(command)}"
    return (command.__doc__ or "").strip().splitlines()[0]


def _fail(error: object, code: int) -> int:
    if os.environ.get("PATCHPRINT_DEBUG") and isinstance(error, BaseException):
        raise error
    print(f"patchprint: {error}", file=sys.stderr)
    return code
