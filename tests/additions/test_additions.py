"""CONTRIBUTING.md says which files a loss, a network, a benchmark, a detector, a matcher or a study takes: these are enough.

One of each is added to one copy of the repository: the files in ``tree/``, the lines in ``LINES``, the study that the
documents show. Then the tests that run over the registries find them, and those of documents, site and layers stay green.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

from support.checkout import ROOT
from support.documents import blocks

pytestmark = pytest.mark.slow

pytest.importorskip("skimage", reason="the images of the short training come with scikit-image")

TREE = Path(__file__).parent / "tree"
COPIED = (
    *("src", "tests", "docs", "tools", "perf", "examples"),
    *("pyproject.toml", "mkdocs.yml", "Makefile", "constraints.txt", "CITATION.cff"),
    *sorted(file.name for file in ROOT.glob("*.md")),
)
# By file: a line that is there once, and what goes in front of it.
LINES = {
    "src/patchprint/losses/__init__.py": ('        "exp-tl":', '        "yours": "yours:YoursLoss",\n'),
    "src/patchprint/networks/network.py": ('        "tfeat":', '        "yours": "yours:Yours",\n'),
    "src/patchprint/training/recipes.py": (
        '_add(\n    "hardnet-gor"',
        '_add("yours", "HardNet\'s network with the added loss.", "hardnet", loss="yours")\n',
    ),
}
STUDY = "src/patchprint/studies/yours.py"
CURVES = {
    "tests/losses/curves/yours.json": ["tests/support/loss_training.py", "yours"],
    "tests/training/curves/yours.json": ["tests/support/pinned_curves.py", "yours"],
}
TESTS = (
    *("benchmarks", "cli/test_eval.py", "detectors", "interop/test_onnx.py", "losses", "matching", "networks"),
    *("studies/test_studies.py", "training/test_recipes.py", "docs/test_site.py"),
    "test_architecture.py",
)
CHOSEN = (
    "yours or your-margins or (test_detectors and mask) or (test_benchmark and key) or (test_matchers and tiny)"
    " or test_architecture or (test_site and not site_builds)"
)
# PyTorch and oneDNN compute as any processor can, which has none older to be compared with; the tests run on this one.
OLDEST_PROCESSOR = {"ATEN_CPU_CAPABILITY": "default", "ONEDNN_MAX_CPU_ISA": "SSE41"}
# Scripts in one process, which imports torch once.
RUN_SCRIPTS = """
import json, runpy, sys
for sys.argv in json.loads(sys.argv[1]):
    runpy.run_path(sys.argv[0], run_name="__main__")
"""
RUN_TESTS = """
import sys, pytest, torch
from patchprint.training import assembly, resolve
for settings, rate in ({}, 0.1), ({"loss_settings": {"rate": 0.2}}, 0.2):
    assert assembly.create(resolve("yours", steps=100, **settings), torch.device("cpu")).loss.rate == rate
sys.exit(pytest.main(sys.argv[1:]))
"""


def test_what_contributing_says_is_enough(tmp_path: Path) -> None:
    for name in COPIED:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, tmp_path / name)
    (tmp_path / "results").symlink_to(ROOT / "results")
    shutil.rmtree(tmp_path / "tests" / "additions")
    before = _contents(tmp_path)
    for file in _files(TREE):
        shutil.copy(TREE / file, tmp_path / file)
    for name, (place, line) in LINES.items():
        text = (tmp_path / name).read_text()
        assert text.count(place) == 1, f"{place!r} is {text.count(place)} times in {name}"
        (tmp_path / name).write_text(text.replace(place, line + place))
    page = blocks(ROOT / "docs" / "evidence" / "studies.md")
    (study,) = (block.code for block in page if block.language == "python" and "\nSTUDIES = " in block.code)
    (tmp_path / STUDY).write_text(study)
    _python(tmp_path, ["-c", RUN_SCRIPTS, json.dumps(list(CURVES.values()))], OLDEST_PROCESSOR)
    tests = [f"tests/{name}" for name in TESTS]
    _python(tmp_path, ["-c", RUN_TESTS, "-q", "-p", "no:cacheprovider", "-n", "0", *tests, "-k", CHOSEN])
    after = _contents(tmp_path)
    touched = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    assert touched == {*_files(TREE), *LINES, STUDY, *CURVES}


def _python(folder: Path, arguments: list[str], settings: Mapping[str, str] = MappingProxyType({})) -> None:
    environment = {**os.environ, "PYTHONPATH": str(folder / "src"), "PYTHONDONTWRITEBYTECODE": "1", **settings}
    done = subprocess.run([sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(arguments)}\n{done.stdout[-4000:]}\n{done.stderr[-2000:]}"


def _files(folder: Path) -> list[str]:
    found = (
        path for path in folder.rglob("*") if path.is_file() and not {"__pycache__", ".hypothesis"} & {*path.parts}
    )
    return [path.relative_to(folder).as_posix() for path in found]


def _contents(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in _files(folder)}
