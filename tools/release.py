"""Build a release from the tag at HEAD: wheel, source distribution, documents, list of packages, and checksums of all.

    python -m tools.release [--out dist]

The tag ``vX.Y.Z`` must name the version of ``src/patchprint/__init__.py``, its only place, and the tree must be clean.
What is committed is built in a folder of its own, with the time of the commit for all files, so that the same tag gives the
same bytes of both distributions. ``OUT/sbom.cdx.json``, of ``make sbom``, is part of the release where it is there.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

from patchprint.common import files
from patchprint.common.errors import UserError
from patchprint.common.provenance import sha256_of_file

ROOT = Path(__file__).resolve().parents[1]
MAX_WHEEL = 25e6  # bytes
SUMS = "SHA256SUMS"
_VERSION = re.compile(r'^__version__ = "(.+)"$', re.MULTILINE)


def release(root: Path, out: Path, with_site: bool = True) -> list[Path]:
    """Build and check a release; returns its files, the checksums last.

    Args:
        root: the repository.
        out: folder for the files.
        with_site: also build the documents, which need the extra docs.
    """
    version = tagged_version(root)
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="patchprint-release-") as folder:
        archive, copy = Path(folder) / "committed.tar", Path(folder) / f"patchprint-{version}"
        git(root, "archive", "--output", str(archive), "HEAD")
        with tarfile.open(archive) as committed:
            committed.extractall(copy, filter="data")
        made = build(copy, out.resolve(), version, int(git(root, "log", "-1", "--format=%ct")), with_site)
    check_wheel(made[0])
    made += [path for path in [out / "sbom.cdx.json"] if path.is_file()]
    files.write_text(out / SUMS, "".join(f"{sha256_of_file(path)}  {path.name}\n" for path in made))
    return [*made, out / SUMS]


def tagged_version(root: Path) -> str:
    """Return the version that the tag at HEAD names; raises UserError where it cannot be released."""
    changed = git(root, "status", "--porcelain")
    if changed:
        raise UserError(f"the tree is not clean; commit or stash first:\n{changed}")
    version = find(_VERSION, root / "src" / "patchprint" / "__init__.py")
    tags = git(root, "tag", "--points-at", "HEAD").split()
    if f"v{version}" not in tags:
        there = f"the tag {', '.join(tags)}" if tags else "no tag"
        raise UserError(f"HEAD has {there}, and src/patchprint/__init__.py the version {version}; tag it v{version}")
    cited = find(re.compile(r"^version: (.+)$", re.MULTILINE), root / "CITATION.cff")
    if cited != version:
        raise UserError(f"CITATION.cff has the version {cited}, src/patchprint/__init__.py {version}")
    find(re.compile(rf"^## \[({re.escape(version)})\] - \d{{4}}-\d\d-\d\d$", re.MULTILINE), root / "CHANGELOG.md")
    return version


def build(copy: Path, out: Path, version: str, time: int, with_site: bool) -> list[Path]:
    """Build wheel, source distribution and documents from a clean copy."""
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(time), "NO_MKDOCS_2_WARNING": "1"}
    environment["PYTHONPATH"] = str(copy / "src")
    for target in ("wheel", "sdist"):
        run = [sys.executable, "-m", "hatchling", "build", "--target", target, "--directory", str(out)]
        subprocess.run(run, cwd=copy, env=environment, check=True, stdout=sys.stderr)
    made = [out / f"patchprint-{version}-py3-none-any.whl", out / f"patchprint-{version}.tar.gz"]
    if with_site:
        run = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(copy / "site")]
        subprocess.run(run, cwd=copy, env=environment, check=True)
        made.append(out / f"patchprint-{version}-site.tar.gz")
        with files.atomic_file(made[-1]) as temporary, tarfile.open(temporary, "w:gz") as archive:
            archive.add(copy / "site", "site")
    return made


def check_wheel(wheel: Path) -> None:
    """Raise UserError for a wheel that is too large, holds what it should not, or weights without license or training data."""
    if wheel.stat().st_size > MAX_WHEEL:
        raise UserError(f"{wheel} has {wheel.stat().st_size / 1e6:.1f} MB, more than {MAX_WHEEL / 1e6:g}")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        foreign = [name for name in names if not re.match(r"patchprint(-[^/]+\.dist-info)?/", name)]
        if foreign:
            raise UserError(f"{wheel} holds {foreign[0]}, which is no part of the package")
        for needed in ("LICENSE", "MODELS.md"):
            if not any(name.endswith(f".dist-info/licenses/{needed}") for name in names):
                raise UserError(f"{wheel} lacks {needed}")
        weights = [name for name in names if name.endswith(".safetensors")]
        if not weights:
            raise UserError(f"{wheel} has no weights")
        for name in weights:
            data = archive.read(name)
            about = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])["__metadata__"]
            if not about.get("license", '""').strip('"') or not json.loads(about.get("training", "{}")).get("data"):
                raise UserError(f"{name} in {wheel} does not say its license, or on what it was trained")


def find(pattern: re.Pattern[str], path: Path) -> str:
    """Return what a pattern finds in a file; raises UserError where it finds nothing."""
    found = pattern.search(path.read_text(encoding="utf-8"))
    if found is None:
        raise UserError(f"{path} has no line like {pattern.pattern}")
    return found[1]


def git(root: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise UserError(f"git {arguments[0]}: {done.stderr.strip()}")
    return done.stdout.strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    try:
        made = release(ROOT, parser.parse_args().out)
    except UserError as error:
        sys.exit(f"patchprint: {error}")
    for path in made:
        print(f"{path.stat().st_size / 1e6:8.2f} MB  {path}")


if __name__ == "__main__":
    main()
