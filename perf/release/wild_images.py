"""Unpack the images in the wild that some weights were trained on, from copies of their repositories.

    python -m perf.release.wild_images --mirrors ../.mirror --out data/wild

``results/training/wild-photos.json`` names repositories, commits, licenses and images. A copy of ``owner/name`` is a git
folder ``MIRRORS/owner+name`` or ``MIRRORS/owner+name/repo``, with or without a work tree. Images are written in gray, at
most 1024 pixels a side, into as many folders as there are parts. A repository or image that is not there is named.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from tqdm import tqdm

from patchprint.common.errors import UserError, require
from patchprint.common.files import atomic_file
from patchprint.common.safe_io import read_json
from patchprint.interop.images import decode_gray, limit_size

LIST = Path("results/training/wild-photos.json")
QUALITY = 92
LONGEST_NAME = 60


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mirrors", type=Path, required=True)
    parser.add_argument("--list", type=Path, default=LIST)
    parser.add_argument("--parts", type=int, default=4)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    listed = read_json(arguments.list, "a list of photos")
    missing = unpack(listed, arguments.mirrors, arguments.out, arguments.parts)
    for each in missing:
        print(f"not found: {each}", file=sys.stderr)
    return 1 if missing else 0


def unpack(listed: dict[str, Any], mirrors: Path, out: Path, parts: int) -> list[str]:
    """Write the images of a list below ``out``; returns what was not found."""
    missing: list[str] = []
    number = 0
    for source in tqdm(listed["sources"], desc="repositories", disable=None):
        repository = git_folder(mirrors, source["repository"])
        if repository is None:
            missing.append(f"a copy of {source['repository']}")
            continue
        paths = {
            name_of(path): path for path in _git(repository, "ls-tree", "-r", "-z", "--name-only", source["commit"])
        }
        for name in source["names"]:
            if name not in paths:
                missing.append(f"{name} in {source['repository']}")
                continue
            content = read_blob(repository, source["commit"], paths[name])
            path = out / str(number % parts + 1) / f"{source['repository'].replace('/', '+')}+{name}"
            _write(content, path, listed["longest_side"])
            number += 1
    return missing


def name_of(path: str) -> str:
    """What an image of a repository is called in the list: its path as one plain word, of which the end is kept."""
    return re.sub(r"[^A-Za-z0-9._-]+", "_", str(Path(path).with_suffix("")))[-LONGEST_NAME:] + ".jpg"


def git_folder(mirrors: Path, repository: str) -> Path | None:
    """Where the copy of a repository lies."""
    place = mirrors / repository.replace("/", "+")
    return next((each for each in (place / "repo", place) if each.is_dir()), None)


def _write(content: bytes, path: Path, longest_side: int) -> None:
    cv2 = require("cv2", extra="images")
    picture = limit_size(decode_gray(content, path.name), longest_side)
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_file(path) as temporary:
        temporary.write_bytes(cv2.imencode(".jpg", picture, [cv2.IMWRITE_JPEG_QUALITY, QUALITY])[1].tobytes())


def _git(repository: Path, *arguments: str) -> list[str]:
    found = subprocess.run(["git", "-C", str(repository), *arguments], capture_output=True, check=False)
    if found.returncode:
        raise UserError(f"{repository}: git {arguments[0]} failed: {found.stderr.decode(errors='replace').strip()}")
    return found.stdout.decode(errors="surrogateescape").rstrip("\0").split("\0")


def read_blob(repository: Path, commit: str, path: str) -> bytes:
    shown = subprocess.run(["git", "-C", str(repository), "show", f"{commit}:{path}"], capture_output=True, check=False)
    if shown.returncode:
        raise UserError(f"{path} cannot be read from {repository}: {shown.stderr.decode(errors='replace').strip()}")
    return shown.stdout


if __name__ == "__main__":
    sys.exit(main())
