"""Public sets: where they can be had, how to tell that they are complete, and under which terms. Only on request.

A set is looked for in ``--data-dir`` first, then in the cache (``PATCHPRINT_CACHE``, else ``~/.cache/patchprint``); otherwise
its archive is fetched from the first mirror that answers, going on where an earlier attempt stopped. The publishers
know MD5 sums of some archives, which are compared; the sha256 is recorded beside the archive, and later copies must equal it.
"""

from __future__ import annotations

import hashlib
import tarfile
import urllib.error
import urllib.request
import zipfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from tqdm import tqdm

from patchprint import files
from patchprint.errors import UserError
from patchprint.provenance import sha256_of_file

_BLOCK = 1 << 20
_UBC = (
    "http://matthewalunbrown.com/patchdata",
    "http://phototour.cs.washington.edu/patches",
    "http://icvl.ee.ic.ac.uk/vbalnt",
)
_UBC_MD5 = {
    "liberty": "fdd9152f138ea5ef2091746689176414",
    "notredame": "509eda8535847b8c0a90bbb210c83484",
    "yosemite": "533b2e8eb7ede31be40abc317b2fd4f0",
    "liberty_harris": "c731fcfb3abb4091110d0ae8c7ba182c",
    "notredame_harris": "69f8c90f78e171349abdf0307afefe4d",
    "yosemite_harris": "a73253d1c6fbd3ba2613c45065c00d46",
}
_UBC_TERMS = "licence not stated by the authors, for research (Winder, Hua and Brown 2009); cite it"
_HPATCHES_TERMS = "MIT for the code, images for research (Balntas et al. 2017); cite it"


@dataclass(frozen=True)
class PublicSet:
    """``marker`` is a file that a complete copy has; ``md5`` and ``sha256`` of the archive where they are known."""

    name: str
    what: str
    urls: tuple[str, ...]
    marker: str
    license: str
    md5: str | None = None
    sha256: str | None = None


def _phototour(file: str, md5: str) -> PublicSet:
    name, _, detector = file.partition("_")
    what = f"UBC patches, {name}, found with {detector or 'dog'}"
    urls = tuple(f"{root}/{file}.zip" for root in _UBC)
    return PublicSet(f"phototour-{file.replace('_', '-')}", what, urls, "info.txt", _UBC_TERMS, md5)


SETS: dict[str, PublicSet] = {
    each.name: each
    for each in (
        *(_phototour(file, md5) for file, md5 in _UBC_MD5.items()),
        PublicSet(
            "hpatches",
            "HPatches, released patch strips of 116 sequences",
            ("http://icvl.ee.ic.ac.uk/vbalnt/hpatches/hpatches-release.tar.gz",),
            "i_ajuntament/ref.png",
            _HPATCHES_TERMS,
            "0ab830d37fceb2b4c86cb1cc6cc79a61",
        ),
        PublicSet(
            "hpatches-sequences",
            "HPatches, full image sequences with homographies",
            (
                "http://icvl.ee.ic.ac.uk/vbalnt/hpatches/hpatches-sequences-release.tar.gz",
                "https://huggingface.co/datasets/vbalnt/hpatches/resolve/main/hpatches-sequences-release.zip",
            ),
            "i_ajuntament/H_1_2",
            _HPATCHES_TERMS,
        ),
        PublicSet(
            "rome",
            "RomePatches",
            ("http://lear.inrialpes.fr/people/paulin/projects/RomePatches/RomePatches.tar.gz",),
            "train",
            "licence not stated by the authors, for research (Paulin et al. 2015); cite it",
        ),
    )
}


def describe(name: str) -> dict[str, Any]:
    each = _find(name)
    return {"name": each.name, "what": each.what, "license": each.license, "mirrors": list(each.urls)}


def locate(name: str, data_dir: str | Path | None = None) -> Path:
    """Folder of a public set: the user's copy, the cached one, or a fresh download."""
    wanted = _find(name)
    if data_dir is not None:
        found = _root_of(wanted, Path(data_dir))
        if found is None:
            raise UserError(
                f"{data_dir} holds no complete copy of {name}: there is no {wanted.marker} in it or one folder below"
            )
        return found
    target = files.cache_folder(name)
    found = _root_of(wanted, target)
    if found is not None:
        return found
    archive = fetch(wanted, files.cache_folder("archives"))
    with files.atomic_folder(target, "patchprint data download", force=True) as temporary:
        unpack(archive, temporary)
        if _root_of(wanted, temporary) is None:
            raise UserError(f"{archive} is not {name}: it holds no {wanted.marker}; delete it and try again")
    found = _root_of(wanted, target)
    assert found is not None
    return found


