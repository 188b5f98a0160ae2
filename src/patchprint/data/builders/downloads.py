"""Public sets: where they can be had, how to tell that they are complete, and under which terms. Only on request.

A set is looked for in ``--data-dir`` first, then in the cache (``PATCHPRINT_CACHE``, else ``~/.cache/patchprint``); otherwise
its archive is fetched, going on where an earlier attempt stopped. A mirror that does not answer, or whose archive is not the
set, is followed by the next one. Of no archive is a sha256 published; of some an MD5 sum is, which is compared, and only these
may come over plain http. Once an archive was unpacked and found to be the set, its sha256 is recorded beside it, and
later copies must equal it.

pooch was looked at and cannot replace this: it starts every download anew, knows one address for a file, and has no limits.
"""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import re
import ssl
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any

from tqdm import tqdm

from patchprint.common import files
from patchprint.common.errors import UserError
from patchprint.common.provenance import sha256_of_file
from patchprint.data.builders.unpacking import NotTheSetError, unpack

_BLOCK = 1 << 20
# The largest set, HPatches' patches, takes a few gigabytes; what is far larger is no set of these.
_LARGEST_ARCHIVE = 8 << 30
_NO_ANSWER = (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError, ssl.SSLError)
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

    @property
    def mirrors(self) -> tuple[str, ...]:
        """Addresses in the order in which they are tried: https first, plain http only where a checksum tells what came."""
        plain = [url for url in self.urls if url.startswith("http:") and (self.md5 or self.sha256)]
        return tuple(dict.fromkeys([*(re.sub("^http:", "https:", url) for url in self.urls), *plain]))


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
    return {"name": each.name, "what": each.what, "license": each.license, "mirrors": list(each.mirrors)}


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
    archives = files.cache_folder("archives")
    with files.only_writer(archives / name):
        return _fetch(wanted, archives, target)


def _fetch(wanted: PublicSet, archives: Path, target: Path) -> Path:
    """The set from the first mirror that has it; what lies in ``archives`` already is used as far as it is good."""
    problems = []
    for url in wanted.mirrors:
        archive = archives / f"{wanted.name}-{PurePosixPath(url).name}"
        try:
            with contextlib.suppress(NotTheSetError):
                if archive.is_file():
                    return _install(archive, wanted, target)
            with contextlib.suppress(NotTheSetError):
                if _part_of(archive).is_file():  # it may be of another file, when a mirror sent something else before
                    _download(url, archive)
                    return _install(archive, wanted, target)
            _download(url, archive)
            return _install(archive, wanted, target)
        except _NO_ANSWER as error:
            problems.append(f"{url} ({getattr(error, 'reason', None) or error or type(error).__name__})")
        except NotTheSetError as error:
            problems.append(f"{url} ({error})")
    reasons = " ".join("; ".join(problems).split())
    raise OSError(f"no mirror gives {wanted.name}: {reasons}; if you have a copy, name its folder with --data-dir")


def _install(archive: Path, wanted: PublicSet, target: Path) -> Path:
    """Unpack an archive to ``target`` and record its checksum; one that is not the set is deleted."""
    try:
        found_sha256 = _checked(archive, wanted)
        with files.atomic_folder(target, "patchprint data download", force=True) as temporary:
            unpack(archive, temporary)
            if _root_of(wanted, temporary) is None:
                raise NotTheSetError(f"what came is not {wanted.name}: it holds no {wanted.marker}")
    except NotTheSetError:
        archive.unlink()
        raise
    files.write_text(_note_of(archive), f"{found_sha256}  {archive.name}\n")
    root = _root_of(wanted, target)
    assert root is not None
    return root


class _StaysSecure(urllib.request.HTTPRedirectHandler):
    """Follows no redirect from https to anything else."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        if req.type == "https" and not newurl.startswith("https:"):
            raise urllib.error.URLError(f"it leads from https to {newurl}")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _download(url: str, archive: Path) -> None:
    partial = _part_of(archive)
    have = partial.stat().st_size if partial.exists() else 0
    request = urllib.request.Request(url, headers={"Range": f"bytes={have}-"} if have else {})
    try:
        answer = urllib.request.build_opener(_StaysSecure).open(request, timeout=60)
    except urllib.error.HTTPError as error:
        if error.code != 416:  # nothing is left to send: the part is whole
            raise
        partial.replace(archive)
        return
    with answer:
        resumes = answer.status == 206
        if resumes and not answer.headers.get("Content-Range", "").startswith(f"bytes {have}-"):
            partial.unlink(missing_ok=True)
            raise ConnectionError("it sent another part of the file than was asked for")
        size = have if resumes else 0
        total = 0 if answer.length is None else size + answer.length  # 0 where the server does not say
        with (
            open(partial, "ab" if resumes else "wb") as stream,
            tqdm(total=total or None, initial=size, unit="B", unit_scale=True, disable=None) as bar,
        ):
            while max(size, total) <= _LARGEST_ARCHIVE and (block := answer.read(_BLOCK)):
                _write(stream, block)
                bar.update(len(block))
                size += len(block)
    if max(size, total) > _LARGEST_ARCHIVE:
        partial.unlink()
        raise ConnectionError(f"it sends more than {_LARGEST_ARCHIVE} bytes, which no set has")
    if total and size != total:
        raise ConnectionError(f"it broke off after {size} of {total} bytes")
    partial.replace(archive)


def _write(stream: IO[bytes], block: bytes) -> None:
    try:
        stream.write(block)
        stream.flush()
    except OSError as error:  # a full disk, which does not say where
        raise OSError(f"{stream.name} could not be written: {error.strerror}") from error


def _checked(archive: Path, wanted: PublicSet) -> str:
    """The sha256 of an archive that agrees with the published checksum, and with the one recorded of an earlier copy."""
    found, note = sha256_of_file(archive), _note_of(archive)
    if wanted.md5 is not None and _md5(archive) != wanted.md5:
        raise NotTheSetError(f"what came does not have the md5 {wanted.md5} of {wanted.name}")
    if wanted.sha256 not in (None, found):
        raise NotTheSetError(f"what came has the sha256 {found}, expected {wanted.sha256}")
    if note.is_file() and note.read_text().split()[:1] != [found]:
        raise NotTheSetError(
            f"what came differs from the copy recorded in {note}; delete that if the publishers changed it"
        )
    return found


def _part_of(archive: Path) -> Path:
    return archive.with_name(archive.name + ".part")


def _note_of(archive: Path) -> Path:
    return archive.with_name(archive.name + ".sha256")


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
