"""Errors that the user can fix, and what turns others into them: missing packages, damaged files."""

import contextlib
import difflib
import errno
import importlib
import os
import sys
from collections.abc import Iterable, Iterator
from typing import Any

_ABOUT_AS_CLOSE = 0.15
# Disable telemetry; for all packages at once, since they import one another.
_OPT_OUTS = {"ORT_DISABLE_TELEMETRY": "1", "RAY_USAGE_STATS_ENABLED": "0"}
# Telemetry modules of packages without such a switch; they work without them.
_TELEMETRY = {"openvino": "openvino_telemetry"}

# Raised by seeking to an offset in a damaged file; other numbers are faults of the disk.
_ERRNO_OF_PARSERS = (None, 0, errno.EINVAL, errno.EOVERFLOW)


class UserError(ValueError):
    """A mistake of the user; the message says what to do. The command line prints it and exits with code 2."""


class MissingPackageError(UserError):
    """An optional package is not installed; never handled by leaving out one image or file."""


class OtherInputsError(UserError):
    """A folder holds the work of other inputs or settings."""


def suggest(word: str, known: Iterable[str]) -> str:
    """Return a hint for a word that is not among ``known``: the closest ones, or all."""
    names = list(dict.fromkeys(known))
    close = difflib.get_close_matches(word, names, n=3, cutoff=0.5)
    likeness = [difflib.SequenceMatcher(None, name, word).ratio() for name in close]
    close = [name for name, like in zip(close, likeness, strict=True) if like > likeness[0] - _ABOUT_AS_CLOSE]
    return f"did you mean {' or '.join(close)}?" if close else f"known are {', '.join(names) or 'none yet'}"


def require(module: str, extra: str | None) -> Any:
    """Import ``module``, or raise MissingPackageError naming the patchprint extra that brings it, if one does."""
    package = module.split(".")[0]
    for name, value in _OPT_OUTS.items():
        os.environ.setdefault(name, value)
    try:
        with _without_telemetry(package):
            return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.split(".")[0] != package:
            raise
        install = package if extra is None else f"'patchprint[{extra}]'"
        raise MissingPackageError(f"this needs the package {module!r}: pip install {install}") from error


@contextlib.contextmanager
def _without_telemetry(package: str) -> Iterator[None]:
    """Make the telemetry of a package look uninstalled while the package is imported for the first time."""
    reporter = _TELEMETRY.get(package)
    if reporter is None or reporter in sys.modules or package in sys.modules:
        yield
        return
    sys.modules[reporter] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[reporter]


@contextlib.contextmanager
def parsing(path: object, what: str, remedy: str = "copy or make it again") -> Iterator[None]:
    """Turn any exception while one file is read into a UserError that names the file; faults of the disk stay OSError.

    Args:
        path: the file, or what it is called ("image a.jpg of STORE").
        what: what was expected, as in "a features file of patchprint".
        remedy: what the user can do.
    """
    try:
        yield
    except MissingPackageError:
        raise
    except UserError as error:
        if str(path) in str(error):
            raise
        raise UserError(f"{path}: {error}") from error
    except OSError as error:
        if error.errno not in _ERRNO_OF_PARSERS:
            if error.filename is None:
                raise OSError(error.errno, error.strerror, str(path)) from error
            raise
        raise UserError(_sentence(path, what, remedy, error)) from error
    # Damaged bytes make parsers raise anything, MemoryError and RecursionError included.
    except Exception as error:
        raise UserError(_sentence(path, what, remedy, error)) from error


def _sentence(path: object, what: str, remedy: str, error: Exception) -> str:
    text = " ".join(str(error).split())
    if isinstance(error, KeyError):
        text = f"it lacks {text}"
    elif isinstance(error, MemoryError):
        text = "it asks for more memory than there is"
    return f"{path} is not {what}, or damaged ({text[:200] or type(error).__name__}); {remedy}"