def fetch(wanted: PublicSet, folder: Path) -> Path:
    """The archive of a set, from the first mirror that answers; a part that is there already is kept."""
    folder.mkdir(parents=True, exist_ok=True)
    problems = []
    for url in wanted.urls:
        archive = folder / f"{wanted.name}-{PurePosixPath(url).name}"
        try:
            if not archive.is_file():
                _download(url, archive)
        except (urllib.error.URLError, TimeoutError, ConnectionError) as error:
            problems.append(f"{url} ({getattr(error, 'reason', error)})")
            continue
        _check(archive, wanted)
        return archive
    raise OSError(
        f"no mirror of {wanted.name} answers: {'; '.join(problems)}; if you have a copy, name its folder with --data-dir"
    )


def unpack(archive: Path, folder: Path) -> None:
    """Unpack a zip or tar file; members that climb out of the folder, or are neither files nor folders, are refused."""
    try:
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as bundle:
                for member in bundle.infolist():
                    _refuse_climbing(member.filename, archive)
                bundle.extractall(folder)
        elif tarfile.is_tarfile(archive):
            with tarfile.open(archive) as bundle:
                for entry in bundle:
                    _refuse_climbing(entry.name, archive)
                    if not (entry.isfile() or entry.isdir()):
                        raise UserError(
                            f"{archive} holds {entry.name!r}, which is neither a file nor a folder; not unpacked"
                        )
                bundle.extractall(folder, filter="data")
        else:
            raise UserError(f"{archive} is no zip or tar file; delete it and download it again")
    except (zipfile.BadZipFile, tarfile.TarError, EOFError) as error:
        raise UserError(f"{archive} is damaged ({error}); delete it and download it again") from None


def _refuse_climbing(name: str, archive: Path) -> None:
    path = PurePosixPath(name.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts or (path.parts and ":" in path.parts[0]):
        raise UserError(f"{archive} holds the path {name!r}, which climbs out of the folder; it was not unpacked")


def _download(url: str, archive: Path) -> None:
    partial = archive.with_name(archive.name + ".part")
    have = partial.stat().st_size if partial.exists() else 0
    request = urllib.request.Request(url, headers={"Range": f"bytes={have}-"} if have else {})
    try:
        answer = urllib.request.urlopen(request, timeout=60)
    except urllib.error.HTTPError as error:
        if error.code != 416:  # nothing is left to send: the part is whole
            raise
        partial.replace(archive)
        return
    with answer:
        resumes = answer.status == 206
        total = int(answer.headers.get("Content-Length", 0)) + (have if resumes else 0)
        with (
            open(partial, "ab" if resumes else "wb") as stream,
            tqdm(total=total or None, initial=have if resumes else 0, unit="B", unit_scale=True, disable=None) as bar,
        ):
            while block := answer.read(_BLOCK):
                stream.write(block)
                bar.update(len(block))
    if total and partial.stat().st_size != total:
        raise ConnectionError(f"it broke off after {partial.stat().st_size} of {total} bytes")
    partial.replace(archive)


def _check(archive: Path, wanted: PublicSet) -> None:
    """Compare with the published checksum, and with the one recorded when the archive was first seen here."""
    if wanted.md5 is not None and _md5(archive) != wanted.md5:
        raise UserError(
            f"{archive} does not have the md5 {wanted.md5} of {wanted.name}; delete it and download it again"
        )
    note = archive.with_name(archive.name + ".sha256")
    known = wanted.sha256 or (note.read_text().split()[0] if note.is_file() else None)
    found = sha256_of_file(archive)
    if known is not None and found != known:
        raise UserError(f"{archive} has the sha256 {found}, expected {known}; delete it and download it again")
    if known is None:
        files.write_text(note, f"{found}  {archive.name}\n")


def _md5(path: Path) -> str:
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "md5").hexdigest()


def _root_of(wanted: PublicSet, folder: Path) -> Path | None:
    """``folder`` or the one folder below it that holds the marker."""
    if not folder.is_dir():
        return None
    places = [folder, *sorted(path for path in folder.iterdir() if path.is_dir())]
    return next((place for place in places if (place / wanted.marker).exists()), None)


def _find(name: str) -> PublicSet:
    if name not in SETS:
        raise UserError(f"there is no public set {name!r}; known are {', '.join(SETS)}")
    return SETS[name]
