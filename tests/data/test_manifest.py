"""The list of files in a store, and their checksums."""

import pytest

from patchprint.data import manifest
from support.stores import write_patches


def test_checksums_are_verified_on_demand(tmp_path, patches):
    write_patches(tmp_path / "s", patches)
    manifest.verify(tmp_path / "s")
    with open(tmp_path / "s" / "patches.npy", "r+b") as stream:
        stream.seek(5000)
        stream.write(b"\1\2\3\4")
    with pytest.raises(ValueError, match=r"patches.npy does not have the checksum"):
        manifest.verify(tmp_path / "s")


def test_a_store_of_an_older_version_says_what_to_do(tmp_path, patches):
    """Version 2 kept the published test part as "val", on which weights are chosen."""
    write_patches(tmp_path / "s", patches)
    file = tmp_path / "s" / manifest.NAME
    file.write_text(file.read_text().replace(f'"version": {manifest.VERSION}', '"version": 2'))
    with pytest.raises(ValueError, match=r"has version 2, this patchprint reads version 3; build the store again"):
        manifest.read(tmp_path / "s")
