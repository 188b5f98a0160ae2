"""What a reader of the package is to the fuzzer: a small sample of what it reads, which files of it are damaged, and how."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from fuzz.mutators import Mutator

Sample = Callable[[Path], object]


@dataclass(frozen=True)
class Reader:
    """``write`` makes a sample in a folder, ``read`` reads all of it; ``damage`` says by pattern how its files are damaged.

    ``repair`` gets the folder and the damaged file, to make fit what would otherwise be noticed first (a size, a checksum).
    ``share`` is the part of the usual number of cases that a slow reader gets in the tests.
    """

    write: Sample
    read: Sample
    damage: Mapping[str, tuple[Mutator, ...]]
    repair: Callable[[Path, Path], object] = lambda folder, file: None
    share: float = 1.0
