"""Write files and folders so that a crash, a full disk or a second writer never destroys what was there before.

Every folder that patchprint writes has a marker ``.patchprint``, which says what made it and what it contains. Only such a
folder is ever replaced or emptied, and only while nothing else lies in it.
"""

import contextlib
import fnmatch
import json
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any

from patchprint.common.errors import OtherInputsError, UserError

try:
    import fcntl
except ImportError:  # Windows: one writer at a time is then up to the caller
    fcntl = None  # type: ignore[assignment]

MARKER = ".patchprint"  # how the names begin that patchprint gives for itself
TEMPORARY = re.compile(re.escape(MARKER) + r"\.[a-z0-9_]{8}\..+")  # .patchprint.RANDOM.NAME of `atomic_file`
_LEFTOVER = re.compile(r"\.(.+?)\.(?:new|old|lock)")  # .NAME.new, .NAME.old, .NAME.lock: what killed writers leave
_cleaned: set[Path] = set()  # folders in which this process has looked for what killed writers left


def refuse_overwrite(path: str | Path, force: bool) -> None:
    """Raise UserError where ``path`` exists and ``force`` was not given."""
    if Path(path).exists() and not force:
        raise UserError(f"{path} exists already; give another --out, or --force to replace it")


def check_output_file(path: str | Path, force: bool) -> None:
    """Raise where `atomic_file` would fail or replace something, so that hours of work do not end with it."""
    path = Path(path)
    if path.is_dir():
        raise UserError(f"{path} is a folder, but one file is written; give --out the name of a file in it")
    refuse_overwrite(path, force)
    parent = next(place for place in path.absolute().parents if place.exists())
    if not parent.is_dir():
        raise UserError(f"{path} cannot be written, since {parent} is a file and no folder; give another --out")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise PermissionError(f"{path} cannot be written: there is no permission to write to {parent}")
    try:  # some file systems, like /proc, refuse what they seem to permit
        with tempfile.TemporaryFile(dir=parent):
            pass
    except OSError as error:
        raise OSError(f"{path} cannot be written: {parent} takes no files ({error.strerror})") from error


def refuse_overlap(out: str | Path, source: str | Path, inside: bool = False) -> None:
    """Raise UserError where writing ``out`` could harm ``source``: it is the same folder, or holds it.

    With ``inside`` also where it lies in ``source``, for outputs that the next run would take for inputs.
    """
    written, read = Path(out).resolve(), Path(source).resolve()
    if written == read or written in read.parents:
        raise UserError(f"the output {out} is or holds the input {source}; give another output folder")
    if inside and read in written.parents:
        raise UserError(f"the output {out} lies in the input {source}; give a folder elsewhere")


def cache_folder(name: str) -> Path:
    """Return the cache folder ``name``, below ``PATCHPRINT_CACHE`` or ``~/.cache/patchprint``."""
    root = os.environ.get("PATCHPRINT_CACHE") or Path.home() / ".cache" / "patchprint"
    return Path(root).expanduser() / name


@contextlib.contextmanager
def atomic_file(path: str | Path) -> Iterator[Path]:
    """Yield a temporary file in the same folder; on success flush it to disk and rename it to ``path``.

    Write into it: one that is moved into its place is not locked, and other writers may take it for a leftover.
    """
    path = Path(path)
    with _temporary(path, _new_file) as temporary:
        yield temporary
        flush(temporary)
        os.umask(mask := os.umask(0))
        temporary.chmod(0o666 & ~mask)
        temporary.replace(path)
        flush(path.parent)


@contextlib.contextmanager
def temporary_folder(path: str | Path) -> Iterator[Path]:
    """Yield an empty folder beside ``path`` for intermediate files; it is removed in the end."""
    with _temporary(Path(path), lambda path: Path(tempfile.mkdtemp(**_name_beside(path)))) as temporary:
        yield temporary


def write_text(path: str | Path, text: str) -> None:
    with atomic_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: str | Path, value: Any) -> None:
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


@contextlib.contextmanager
def atomic_folder(path: str | Path, made_by: str, force: bool = False) -> Iterator[Path]:
    """Yield a temporary folder beside ``path``; on success rename it to ``path``.

    ``force`` replaces an old folder of ``made_by``; if that is interrupted, the next writer puts ``.NAME.old`` back.
    """
    path = Path(path).resolve()
    new, old = _sibling(path, "new"), _sibling(path, "old")
    with exclusive_writer(path), name_failed_path(path):
        _recover(path)
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
                _recover(path)


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
        raise OtherInputsError(f"{path} holds the work of other inputs or settings; give another --out, or --force")
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


def check_output_folder(path: str | Path, made_by: str, force: bool) -> None:
    """Raise UserError where `atomic_folder` would, so that hours of work do not end with it."""
    if Path(path).parent.exists():
        with exclusive_writer(path):
            _recover(Path(path).resolve())
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
    foreign = next(_find_foreign(folder), None)
    if foreign is not None:
        raise UserError(
            f"{folder} holds {foreign.relative_to(folder)}, which {maker} did not write; move it away first"
        )


