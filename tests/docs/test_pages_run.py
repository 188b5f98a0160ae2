"""Every Python block and every ``patchprint`` command of the documents runs as it stands, page by page, from top to bottom.

What a page serves is served by a process of its own until the page ends, at another port than the page says. A page runs in a
folder that holds what it speaks of: images, a scene, sequences, under the very names that it uses. What cannot
run here is marked in the page (``<!-- not run: REASON -->``) and read only; so are other programs (test_mentions.py).
"""

import contextlib
import glob
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import pytest

from patchprint import cli
from patchprint.networks.weights import WEIGHTS_FOLDER
from support.checkout import ROOT
from support.documents import DOCUMENTS, Block, blocks, name_of, without_redirection
from support.labeled_sets import pack, write_folders, write_in_shop
from support.scenes import Room, write_sequence
from support.serving import Served, curl, serving
from support.small_sfm import write_model

pytestmark = pytest.mark.usefixtures("small_calibration")
# Other programs: they need a network, a GPU, the images beside the repository, or minutes.
OTHERS = {"git", "cd", "pip", "make", "sh", "python", ".venv/bin/python"}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the pages take for granted."""
    folder = tmp_path_factory.mktemp("prepared")
    # Small: most of the time of a page goes into describing keypoints, of which these have some 200 each.
    names = Room(views=4, height=84, width=112, focal=98.0).write(folder / "IMAGES", "{}.jpg")
    for name, copies in zip(names, ("aA", "bB"), strict=False):
        for letter in copies:
            shutil.copy(folder / "IMAGES" / name, folder / f"{letter}.jpg")
    Room(views=5, height=84, width=112, focal=98.0).write(folder / "MORE", "{}.jpg")
    (folder / "MASKS").mkdir()
    for name in names:
        (folder / "MORE" / name).unlink()
        cv2.imwrite(str(folder / "MASKS" / f"{name}.png"), np.full((84, 112), 255, np.uint8))
    (folder / "pairs.txt").write_text(f"{names[0]} {names[1]}\n{names[1]} {names[2]}\n")
    write_model(folder / "SCENE")
    write_sequence(folder / "SEQUENCES" / "wall", images=6, side=100)
    pack(write_folders(folder / "cub200", [f"{number:03d}" for number in range(10)]), "zip")
    write_in_shop(folder / "inshop")
    shutil.copy(WEIGHTS_FOLDER / "patchprint.tiny.safetensors", folder / "tuned.safetensors")
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("file", [file for file in DOCUMENTS if any(blocks(file))], ids=name_of)
def test_the_page_runs(
    file: Path, prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "here"
    shutil.copytree(prepared, folder, symlinks=True)
    copy_results(file, folder)
    monkeypatch.chdir(folder)
    names: dict[str, object] = {}
    with contextlib.ExitStack() as stack:
        served: list[Served] = []
        for block in blocks(file):
            if block.language == "python" and not block.reason:
                exec(compile("\n" * (block.line - 1) + block.code, str(file), "exec"), names)
            elif not block.reason:
                run_commands(block, capsys, lambda: served.append(stack.enter_context(serving(tmp_path))), served)


def copy_results(file: Path, folder: Path) -> None:
    """Those folders of ``results/`` that the page's commands read."""
    code = "".join(block.code for block in blocks(file) if not block.reason)
    for name in set(re.findall(r"\bresults/([\w-]+)/", code)):
        if (ROOT / "results" / name).is_dir():
            shutil.copytree(ROOT / "results" / name, folder / "results" / name)


def run_commands(
    block: Block, capsys: pytest.CaptureFixture[str], serve: Callable[[], object], served: list[Served]
) -> None:
    for words in block.lines:
        while "=" in words[0]:  # VARIABLE=value in front of a command
            words = words[1:]
        if words[0] in OTHERS:
            continue
        if words == ["patchprint", "serve"]:
            serve()
            continue
        if words[0] == "curl":
            status, answer = curl(served[-1], words[1:])
            assert status == 200, answer
            continue
        assert words[0] == "patchprint", f"{words[0]} is neither run nor known; mark the block as not run"
        expanded = [found for word in without_redirection(words[1:]) for found in sorted(glob.glob(word)) or [word]]
        assert cli.main(expanded) == 0, f"{words}: {capsys.readouterr().err}"
