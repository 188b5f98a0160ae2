"""Errors that the user can fix."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UserError(ValueError):
    """Wrong use, in one sentence that names it and says what to do; the command line prints it and exits with code 2."""


class MissingPackageError(UserError):
    """An optional package is not installed; never handled by leaving out one image or file."""


class OtherInputsError(UserError):
    """A folder holds the work of other inputs or settings."""


_ABOUT_AS_CLOSE = 0.15


def suggest(word: str, known: Iterable[str]) -> str:
    """Return a hint for a word that is not among ``known``: the closest ones, or all."""
    names = list(dict.fromkeys(known))
    close = difflib.get_close_matches(word, names, n=3, cutoff=0.5)
    likeness = [difflib.SequenceMatcher(None, name, word).ratio() for name in close]
    close = [name for name, like in zip(close, likeness, strict=True) if like > likeness[0] - _ABOUT_AS_CLOSE]
    return f"did you mean {' or '.join(close)}?" if close else f"known are {', '.join(names) or 'none yet'}"
