"""Read untrusted or damaged files, inside `errors.parsing`.

Sizes that a file announces are checked before memory is taken, and names in it never lead out of their folder.
"""

import io
import json
import os
import re
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from patchprint.common.errors import UserError, parsing

_MOST_PACKED = 20  # times that packed arrays may grow; descriptors do by far less
_SMALL = 1 << 26  # bytes that no machine minds


def read_json(path: str | Path, what: str, kind: type = dict) -> Any:
    """Return the JSON in a file, which must exist and be of ``kind``."""
    if not Path(path).is_file():
        raise UserError(f"{path} is not there, or a folder; expected {what}")
    with parsing(path, "JSON"):
        value = json.loads(Path(path).read_text(encoding="utf-8"))
    if not isinstance(value, kind):
        raise UserError(f"{path} holds no JSON {'object' if kind is dict else kind.__name__}; expected {what}")
    return value


def read_npz(path: str | Path, what: str, data: bytes | None = None) -> dict[str, np.ndarray]:
    """Return the arrays of a file of numpy.savez or savez_compressed; pickles and zip bombs are refused.

    Args:
        data: the file, where it lies in another one; ``path`` is then its name.
    """
    if data is None and not Path(path).is_file():
        raise UserError(f"{path} is not there, or a folder; expected {what}")
    with parsing(path, what), zipfile.ZipFile(path if data is None else io.BytesIO(data)) as bundle:
        members = bundle.infolist()
        size = Path(path).stat().st_size if data is None else len(data)
        if sum(member.file_size for member in members) > max(_SMALL, _MOST_PACKED * size):
            raise UserError(f"{path} is not {what}: it unpacks to far more than it holds; write it with numpy.savez")
        return {member.filename.removesuffix(".npy"): _array(bundle.read(member)) for member in members}


def escapes_folder(name: str) -> bool:
    """Whether a name in a file would be a path outside of the folder it belongs to."""
    slashed = name.replace("\\", "/")
    # C:x is a path of a drive on Windows alone, "A: first.jpg" a name elsewhere; C:/x is never meant as a name.
    drive = "[A-Za-z]:" if os.name == "nt" else "[A-Za-z]:/"
    is_absolute = slashed.startswith("/") or re.match(drive, slashed) is not None
    return is_absolute or "\0" in name or ".." in slashed.split("/")


def safe_join(folder: Path, name: Any, where: object) -> Path:
    """``folder / name`` for a name that stands in the file ``where``; UserError where it would lie elsewhere."""
    if not isinstance(name, str) or not name or escapes_folder(name):
        raise UserError(f"{where} is refused: the name {name!r} in it leads out of {folder}")
    return folder / name


def _array(data: bytes) -> np.ndarray:
    """An .npy file in memory, as an array of its own."""
    stream = io.BytesIO(data)
    version = np.lib.format.read_magic(stream)
    read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, is_fortran, dtype = read_header(stream)
    if dtype.hasobject:
        raise ValueError("it holds pickled objects")
    order: Any = "F" if is_fortran else "C"
    return np.ndarray(shape, dtype, data, stream.tell(), order=order).copy(order)
