"""The tests stand as the source does: a test file for each module, helpers in one room."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.checkout import ROOT, TESTS

SOURCE = ROOT / "src" / "patchprint"
SMALL = 45  # lines; smaller modules are tested through what uses them

# Modules that are tested by a file of another name.
ELSEWHERE = {
    "benchmarks/rotation.py": "benchmarks/test_robustness.py",
    "benchmarks/scale.py": "benchmarks/test_robustness.py",
    "commands/adapt.py": "pipelines/test_adapt.py",
    "features/folder_on_cluster.py": "interop/test_ray_cluster.py",
    "features/photo_jobs.py": "features/test_folder.py",
    "pipelines/sfm.py": "commands/test_sfm.py",
    "patches/sources/sfm_scene.py": "patches/sources/test_colmap.py",
}


def modules() -> list[Path]:
    files = (file.relative_to(SOURCE) for file in SOURCE.rglob("*.py") if file.name != "__init__.py")
    return sorted(file for file in files if len((SOURCE / file).read_text(encoding="utf-8").splitlines()) > SMALL)


def names_of_tests(module: Path) -> list[str]:
    """A file named after the module, or after its room: networks, losses and detectors are asked over their registry."""
    room = module.parent
    own = room / f"test_{module.stem.strip('_')}.py"
    return [own.as_posix(), (room / f"test_{room.name}.py").as_posix()]


@pytest.mark.parametrize("module", modules(), ids=Path.as_posix)
def test_a_module_has_its_test_file(module: Path) -> None:
    places = [ELSEWHERE[module.as_posix()]] if module.as_posix() in ELSEWHERE else names_of_tests(module)
    assert any((TESTS / place).is_file() for place in places), f"none of {', '.join(places)} is there"


def test_exceptions_are_needed() -> None:
    for module in ELSEWHERE:
        assert Path(module) in modules(), f"{module} is gone, or small"
        assert not any((TESTS / place).is_file() for place in names_of_tests(Path(module))), module


def test_the_root_holds_tests_alone() -> None:
    assert [file.name for file in TESTS.glob("*.py") if not file.name.startswith("test_")] == ["conftest.py"]


def test_helpers_hold_no_tests() -> None:
    assert [file.name for file in (TESTS / "support").glob("test_*")] == []
