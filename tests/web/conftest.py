"""Two images that match, files that are no images, and a server that runs."""

import re
from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np
import pytest

from support.checkout import SHARED
from support.known_images import texture, turned
from support.serving import Served, serving


@pytest.fixture(scope="session")
def images(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """An image and a rotated copy of it. Not to be written to."""
    folder = tmp_path_factory.mktemp("two")
    image = texture(240, 280)
    for name, each in (("a.png", image), ("b.png", turned(image, 15)[0])):
        cv2.imwrite(str(folder / name), each)
    return folder / "a.png", folder / "b.png"


@pytest.fixture(scope="session")
def bad_files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """By the words of the sentence that each must get."""
    folder = tmp_path_factory.mktemp("bad")
    (folder / "notes.jpg").write_text("These are notes.\n" * 50)
    (folder / "empty.jpg").write_bytes(b"")
    cv2.imwrite(str(folder / "huge.png"), np.zeros((10_000, 10_000), np.uint8), [cv2.IMWRITE_PNG_COMPRESSION, 1])
    return {
        "notes.jpg is not an image": folder / "notes.jpg",
        "empty.jpg is empty": folder / "empty.jpg",
        "huge.png has 10000x10000 pixels": folder / "huge.png",
    }


@pytest.fixture(scope="session")
def real_pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two images of Oxford's graf, or where they are missing an image and a warped copy. Not to be written to."""
    graf = SHARED / "data" / "oxford" / "graf"
    if graf.is_dir():
        return graf / "img1.png", graf / "img3.png"
    from patchprint.data.builders.bundled_images import image
    from patchprint.data.builders.homographies import render_views

    folder = tmp_path_factory.mktemp("coffee")
    for number, view in enumerate(render_views(image("coffee"), count=1, seed=0), 1):
        cv2.imwrite(str(folder / f"img{number}.png"), view.image)
    return folder / "img1.png", folder / "img2.png"


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """``patchprint serve`` as it is by default; whatever it did wrong fails in the end."""
    with serving(tmp_path_factory.mktemp("server"), "--device", "cpu") as made:
        yield made
        assert not re.search("Traceback|worker ended", "".join(made.stderr_lines)), "".join(made.stderr_lines)
        assert made.contacted.read_text() == ""
