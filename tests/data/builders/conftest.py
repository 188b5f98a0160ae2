"""A COLMAP model of a wall."""

import pytest

from support.small_sfm import write_model


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    root = tmp_path_factory.mktemp("sfm") / "wall"
    return root, *write_model(root)
