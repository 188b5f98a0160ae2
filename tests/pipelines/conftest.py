"""A model of three of four photos, as ``patchprint sfm`` leaves it."""

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
    from patchprint.features.extract import DescribeSettings
    from patchprint.interop.colmap_database import Cameras
    from patchprint.pipelines.structure_from_motion import SfmSettings, sfm

    three = room_photos.parent / "three"
    three.mkdir()
    for number in range(3):
        (three / f"view-{number}.png").write_bytes((room_photos / f"view-{number}.png").read_bytes())
    out = room_photos.parent / "model"
    describe = DescribeSettings(model="rootsift", detector="colmap", max_keypoints=500)
    settings = SfmSettings(describe=describe, cameras=Cameras(single_camera=True))
    sfm(three, out, settings, report=lambda text: None)
    return out
