"""Features of many photos in few files: each shard is a zip that holds the ``.npz`` of some photos that follow each other.

Which photos belong to which shard follows from their list alone, so that one machine and many write the same files, and a shard
that is there need not be made again. Nothing is packed tighter: a photo is read by one jump to its place.
"""

from __future__ import annotations

import contextlib
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from patchprint.common import files
from patchprint.common.errors import UserError
from patchprint.common.lru import Lru
from patchprint.common.safe_io import parsing

FOLDER = "shards"
SUFFIX = ".npz"
WHAT = "a shard of features by patchprint"
_MOST_PHOTOS = 256  # in a shard: some hundred megabytes
_FEWEST_SHARDS = 64  # so that there is work for as many machines, where there are photos for it
_DATE = (1980, 1, 1, 0, 0, 0)  # of every member, since equal features are equal bytes
_OPEN = 8  # shards that stay open


def photos_per_shard(count: int) -> int:
    """How many of ``count`` photos share a file."""
    return max(1, min(_MOST_PHOTOS, -(-count // _FEWEST_SHARDS)))


class Shards:
    """The shards of a folder of features.

    Args:
        folder: of features.
        photos: all photos that are described, in order; shard k holds those from ``k * size`` on that could be read.
    """

    def __init__(self, folder: Path, photos: Sequence[str], size: int) -> None:
        if size < 1:
            raise UserError(f"{folder} is damaged: its shards hold {size} photos; describe the photos again")
        self.folder, self.photos, self.size = folder, photos, size
        self._numbers = {name: place // size for place, name in enumerate(photos)}
        self._open: Lru[zipfile.ZipFile] = Lru(_OPEN, zipfile.ZipFile.close)

    def __len__(self) -> int:
        return -(-len(self.photos) // self.size)

    def number(self, name: str) -> int:
        """Which shard holds a photo, or will."""
        return self._numbers[name]

    def photos_of(self, number: int) -> Sequence[str]:
        return self.photos[number * self.size : (number + 1) * self.size]

    def path(self, number: int) -> Path:
        return self.folder / FOLDER / f"{number:06}.zip"

    def members(self, number: int) -> set[str]:
        """The photos that are in a shard; none where it is not there."""
        if not self.path(number).is_file():
            return set()
        with parsing(self.path(number), WHAT):
            names = set(self._opened(number).namelist())
            # Where its end is missing, zipfile takes the end of the last .npz in it, which is a zip too.
            foreign = names - {name + SUFFIX for name in self.photos_of(number)}
            if foreign:
                raise ValueError(f"{min(foreign)} in it is none of its photos")
            return {name.removesuffix(SUFFIX) for name in names}

    def all_members(self) -> set[str]:
        """The photos that are in any shard."""
        return set().union(*(self.members(number) for number in range(len(self))))

    def read(self, name: str) -> bytes:
        """The ``.npz`` of a photo."""
        number = self.number(name)
        with parsing(self.path(number), WHAT):
            shard = self._opened(number)
            if shard.getinfo(name + SUFFIX).compress_type != zipfile.ZIP_STORED:
                raise UserError(f"{name} in it is packed")
            return shard.read(name + SUFFIX)

    def add(self, number: int, contents: Mapping[str, bytes]) -> None:
        """Put the ``.npz`` of photos into their shard, beside those that are in it."""
        if not contents:
            return
        there = {name: self.read(name) for name in self.members(number) - contents.keys()}
        found = there | dict(contents)
        self._open.evict(number)
        with files.atomic_file(self.path(number)) as temporary, zipfile.ZipFile(temporary, "w") as shard:
            for name in self.photos_of(number):
                if name in found:
                    shard.writestr(zipfile.ZipInfo(name + SUFFIX, _DATE), found[name])

    def pack(self, number: int) -> None:
        """Move photos that lie in files of their own into their shard."""
        paths = {name: self.folder / (name + SUFFIX) for name in self.photos_of(number)}
        alone = {name: path for name, path in paths.items() if path.is_file()}
        if not alone:
            return
        if not alone.keys() <= self.members(
            number
        ):  # else they were packed, and the process killed before it removed them
            self.add(number, {name: path.read_bytes() for name, path in alone.items()})
        for path in alone.values():
            path.unlink()
            for parent in list(path.relative_to(self.folder).parents)[:-1]:
                with contextlib.suppress(OSError):  # others lie in it
                    (self.folder / parent).rmdir()

    def _opened(self, number: int) -> zipfile.ZipFile:
        return self._open.get(number, lambda: zipfile.ZipFile(self.path(number)))
