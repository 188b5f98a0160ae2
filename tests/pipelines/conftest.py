"""A model of three of four photos, as ``patchprint sfm`` leaves it."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.scenes import Room

ROOM = Room(views=4, height=300, width=400, focal=360.0)


@pytest.fixture(scope="session")
def room_photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four photos, view-0.png to view-3.png. Not to be written to."""
    folder = tmp_path_factory.mktemp("room") / "all"
    ROOM.write(folder)
    return folder


@pytest.fixture(scope="session")
def room_model(room_photos: Path) -> Path:
    """The output of ``patchprint sfm`` on the first three of them. Not to be written to."""
    from patchprint.interop.colmap_database import Cameras
    from patchprint.pipelines.structure_from_motion import SfmPlan, images_to_model
    from patchprint.storage.feature_folder import DescribeSettings

    three = room_photos.parent / "three"
    three.mkdir()
    for number in range(3):
        (three / f"view-{number}.png").write_bytes((room_photos / f"view-{number}.png").read_bytes())
    out = room_photos.parent / "model"
    settings = DescribeSettings("rootsift", "colmap", 500)
    images_to_model(three, out, SfmPlan(settings, cameras=Cameras(single=True)), report=lambda text: None)
    return out
