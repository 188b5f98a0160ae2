"""Optional packages: code asks for the extra that brings what it needs; parsing."""

import ast
import errno
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from patchprint.common import errors
from patchprint.common.errors import MissingPackageError, UserError, parsing, require
from support.checkout import ROOT
from support.distributions import installed_for, modules_of


def asked_for() -> Iterator[tuple[str, str | None]]:
    """Module and extra of every call of ``require`` in the package that spells them out."""
    for file in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "require":
                words = [*node.args, *(keyword.value for keyword in node.keywords)]
                if len(words) == 2 and all(isinstance(word, ast.Constant) for word in words):
                    yield tuple(word.value for word in words)  # type: ignore[misc, attr-defined]


def test_the_sentence_names_an_extra_that_brings_the_module() -> None:
    calls = set(asked_for())
    assert len(calls) > 15
    for extra in {extra for _, extra in calls} - {None}:  # without one pip installs the module by its own name
        brought = modules_of(installed_for([Requirement(f"patchprint[{extra}]")]))
        for module in {module.partition(".")[0] for module, other in calls if other == extra}:
            assert module in brought, f"pip install 'patchprint[{extra}]' does not bring {module}"


def test_the_sentence() -> None:
    with pytest.raises(MissingPackageError, match=r"this needs the package 'nosuch': pip install 'patchprint\[sfm\]'"):
        require("nosuch", extra="sfm")
    with pytest.raises(MissingPackageError, match=r"this needs the package 'nosuch.part': pip install nosuch$"):
        require("nosuch.part", extra=None)


def test_a_package_that_is_there_and_broken_is_not_called_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_package.py").write_text("import nosuch_dependency")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ModuleNotFoundError, match="nosuch_dependency"):
        require("broken_package", extra="sfm")


def test_h2_the_telemetry_of_a_package_looks_uninstalled_while_it_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "reporter.py").write_text("reports = True")
    (tmp_path / "reporting_package.py").write_text(
        "try:\n    import reporter\nexcept ImportError:\n    reporter = None\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(errors, "_TELEMETRY", {"reporting_package": "reporter"})
    assert require("reporting_package", extra=None).reporter is None
    assert importlib.import_module("reporter").reports, "the user may have it for a program of their own"


@pytest.mark.parametrize(
    "error", [KeyError("x"), IndexError(), TypeError("no"), RuntimeError("a\nb"), MemoryError(), RecursionError("deep")]
)
def test_any_error_of_a_parser_is_one_sentence_with_the_name(error: Exception) -> None:
    with (
        pytest.raises(UserError, match=r"^a\.bin is not a thing, or damaged \(.+\); copy or make it again$") as caught,
        parsing("a.bin", "a thing"),
    ):
        raise error
    assert caught.value.__cause__ is error
    assert "\n" not in str(caught.value)


def test_sentences_keep_their_words_and_get_the_name_once() -> None:
    with pytest.raises(UserError, match=r"^a\.bin: it is wrong$"), parsing("a.bin", "a thing"):
        raise UserError("it is wrong")
    with pytest.raises(UserError, match=r"^a\.bin is wrong$"), parsing("a.bin", "a thing"):
        raise UserError("a.bin is wrong")
    with pytest.raises(MissingPackageError, match=r"^install it$"), parsing("a.bin", "a thing"):
        raise MissingPackageError("install it")


def test_faults_of_the_disk_stay_faults_of_the_disk() -> None:
    with pytest.raises(OSError, match=r"a\.bin"), parsing("a.bin", "a thing"):
        raise OSError(errno.EIO, "Input/output error")
    with pytest.raises(PermissionError), parsing("a.bin", "a thing"):
        raise PermissionError(errno.EACCES, "Permission denied", "a.bin")
    # What zipfile does where an offset in the file is negative.
    with pytest.raises(UserError, match="damaged"), parsing("a.bin", "a thing"):
        raise OSError(errno.EINVAL, "Invalid argument")
