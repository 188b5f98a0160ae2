"""``patchprint data`` from the command line: exit codes, JSON, contact sheets."""

import inspect
import json
import re

import cv2
import numpy as np
import pytest

from patchprint.cli import main
from patchprint.data.builders import BUILDERS
from support.labeled_sets import pack, write_cub
from support.small_sfm import write_model


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    root = tmp_path_factory.mktemp("data")
    write_model(root / "wall")
    assert main(["data", "build", "colmap", str(root / "wall"), str(root / "store")]) == 0
    return root / "store"


def test_build_reports_the_facts_of_the_store(tmp_path, capsys):
    shifts, points, _ = write_model(tmp_path / "wall", images=4)
    assert main(["data", "build", "colmap", str(tmp_path / "wall"), str(tmp_path / "out"), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert {"kind", "images", "points", "views", "scenes", "megabytes"} <= set(facts)
    assert facts["kind"] == "tracks" and facts["images"] == len(shifts) and facts["points"] == len(points)
    assert facts["views"] == 2 * len(points) and facts["views_per_point"] == 2.0 and facts["scenes"] == 1
    assert main(["data", "build", "colmap", str(tmp_path / "wall"), str(tmp_path / "out")]) == 2
    assert "exists already" in capsys.readouterr().err
    assert main(["data", "build", "colmap", str(tmp_path / "wall"), str(tmp_path / "out"), "--force", "--densify"]) == 0


def test_info_and_contact_sheet(store, tmp_path, capsys):
    assert main(["data", "info", str(store), "--preview", str(tmp_path / "sheet.png"), "--rows", "10", "--verify"]) == 0
    text = capsys.readouterr().out
    assert "views per point" in text and "megabytes" in text
    sheet = cv2.imread(str(tmp_path / "sheet.png"), cv2.IMREAD_GRAYSCALE)
    assert sheet is not None and sheet.shape[0] == 3 * 50 and np.ptp(sheet[:48, :48]) > 200


@pytest.mark.parametrize("kind", BUILDERS)
def test_a_builder_explains_each_of_its_flags(kind, capsys):
    assert main(["data", "build", kind, "--help"]) == 0
    shown = " ".join(capsys.readouterr().out.replace("│", " ").replace("|", " ").split())
    for name in inspect.signature(BUILDERS[kind]).parameters:
        text = re.search(rf"\n +{name}: (.*)", BUILDERS[kind].__doc__)
        assert text is not None and " ".join(text[1].split()) in shown, name
        assert name in ("src", "out") or f"--{name.replace('_', '-')}" in shown


def test_labeled_images_are_a_kind_of_data(tmp_path, capsys):
    archive = pack(write_cub(tmp_path / "CUB_200_2011", classes=6), "tar.gz")
    assert main(["data", "build", "images", str(archive), str(tmp_path / "out"), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts.pop("megabytes") > 0
    assert facts == {
        "kind": "images",
        "images": 18,
        "classes": 6,
        "train_classes": 2,
        "val_classes": 1,
        "test_classes": 3,
        "single_image_classes": 0,
    }
    sheet = tmp_path / "sheet.png"
    assert main(["data", "info", str(tmp_path / "out"), "--preview", str(sheet), "--rows", "4", "--verify"]) == 0
    assert "train classes" in capsys.readouterr().out
    assert cv2.imread(str(sheet), cv2.IMREAD_UNCHANGED).shape[2] == 3
    assert main(["data", "build", "images", str(sheet), str(tmp_path / "no")]) == 2
    error = capsys.readouterr().err
    assert "sheet.png is not a zip or tar" in error and len(error.strip().splitlines()) == 1
    assert not (tmp_path / "no").exists()


def test_download_lists_sets_and_finds_a_copy(tmp_path, capsys):
    assert main(["data", "download", "--json"]) == 0
    names = [each["name"] for each in json.loads(capsys.readouterr().out)]
    assert "phototour-liberty" in names and "hpatches" in names
    (tmp_path / "info.txt").write_text("1 0\n")
    assert main(["data", "download", "phototour-liberty", "--data-dir", str(tmp_path)]) == 0
    assert capsys.readouterr().out.strip() == str(tmp_path)
