"""Try an addition on a copy of the repository: write its files, and let the tests that run over a registry find it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

ROOT = Path(__file__).resolve().parents[2]
COPIED = (
    *("src", "tests", "docs", "tools", "perf", "examples"),
    *("pyproject.toml", "mkdocs.yml", "Makefile", "constraints.txt", "CITATION.cff"),
    *sorted(file.name for file in ROOT.glob("*.md")),
)
LINKED = ("results",)  # read only

# Tests that look over the whole repository, so that nothing else may ask for a further edit: run in every trial.
OVERALL = ("docs/test_mentions.py", "docs/test_site.py", "test_architecture.py")

New = str | Callable[[str], str]
"""The text of a new file, or what makes the new text of a file that is there from its old one."""


# PyTorch and oneDNN compute as any processor can, which has none older to be compared with; the tests run on this one.
OLDEST_PROCESSOR = {"ATEN_CPU_CAPABILITY": "default", "ONEDNN_MAX_CPU_ISA": "SSE41"}

# Scripts in one process, which imports torch once.
ONE_AFTER_THE_OTHER = """
import json, runpy, sys
for sys.argv in json.loads(sys.argv[1]):
    runpy.run_path(sys.argv[0], run_name="__main__")
"""


def trial(
    folder: Path,
    files: dict[str, New],
    run: Sequence[str],
    keyword: str,
    curves: Sequence[list[str]] = (),
    check: str = "",
    build_site: bool = False,
) -> list[str]:
    """Copy the repository into ``folder``, add ``files``, and run pytest there; fails where a test does or none is found.

    Args:
        files: by path from the root of the repository.
        run: files and folders of tests, besides those in OVERALL.
        keyword: which of the tests in ``run``, as pytest's ``-k``.
        build_site: also build the documents.
        curves: scripts that come before it and pin a curve, with their arguments.
        check: a program that comes before it, in the same process.

    Returns:
        every file of the copy that differs from the repository's, sorted: what the addition touched.
    """
    _copy(folder)
    before = _contents(folder)
    for name, new in files.items():
        path = folder / name
        text = new if isinstance(new, str) else new(path.read_text())
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    if curves:
        _python(folder, ["-c", ONE_AFTER_THE_OTHER, json.dumps(curves)], OLDEST_PROCESSOR)
    overall = [f"tests/{name}" for name in OVERALL]
    looking_over = " or ".join(Path(name).stem for name in OVERALL)
    chosen = f"({keyword}) or (({looking_over}) {'' if build_site else 'and not site_builds'})"
    tests = ["-q", "-p", "no:cacheprovider", "-n", "0", *run, *overall, "-k", chosen]
    _python(folder, ["-c", f"{check}\nimport sys, pytest\nsys.exit(pytest.main(sys.argv[1:]))", *tests])
    after = _contents(folder)
    return sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))


def after(line: str, addition: str) -> Callable[[str], str]:
    """An edit that puts ``addition`` below the one line that starts with ``line`` (without its indentation)."""

    def edit(text: str) -> str:
        lines = text.splitlines(keepends=True)
        places = [number for number, content in enumerate(lines) if content.strip().startswith(line)]
        assert len(places) == 1, f"{line!r} starts {len(places)} lines"
        lines.insert(places[0] + 1, addition)
        return "".join(lines)

    return edit


def edits(*changes: Callable[[str], str]) -> Callable[[str], str]:
    """Several edits of one file, one after the other."""

    def edit(text: str) -> str:
        for change in changes:
            text = change(text)
        return text

    return edit


def _copy(folder: Path) -> None:
    for name in COPIED:
        source, target = ROOT / name, folder / name
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)
    for name in LINKED:
        (folder / name).symlink_to(ROOT / name)


def _python(folder: Path, arguments: list[str], settings: Mapping[str, str] = MappingProxyType({})) -> None:
    environment = {**os.environ, "PYTHONPATH": str(folder / "src"), "PYTHONDONTWRITEBYTECODE": "1", **settings}
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, f"{' '.join(arguments)}\n{done.stdout[-4000:]}\n{done.stderr[-2000:]}"


def _contents(folder: Path) -> dict[str, bytes]:
    files = (path for name in COPIED for path in [folder / name, *(folder / name).rglob("*")] if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files if ".hypothesis" not in path.parts}
