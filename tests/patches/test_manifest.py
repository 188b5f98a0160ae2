"""The list of files in a store, and their checksums."""

import pytest

from patchprint.patches import manifest
from support.stores import write_patches


def test_checksums_are_verified_on_demand(tmp_path, patches):
    write_patches(tmp_path / "s", patches)
    manifest.verify(tmp_path / "s")
    with open(tmp_path / "s" / "patches.npy", "r+b") as stream:
        stream.seek(5000)
        stream.write(b"\1\2\3\4")
    with pytest.raises(ValueError, match=r"patches.npy does not have the checksum"):
        manifest.verify(tmp_path / "s")
