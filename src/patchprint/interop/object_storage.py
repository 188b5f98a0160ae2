"""Files in object storage, by URL: s3://BUCKET/FOLDER, gs://... and other protocols of fsspec.

fsspec finds the package of a protocol (s3fs, gcsfs, adlfs), which finds its credentials.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from patchprint.common.errors import MissingPackageError, UserError, require


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
    """Turn all errors of a store into UserError with the URL; each store has its own exceptions."""
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
        raise UserError(f"{url} cannot be read: {said}; check URL, credentials and network") from error
