"""One case: a sample with one damaged file is read, and what came of it."""

import os
import traceback
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from fuzz.readers import READERS
from patchprint.common.errors import UserError

READ, REFUSED, TRACEBACK = "read", "refused", "traceback"


class Bench:
    """The sample of one reader in a folder; each case damages one of its files and puts it back."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self.reader = name, READERS[name]
        self.folder = folder
        folder.mkdir(parents=True)
        self.reader.write(folder)
        self.reader.read(folder)  # which a sample without damage must survive
        self._whole = {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
        self._targets = [
            (path, damage)
            for pattern, damage in self.reader.damage.items()
            for path in sorted(folder.glob(pattern))
            if path.is_file()
        ]
        assert self._targets, name

    def case(self, seed: int) -> tuple[str, str]:
        """What became of the case of this seed, and in words why."""
        random = np.random.default_rng([seed, zlib.crc32(self.name.encode())])
        path, damage = self._targets[random.integers(0, len(self._targets))]
        damaged = self._whole[path]
        for _ in range(1 + (random.random() < 0.3)):
            try:
                damaged = damage[random.integers(0, len(damage))](damaged, random)
            except Exception:  # what is damaged already cannot always be taken apart to be damaged again
                break
        path.write_bytes(damaged)
        try:
            self.reader.repair(self.folder, path)
            self.reader.read(self.folder)
        except (UserError, OSError) as error:
            if _ran_out_of_memory(error):
                return TRACEBACK, f"{path.name}: {traceback.format_exc()[-1500:]}"
            is_named = isinstance(error, OSError) or str(self.folder) in str(error) or path.name in str(error)
            return (REFUSED, str(error)) if is_named else (TRACEBACK, f"{path.name}: no file is named in: {error}")
        except Exception:
            return TRACEBACK, f"{path.name}: {traceback.format_exc()[-1500:]}"
        finally:
            self._restore()
        return READ, ""

    def cases(self, seeds: range) -> Iterator[tuple[int, str, str]]:
        for seed in seeds:
            yield seed, *self.case(seed)

    def _restore(self) -> None:
        for path, data in self._whole.items():
            if not path.is_file() or path.stat().st_size != len(data) or path.read_bytes() != data:
                path.write_bytes(data)
        for path in self.folder.rglob("*"):
            if path.is_file() and path not in self._whole:
                os.unlink(path)


def _ran_out_of_memory(error: BaseException | None) -> bool:
    """A file that makes us ask for all memory there is has not been checked, whatever is said about it then."""
    while error is not None:
        if isinstance(error, MemoryError):
            return True
        error = error.__cause__
    return False
