"""Output folders: marker files, atomic replacement, and protection of foreign files."""

from __future__ import annotations

import contextlib
import fnmatch
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from patchprint.common.errors import OtherInputsError, UserError
from patchprint.common.files._single import (
    MARKER,
    TEMPORARY,
    beside,
    flush,
    only_writer,
    refuse_overwrite,
    saying_what_failed,
    write_json,
)

_LEFTOVER = re.compile(r"\.(.+?)\.(?:new|old|lock)")  # .NAME.new, .NAME.old, .NAME.lock: what killed writers leave


@contextlib.contextmanager
def atomic_folder(path: str | Path, made_by: str, force: bool = False) -> Iterator[Path]:
    """Yield a temporary folder beside ``path``; on success rename it to ``path``.

    ``force`` replaces an old folder of ``made_by``; if that is interrupted, the next writer puts ``.NAME.old`` back.
    """
    path = Path(path).resolve()
    new, old = beside(path, "new"), beside(path, "old")
    with only_writer(path), saying_what_failed(path):
        _settle(path)
        _refuse_replacing(path, made_by, force)
        try:
            new.mkdir()
            mark_folder(new, made_by, ["*"])
            yield new
            written = sorted(file for file in new.rglob("*") if file.is_file())
            mark_folder(new, made_by, [file.relative_to(new).as_posix() for file in written if file.name != MARKER])
            for file in written:
                flush(file)
            # Again, since somebody may have put something there while the new folder was written.
            _refuse_replacing(path, made_by, force)
            if path.exists():
                path.rename(old)
            new.rename(path)
            flush(path.parent)
        finally:
            # Never hides the error that led here; what cannot be removed now is removed by the next writer.
            with contextlib.suppress(OSError):
                _settle(path)


def claim_folder(
    path: str | Path, made_by: str, contents: Iterable[str], inputs: str = "", force: bool = False
) -> None:
    """Mark a folder that is written file by file as the work of ``made_by`` on ``inputs``, or continue one that is.

    A folder with other files, of another command or of other inputs is refused; ``force`` empties it first, if it may.

    Args:
        contents: names of what the command writes, relative to ``path``; ``*`` stands for anything. Folders with a marker of
            their own describe themselves.
        inputs: checksum of the inputs.
    """
    path = Path(path)
    if path.exists() and not path.is_dir():
        raise UserError(f"{path} is a file, and {made_by} writes a folder; give another --out")
    if force and path.exists():
        _refuse_foreign(path, made_by)
        _empty(path)
    found = _read_marker(path)
    if found is None and path.exists() and any(not entry.name.startswith(".") for entry in path.iterdir()):
        raise UserError(f"{path} exists and holds files that {made_by} did not write; give another --out")
    if found is not None and found["made_by"] != made_by:
        raise UserError(f"{path} was made by {found['made_by']}, not by {made_by}; give another --out")
    if found is not None and found["inputs"] != inputs:
        raise OtherInputsError(
            f"{path} holds the work of other inputs or settings; give another --out, or --force to start again"
        )
    mark_folder(path, made_by, contents, inputs)


def mark_folder(path: Path, made_by: str, contents: Iterable[str], inputs: str = "") -> None:
    """Write the marker of a folder (see `claim_folder`), whatever lies there."""
    write_json(path / MARKER, {"made_by": made_by, "inputs": inputs, "contents": list(contents)})


def remove_folder(path: str | Path) -> None:
    """Delete a folder that patchprint made, if it is there and nothing else lies in it."""
    path = Path(path)
    if path.exists():
        _refuse_foreign(path)
        _empty(path)
        path.rmdir()


def refuse_folder(path: str | Path, made_by: str, force: bool) -> None:
    """Raise UserError where `atomic_folder` would, so that hours of work do not end with it."""
    if Path(path).parent.exists():
        with only_writer(path):
            _settle(Path(path).resolve())
            _refuse_replacing(Path(path), made_by, force)


def _refuse_replacing(path: Path, made_by: str, force: bool) -> None:
    if path.exists():
        refuse_overwrite(path, force)
        _refuse_foreign(path, made_by)


def _refuse_foreign(folder: Path, made_by: str | None = None) -> None:
    """Raise UserError unless all in ``folder`` is patchprint's; replacing a marked folder would lose foreign files in it."""
    if not folder.is_dir():
        raise UserError(f"{folder} is a file, which no folder replaces; give another --out, or move it away")
    found, maker = _read_marker(folder), made_by or "patchprint"
    if found is None and all(TEMPORARY.fullmatch(entry.name) for entry in folder.iterdir()):
        return  # empty, or killed while its marker was written
    if found is None or made_by not in (None, found["made_by"]):
        raise UserError(f"{folder} was not made by {maker}, so it is not removed; give another --out, or move it away")
    foreign = next(_foreign_files(folder), None)
    if foreign is not None:
        raise UserError(
            f"{folder} holds {foreign.relative_to(folder)}, which {maker} did not write, so it is not removed; move that "
            "away, or give another --out"
        )


def _foreign_files(folder: Path) -> Iterator[Path]:
    """Yield what lies in a marked folder and is not in the contents of its marker."""
    marker = _read_marker(folder)
    contents = set(marker["contents"]) if marker else set()
    patterns = [name for name in contents if "*" in name]

    def is_own(path: Path) -> bool:
        if TEMPORARY.fullmatch(path.name):
            return True
        leftover = _LEFTOVER.fullmatch(path.name)
        final = path.with_name(leftover[1]) if leftover else path
        name = final.relative_to(folder).as_posix()
        return name in contents or any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)

    def walk(place: Path) -> Iterator[Path]:
        for entry in sorted(place.iterdir()):
            is_folder = entry.is_dir() and not entry.is_symlink()
            if is_folder and _read_marker(entry) is None:
                yield from walk(entry)
            elif entry != folder / MARKER and not is_own(entry):
                yield entry
            elif is_folder:
                yield from _foreign_files(entry)

    return walk(folder)


def _empty(folder: Path) -> None:
    """Delete all in a folder, markers last, so that a killed removal can be repeated."""
    for entry in folder.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            _empty(entry)
            entry.rmdir()
        elif entry.name != MARKER:
            entry.unlink()
    (folder / MARKER).unlink(missing_ok=True)


def _settle(path: Path) -> None:
    """Finish or undo the replacement of ``path`` that stopped half-way."""
    new, old = beside(path, "new"), beside(path, "old")
    remove_folder(new)
    if _read_marker(old) is not None:
        # Without a folder in its place the old one is needed; else it is renamed before it is deleted.
        old.rename(new if path.exists() else path)
        remove_folder(new)
    remove_folder(old)


def _read_marker(folder: Path) -> dict[str, Any] | None:
    """Return the marker of a folder; None where it has none that can be read."""
    try:
        marker = json.loads((folder / MARKER).read_text(encoding="utf-8"))
        texts = [marker["made_by"], marker["inputs"], *marker["contents"]]
        if not all(isinstance(text, str) for text in texts):
            return None
        return {"made_by": texts[0], "inputs": texts[1], "contents": texts[2:]}
    except (OSError, ValueError, KeyError, TypeError, IndexError, RecursionError):
        return None
