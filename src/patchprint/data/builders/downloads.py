"""Public data sets, as ``public_sets.json`` lists them: mirrors, license, and the checksum where one is published.

A set is looked for in ``--data-dir``, then in the cache (``PATCHPRINT_CACHE``, else ``~/.cache/patchprint``); otherwise pooch
fetches its archive from the first mirror that has it. Plain http is used only with a published checksum.
"""

import json
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from patchprint.common import files
from patchprint.common.errors import UserError, require
from patchprint.common.registry import Registry
from patchprint.data.builders.archives import unpack


@dataclass(frozen=True)
class PublicSet:
    """A data set with its mirrors; ``marker`` is a file that a complete copy has, ``md5`` that of the archive if published."""

    name: str
    what: str
    urls: Sequence[str]
    marker: str
    license: str
    md5: str | None = None

    @property
    def mirrors(self) -> tuple[str, ...]:
        """URLs in the order in which they are tried: https first, plain http only where a checksum is known."""
        plain = [url for url in self.urls if url.startswith("http:") and self.md5]
        return tuple(dict.fromkeys([*(re.sub("^http:", "https:", url) for url in self.urls), *plain]))


_FACTS = json.loads(Path(__file__).with_name("public_sets.json").read_text(encoding="utf-8"))
SETS = Registry("public set", {name: PublicSet(name, **facts) for name, facts in _FACTS.items()})


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
            raise UserError(f"{data_dir} holds no complete copy of {name}: no {wanted.marker} in it or a folder below")
        return found
    target = files.cache_folder(name)
    archives = files.cache_folder("archives")
    with files.exclusive_writer(archives / name):
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
            unpack(archive, temporary)
            root = _root_of(wanted, temporary)
            if root is None:
                raise UserError(f"the archive is not {wanted.name}: it holds no {wanted.marker}")
    except UserError:
        archive.unlink()
        raise
    return target / root.relative_to(temporary)


def _root_of(wanted: PublicSet, folder: Path) -> Path | None:
    """Return ``folder``, or the folder directly below it, that holds the marker."""
    if not folder.is_dir():
        return None
    places = [folder, *sorted(path for path in folder.iterdir() if path.is_dir())]
    return next((place for place in places if (place / wanted.marker).exists()), None)