def _find_foreign(folder: Path) -> Iterator[Path]:
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
                yield from _find_foreign(entry)

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


def _recover(path: Path) -> None:
    """Finish or undo the replacement of ``path`` that stopped half-way."""
    new, old = _sibling(path, "new"), _sibling(path, "old")
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


@contextlib.contextmanager
def name_failed_path(path: Path) -> Iterator[None]:
    """Make errors of a full disk, which name no file or a temporary one, name ``path``."""
    try:
        yield
    except OSError as error:
        if error.filename is not None and not TEMPORARY.fullmatch(Path(os.fsdecode(error.filename)).name):
            raise
        reason: BaseException = error
        while isinstance(reason.__cause__, OSError):  # of a file in a folder that is not there yet, the folder is named
            reason = reason.__cause__
        raise OSError(f"{path} could not be written: {getattr(reason, 'strerror', None) or reason}") from error


def flush(path: Path) -> None:
    """Write a file or a folder to the disk. Windows wants a file that is open for writing, and opens no folders."""
    if os.name == "nt" and path.is_dir():
        return
    descriptor = os.open(path, os.O_RDWR if os.name == "nt" else os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _name_beside(path: Path) -> dict[str, Any]:
    # The end of the name, since libraries go by it; not all of it, since a name has at most 255 bytes.
    return {"prefix": f"{MARKER}.", "suffix": f".{path.name[-40:]}", "dir": path.parent}


def _new_file(path: Path) -> Path:
    handle, name = tempfile.mkstemp(**_name_beside(path))
    os.close(handle)
    return Path(name)


@contextlib.contextmanager
def _temporary(path: Path, make: Callable[[Path], Path]) -> Iterator[Path]:
    """Yield a locked temporary file or folder beside ``path``, removed in the end; unlocked ones count as leftovers."""
    with name_failed_path(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(path.parent)
        while True:
            temporary = make(path)
            try:
                lock = _lock(temporary)
            except FileNotFoundError:  # another process tidied up before we had the lock
                continue
            if lock is None or temporary.exists():
                break
            os.close(lock)
        try:
            yield temporary
        finally:
            _remove(temporary)
            if lock is not None:
                os.close(lock)


def _remove_leftovers(folder: Path) -> None:
    """Remove the temporary files of killed writers: those that nobody holds. Once in a process, since folders can be long."""
    folder = folder.resolve()
    if folder in _cleaned:
        return
    _cleaned.add(folder)
    for entry in folder.glob(f"{MARKER}.*"):
        if TEMPORARY.fullmatch(entry.name):
            with contextlib.suppress(OSError):  # it is somebody else's to remove
                lock = _lock(entry, wait=False)
                if lock is not None:
                    _remove(entry)
                    os.close(lock)


def _remove(temporary: Path) -> None:
    if temporary.is_dir():
        shutil.rmtree(temporary)
    else:
        temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def exclusive_writer(path: str | Path, wait: bool = False) -> Iterator[None]:
    """Hold the lock file beside ``path``; where another process holds it, ``wait`` for it or raise UserError.

    A folder whose parent cannot be written, such as a mounted volume, is not locked.
    """
    path = Path(path).resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    if fcntl is None or not os.access(path.parent, os.W_OK):
        yield
        return
    lock = _sibling(path, "lock")
    with contextlib.closing(_take_lock(lock, path, wait)) as stream:
        try:
            yield
        finally:
            if os.fstat(stream.fileno()).st_size == 0:  # ours is empty
                lock.unlink(missing_ok=True)


def _lock(temporary: Path, wait: bool = True) -> int | None:
    """Return an open descriptor that holds the lock of a file or folder; None where it cannot be locked."""
    if fcntl is None:
        return None
    descriptor = os.open(temporary, os.O_RDONLY | os.O_NONBLOCK)  # a pipe would be waited for
    try:
        if not _is_lockable(descriptor):
            raise OSError
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:  # somebody's, or on a file system without locks
        os.close(descriptor)
        return None
    return descriptor


def _take_lock(lock: Path, path: Path, wait: bool) -> IO[bytes]:
    while True:
        stream = os.fdopen(os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NONBLOCK, 0o666), "r+b", buffering=0)
        if not _is_lockable(stream.fileno()):
            stream.close()
            raise UserError(f"{lock} is no file but a pipe or a device; remove it, it is the name of a lock")
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            stream.close()
            raise UserError(f"another process is writing {path}; wait for it, or give another --out") from None
        except OSError:
            return stream  # a file system without locks
        # The holder before us may have removed the file between our opening and our locking it.
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(stream.fileno()), lock.stat()):
                return stream
        stream.close()


def _is_lockable(descriptor: int) -> bool:
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode)


def _sibling(path: Path, role: str) -> Path:
    return path.with_name(f".{path.name}.{role}")
