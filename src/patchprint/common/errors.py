"""Errors that the user can fix."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UserError(ValueError):
    """What a user did wrong, in one sentence that names it and says what to do.

    The command line prints it and ends with exit code 2. Every other exception is a fault of the disk (OSError) or of the
    program, whose traceback is kept.
    """


class MissingPackageError(UserError):
    """An optional package is not installed: no matter of one image or file, so nobody leaves that out and goes on."""


class OtherInputsError(UserError):
    """A folder holds the work of other inputs or settings than those that are to be worked on."""


_ABOUT_AS_CLOSE = 0.15


def suggest(word: str, known: Iterable[str]) -> str:
    """A hint for a word that is not among ``known``: those that are about as close as the closest, or all."""
    names = list(dict.fromkeys(known))
    close = difflib.get_close_matches(word, names, n=3, cutoff=0.5)
    likeness = [difflib.SequenceMatcher(None, name, word).ratio() for name in close]
    close = [name for name, like in zip(close, likeness, strict=True) if like > likeness[0] - _ABOUT_AS_CLOSE]
    return f"did you mean {' or '.join(close)}?" if close else f"known are {', '.join(names) or 'none yet'}"
