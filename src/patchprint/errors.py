"""The one kind of error that is the user's to mend."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UserError(ValueError):
    """What a user did wrong, in one sentence that names it and says what to do.

    The command line prints it and ends with exit code 2. Every other exception is a fault of the disk (OSError) or of the
    program, whose traceback is kept.
    """


class MissingPackageError(UserError):
    """An optional package is not installed: no matter of one photo or file, so nobody leaves that out and goes on."""


class OtherInputsError(UserError):
    """A folder holds the work of other inputs or settings than those that are to be worked on."""


def suggest(word: str, known: Iterable[str]) -> str:
    """A hint for a word that is not among ``known``: the close ones, or all."""
    names = list(dict.fromkeys(known))
    close = difflib.get_close_matches(word, names, n=3, cutoff=0.5)
    return f"did you mean {' or '.join(close)}?" if close else f"known are {', '.join(names) or 'none yet'}"
