"""The photos of a list, out of a repository that holds them."""

import subprocess

import cv2
import numpy as np

from patchprint.interop.image_files import read_gray
from perf.release.wild_photos import name_of, unpack


def test_pictures_come_from_the_commit_of_the_list_and_what_is_missing_is_named(tmp_path) -> None:
    repository = tmp_path / "mirrors" / "someone+photos"
    (repository / "a folder").mkdir(parents=True)
    picture = np.random.default_rng(0).integers(0, 255, (90, 120), dtype=np.uint8)
    cv2.imwrite(str(repository / "a folder" / "one.PNG"), picture)

    def git(*arguments: str) -> str:
        who = ["-c", "user.name=a", "-c", "user.email=a@b"]
        return subprocess.run(
            ["git", *who, *arguments], cwd=repository, check=True, capture_output=True, text=True
        ).stdout

    git("init", "--quiet")
    git("add", ".")
    git("commit", "--quiet", "-m", "one")
    commit = git("rev-parse", "HEAD").strip()
    git("rm", "--quiet", "-r", ".")
    git("commit", "--quiet", "-m", "gone")
    names = ["a_folder_one.jpg", "two.jpg"]
    sources = [{"repository": "someone/photos", "commit": commit, "names": names}]
    sources.append({"repository": "nobody/nothing", "commit": commit, "names": names})
    missing = unpack({"longest_side": 60, "sources": sources}, tmp_path / "mirrors", tmp_path / "out", parts=2)
    assert missing == ["two.jpg in someone/photos", "a copy of nobody/nothing"]
    (found,) = (tmp_path / "out").rglob("*.jpg")
    assert found == tmp_path / "out" / "1" / "someone+photos+a_folder_one.jpg"
    assert read_gray(found).shape == (45, 60)


def test_a_name_is_the_path_as_one_word() -> None:
    assert name_of("images/DSC_0005 (2).v2.JPG") == "images_DSC_0005_2_.v2.jpg"
    assert name_of(f"{'folder/' * 20}one.png") == f"{('folder_' * 20)[-57:]}one.jpg"
