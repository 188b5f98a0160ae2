"""Features of many images in few files: each shard is a zip with the ``.npz`` of consecutive images.

The list of images determines the shard of each, so that one machine and a cluster write the same files, and existing shards are
kept. Members are stored uncompressed, so that the features of one image are read with a single seek.
"""

import contextlib
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from patchprint.common import files
from patchprint.common.errors import UserError, parsing
from patchprint.common.lru import Lru

FOLDER = "shards"
SUFFIX = ".npz"
WHAT = "a shard of features by patchprint"
_MOST_IMAGES = 256  # in a shard: some hundred megabytes
_FEWEST_SHARDS = 64  # so that as many workers have something to do
_DATE = (1980, 1, 1, 0, 0, 0)  # of every member: equal features give equal bytes
_OPEN = 8  # shards that stay open


def images_per_shard(count: int) -> int:
    """Number of images per shard, for ``count`` images."""
    return max(1, min(_MOST_IMAGES, -(-count // _FEWEST_SHARDS)))


class Shards:
    """The shards of a folder of features.

    Args:
        folder: of features.
        names: names of all images, in order; shard k holds those from ``k * size`` on that could be read.
        size: images per shard.
    """

    def __init__(self, folder: Path, names: Sequence[str], size: int) -> None:
        if size < 1:
            raise UserError(f"{folder} is damaged: its shards hold {size} images; describe the images again")
        self.folder, self.names, self.size = folder, names, size
        self._numbers = {name: place // size for place, name in enumerate(names)}
        self._open: Lru[zipfile.ZipFile] = Lru(_OPEN, zipfile.ZipFile.close)

    def __len__(self) -> int:
        return -(-len(self.names) // self.size)

    def number(self, name: str) -> int:
        """Number of the shard of an image, whether it exists or not."""
        return self._numbers[name]

    def names_of(self, number: int) -> Sequence[str]:
        return self.names[number * self.size : (number + 1) * self.size]

    def path(self, number: int) -> Path:
        return self.folder / FOLDER / f"{number:06}.zip"

    def members(self, number: int) -> set[str]:
        """Names of the images in a shard; empty where it does not exist."""
        if not self.path(number).is_file():
            return set()
        with parsing(self.path(number), WHAT):
            names = set(self._opened(number).namelist())
            # In a truncated shard, zipfile finds the directory of the last .npz in it, which is a zip too.
            foreign = names - {name + SUFFIX for name in self.names_of(number)}
            if foreign:
                raise ValueError(f"{min(foreign)} in it is none of its images")
            return {name.removesuffix(SUFFIX) for name in names}

    def all_members(self) -> set[str]:
        """Names of the images in all shards."""
        return set().union(*(self.members(number) for number in range(len(self))))

    def read(self, name: str) -> bytes:
        """The ``.npz`` of an image."""
        number = self.number(name)
        with parsing(self.path(number), WHAT):
            shard = self._opened(number)
            if shard.getinfo(name + SUFFIX).compress_type != zipfile.ZIP_STORED:
                raise UserError(f"{name} in it is compressed")
            return shard.read(name + SUFFIX)

    def add(self, number: int, contents: Mapping[str, bytes]) -> None:
        """Add the ``.npz`` of images to their shard."""
        if not contents:
            return
        there = {name: self.read(name) for name in self.members(number) - contents.keys()}
        found = there | dict(contents)
        self._open.evict(number)
        with files.atomic_file(self.path(number)) as temporary, zipfile.ZipFile(temporary, "w") as shard:
            for name in self.names_of(number):
                if name in found:
                    shard.writestr(zipfile.ZipInfo(name + SUFFIX, _DATE), found[name])

    def pack(self, number: int) -> None:
        """Move single feature files into their shard."""
        paths = {name: self.folder / (name + SUFFIX) for name in self.names_of(number)}
        alone = {name: path for name, path in paths.items() if path.is_file()}
        if not alone:
            return
        if not alone.keys() <= self.members(
            number
        ):  # else the process was killed after packing, before it removed them
            self.add(number, {name: path.read_bytes() for name, path in alone.items()})
        for path in alone.values():
            path.unlink()
            for parent in list(path.relative_to(self.folder).parents)[:-1]:
                with contextlib.suppress(OSError):  # not empty
                    (self.folder / parent).rmdir()

    def _opened(self, number: int) -> zipfile.ZipFile:
        return self._open.get(number, lambda: zipfile.ZipFile(self.path(number)))
