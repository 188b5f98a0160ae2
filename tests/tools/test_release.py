"""A release is built from a clean tree with a tag, says what is in it, and is the same each time."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest

from patchprint.common.errors import UserError
from patchprint.networks import weights
from support.checkout import ROOT
from support.network_patches import trained_looking
from tools import release

pytest.importorskip("hatchling")
pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A small package with the version 1.2.3 and its tag."""
    root = tmp_path / "repository"
    (root / "src" / "patchprint").mkdir(parents=True)
    (root / "src" / "patchprint" / "__init__.py").write_text('__version__ = "1.2.3"\n')
    info = weights.list_weights()[0]
    weights.save(trained_looking("tfeat", width=4), root / "src" / "patchprint" / "tiny.safetensors")
    weights.rewrite_info(root / "src" / "patchprint" / "tiny.safetensors", info)
    for name in ("pyproject.toml", "README.md", "LICENSE", "MODELS.md"):
        shutil.copy(ROOT / name, root)
    (root / "CITATION.cff").write_text("version: 1.2.3\n")
    (root / "CHANGELOG.md").write_text("## [Unreleased]\n\n## [1.2.3] - 2026-11-19\n")
    (root / ".gitignore").write_text("/dist/\n")
    git(root, "init", "--quiet")
    commit(root)
    git(root, "tag", "v1.2.3")
    return root


def git(root: Path, *arguments: str) -> None:
    who = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    subprocess.run(["git", "-C", str(root), *who, *arguments], check=True, capture_output=True)


def commit(root: Path) -> None:
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--allow-empty", "--message", "a change")


def test_the_files_of_a_release(repository: Path, tmp_path: Path) -> None:
    (repository / "dist").mkdir()
    (repository / "dist" / "sbom.cdx.json").write_text("{}")
    made = release.release(repository, repository / "dist", with_site=False)
    wheel, source, packages, sums = made
    with zipfile.ZipFile(wheel) as archive, tarfile.open(source) as tape:
        names = set(archive.namelist())
        assert {"patchprint/tiny.safetensors", "patchprint-1.2.3.dist-info/licenses/MODELS.md"} <= names
        assert "Version: 1.2.3" in archive.read("patchprint-1.2.3.dist-info/METADATA").decode()
        assert "patchprint-1.2.3/src/patchprint/tiny.safetensors" in tape.getnames()
    lines = dict(line.split("  ")[::-1] for line in sums.read_text().splitlines())
    assert lines == {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in (wheel, source, packages)}
    again = release.release(repository, tmp_path / "again", with_site=False)
    assert [file.read_bytes() for file in again[:2]] == [wheel.read_bytes(), source.read_bytes()]


def test_only_a_clean_tree_with_its_tag_is_released(repository: Path, tmp_path: Path) -> None:
    def refused(message: str) -> None:
        with pytest.raises(UserError, match=message):
            release.release(repository, tmp_path / "out", with_site=False)
        assert not (tmp_path / "out").exists()

    (repository / "new.txt").touch()
    refused(r"not clean.*\n.*new\.txt")
    commit(repository)
    refused(r"no tag.*tag it v1\.2\.3")
    git(repository, "tag", "v1.2.4")
    refused(r"the tag v1\.2\.4, and .* the version 1\.2\.3")
    for file, wrong, message in (
        ("CITATION.cff", "version: 1.2.2\n", r"CITATION\.cff has the version 1\.2\.2"),
        ("CHANGELOG.md", "## [Unreleased]\n", r"CHANGELOG\.md has no line like"),
    ):
        right = (repository / file).read_text()
        (repository / file).write_text(wrong)
        commit(repository)
        git(repository, "tag", "--force", "v1.2.3")
        refused(message)
        (repository / file).write_text(right)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("weights", "does not say its license"),
        ("none", "has no weights"),
        ("large", "more than 25"),
        ("lost", r"lacks MODELS\.md"),
        ("stray", "which is no part of the package"),
    ],
)
def test_a_wheel_with_something_wrong_is_refused(
    change: str, message: str, repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = repository / "src" / "patchprint"
    if change == "weights":
        weights.save(trained_looking("tfeat", width=4), place / "mine.safetensors")
    elif change == "none":
        (place / "tiny.safetensors").unlink()
    elif change == "large":
        monkeypatch.setattr(release, "MAX_WHEEL", 1000)
        message = message.replace("25", r"0\.001")
    elif change == "lost":
        (repository / "MODELS.md").unlink()
    else:
        (repository / "src" / "other").mkdir()
        (repository / "src" / "other" / "__init__.py").touch()
        project = (repository / "pyproject.toml").read_text("utf-8")
        (repository / "pyproject.toml").write_text(
            project.replace('packages = ["src/patchprint"]', 'packages = ["src/patchprint", "src/other"]'), "utf-8"
        )
    commit(repository)
    git(repository, "tag", "--force", "v1.2.3")
    with pytest.raises(UserError, match=message):
        release.release(repository, tmp_path / "out", with_site=False)


def test_the_package_of_this_checkout_says_what_it_must() -> None:
    """What `check_wheel` asks of weights holds for those that are shipped, and the checklist names the command."""
    for path in sorted((ROOT / "src").rglob("*.safetensors")):
        about, _ = weights.read_safetensors(path)
        assert "Apache-2.0" in about["license"] and re.search('"data": "[^"]{10,}', about["training"]), path
    assert "make release" in (ROOT / "CONTRIBUTING.md").read_text("utf-8")
