"""Files in object storage, by URL: s3://BUCKET/FOLDER, gs://..., and whatever else fsspec knows.

fsspec finds the package of a protocol by itself (s3fs, gcsfs, adlfs), and that package its credentials.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from patchprint.common.errors import MissingPackageError, UserError
from patchprint.common.optional import require


def is_url(place: object) -> bool:
    """Whether a place is given as a URL; files and folders are not."""
    return isinstance(place, str) and "://" in place


def place_of(text: str) -> str | Path:
    """What was typed, as a URL or as a path."""
    return text if is_url(text) else Path(text)


def list_files(url: str | Path) -> list[str]:
    """Names of all files below a URL, relative to it."""
    with _reaching(url):
        store, root = _open(str(url))
        root = root.rstrip("/")
        found = store.find(root)
    if not found:
        raise UserError(f"there is nothing at {url}")
    return [name.removeprefix(root).lstrip("/") for name in found]


def read(url: str) -> bytes:
    """The contents of a file."""
    with _reaching(url):
        store, path = _open(url)
        return store.cat_file(path)


def _open(url: str) -> tuple[Any, str]:
    return require("fsspec.core", extra="cluster").url_to_fs(url)


@contextlib.contextmanager
def _reaching(url: str | Path) -> Iterator[None]:
    """Whatever a store throws becomes one sentence with the URL; each has exceptions of its own."""
    try:
        yield
    except MissingPackageError:
        raise
    except ImportError as error:
        raise MissingPackageError(f"{url} cannot be read: {error}") from error
    except FileNotFoundError as error:
        raise UserError(f"there is nothing at {url}") from error
    except Exception as error:
        said = " ".join(str(error).split())[:200] or type(error).__name__
        raise UserError(
            f"{url} cannot be read: {said}; check the URL, the credentials and the network of this machine"
        ) from error
