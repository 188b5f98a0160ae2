"""Public data sets: where they are found, their checksum where one is published, and their license.

A set is looked for in ``--data-dir``, then in the cache (``PATCHPRINT_CACHE``, else ``~/.cache/patchprint``); otherwise pooch
fetches its archive from the first mirror that has it. Plain http is used only with a published checksum.
"""

from __future__ import annotations

import re
import sys
import tarfile
import zipfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from patchprint.common import files
from patchprint.common.errors import UserError, parsing, require
from patchprint.common.registry import Registry
from patchprint.common.safe_io import inside

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
_UBC_TERMS = "license not stated by the authors, for research (Winder, Hua and Brown 2009); cite it"
_HPATCHES_TERMS = "MIT for the code, images for research (Balntas et al. 2017); cite it"


@dataclass(frozen=True)
class PublicSet:
    """A data set with its mirrors; ``marker`` is a file that a complete copy has, ``md5`` that of the archive if published."""

    name: str
    what: str
    urls: tuple[str, ...]
    marker: str
    license: str
    md5: str | None = None

    @property
    def mirrors(self) -> tuple[str, ...]:
        """URLs in the order in which they are tried: https first, plain http only where a checksum is known."""
        plain = [url for url in self.urls if url.startswith("http:") and self.md5]
        return tuple(dict.fromkeys([*(re.sub("^http:", "https:", url) for url in self.urls), *plain]))


def _phototour(file: str, md5: str) -> PublicSet:
    name, _, detector = file.partition("_")
    what = f"UBC patches, {name}, found with {detector or 'dog'}"
    urls = tuple(f"{root}/{file}.zip" for root in _UBC)
    return PublicSet(f"phototour-{file.replace('_', '-')}", what, urls, "info.txt", _UBC_TERMS, md5)


_SETS = (
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
        "license not stated by the authors, for research (Paulin et al. 2015); cite it",
    ),
)
SETS = Registry("public set", {each.name: each for each in _SETS})


def describe(name: str) -> dict[str, Any]:
    """Name, description, license and mirrors of a set."""
    each = SETS[name]
    return {"name": each.name, "what": each.what, "license": each.license, "mirrors": list(each.mirrors)}


def locate(name: str, data_dir: str | Path | None = None) -> Path:
    """Return the folder of a public set: the user's copy, the cached one, or a fresh download."""
    wanted = SETS[name]
    if data_dir is not None:
        found = _root_of(wanted, Path(data_dir))
        if found is None:
            raise UserError(
                f"{data_dir} holds no complete copy of {name}: there is no {wanted.marker} in it or one folder below"
            )
        return found
    target = files.cache_folder(name)
    archives = files.cache_folder("archives")
    with files.only_writer(archives / name):
        return _root_of(wanted, target) or _fetch(wanted, archives, target)


def _fetch(wanted: PublicSet, archives: Path, target: Path) -> Path:
    """Download from the first mirror whose archive is the set, and unpack it to ``target``."""
    pooch, requests = require("pooch", extra="images"), require("requests", extra="images")
    pooch.get_logger().setLevel("WARNING")
    problems = []
    for url in wanted.mirrors:
        try:
            archive = pooch.retrieve(
                url,
                known_hash=wanted.md5 and f"md5:{wanted.md5}",
                fname=f"{wanted.name}-{PurePosixPath(url).name}",
                path=archives,
                downloader=pooch.HTTPDownloader(
                    progressbar=sys.stderr.isatty(), timeout=60, hooks={"response": _refuse_downgrade}
                ),
            )
            return _install(Path(archive), wanted, target)
        except (requests.RequestException, ValueError) as error:  # ValueError: another checksum, or not the set
            problems.append(f"{url} ({error})")
    reasons = " ".join("; ".join(problems).split())
    raise OSError(f"no mirror gives {wanted.name}: {reasons}; if you have a copy, name its folder with --data-dir")


def _refuse_downgrade(answer: Any, *_: Any, **__: Any) -> None:
    """Refuse a redirect from https to http."""
    target = answer.headers.get("location", "") if answer.is_redirect else ""
    if answer.url.startswith("https:") and target.startswith("http:"):
        raise UserError(f"it redirects from https to {target}")


def _install(archive: Path, wanted: PublicSet, target: Path) -> Path:
    """Unpack an archive to ``target``; one that is not the set, or leads out of the folder, is deleted."""
    try:
        with files.atomic_folder(target, "patchprint data download", force=True) as temporary:
            with parsing(archive, "a zip or tar archive", "download it again"):
                if zipfile.is_zipfile(archive):
                    with zipfile.ZipFile(archive) as bundle:
                        for name in bundle.namelist():
                            inside(temporary, name, archive)
                        bundle.extractall(temporary)
                else:
                    with tarfile.open(archive) as bundle:
                        bundle.extractall(temporary, filter="data")
            if _root_of(wanted, temporary) is None:
                raise UserError(f"the archive is not {wanted.name}: it holds no {wanted.marker}")
    except UserError:
        archive.unlink()
        raise
    root = _root_of(wanted, target)
    assert root is not None
    return root


def _root_of(wanted: PublicSet, folder: Path) -> Path | None:
    """Return ``folder``, or the folder directly below it, that holds the marker."""
    if not folder.is_dir():
        return None
    places = [folder, *sorted(path for path in folder.iterdir() if path.is_dir())]
    return next((place for place in places if (place / wanted.marker).exists()), None)
