"""What the audit says of vulnerabilities and licenses; one that learned nothing does not look like a clean one."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from tools import audit

SBOM = {
    "components": [
        {"name": "one", "version": "1", "licenses": [{"license": {"id": "MIT"}}]},
        {"name": "two", "version": "2", "licenses": [{"license": {"name": "License :: OSI Approved :: BSD License"}}]},
        {"name": "three", "version": "3", "licenses": [{"expression": "MPL-2.0 AND MIT"}]},
        {"name": "protobuf", "version": "4"},
    ]
}


def report(*dependencies: dict[str, Any]) -> dict[str, Any]:
    return {"dependencies": list(dependencies)}


CLEAN = {"name": "one", "version": "1", "vulns": []}
SKIPPED = {"name": "two", "skip_reason": "not found"}
FOUND = {"name": "three", "version": "3", "vulns": [{"id": "CVE-1", "fix_versions": ["3.1"]}]}


def run(tmp_path: Path, sbom: dict[str, Any], answer: str) -> int:
    """The audit with a stand-in for pip-audit that gives ``answer``."""
    (tmp_path / "sbom.json").write_text(json.dumps(sbom))
    (tmp_path / "answer").write_text(answer)
    stand_in = tmp_path / "pip-audit"
    stand_in.write_text(f"#!/bin/sh\ncat {tmp_path / 'answer'}\necho no network >&2\n")
    stand_in.chmod(stand_in.stat().st_mode | stat.S_IXUSR)
    return audit.main([str(tmp_path / "sbom.json"), "--pip-audit", str(stand_in)])


def test_licenses_are_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, SBOM, json.dumps(report(CLEAN))) == 0
    out = capsys.readouterr().out
    assert "MIT: one 1\n" in out and "BSD License: two 2\n" in out and "BSD-3-Clause: protobuf 4\n" in out


@pytest.mark.parametrize("license", ["GPL-3.0-only", "AGPL-3.0", "LGPL-3.0", "my own", "MIT AND GPL-2.0"])
def test_other_licenses_fail(license: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    component = {"name": "strange", "version": "0", "licenses": [{"expression": license}]}
    assert run(tmp_path, {"components": [component]}, json.dumps(report(CLEAN))) == 1
    assert "nobody has looked at the licenses of strange 0" in capsys.readouterr().out


def test_no_license_fails(tmp_path: Path) -> None:
    assert run(tmp_path, {"components": [{"name": "bare", "version": "0"}]}, json.dumps(report(CLEAN))) == 1


def test_vulnerabilities_fail(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, SBOM, json.dumps(report(CLEAN, FOUND))) == 1
    assert "three 3: CVE-1, mended in 3.1\n1 known vulnerabilities in 2 of 2 packages\n" in capsys.readouterr().out


def test_what_could_not_be_checked_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """pip-audit skips what its database does not answer for, and then reports success."""
    assert run(tmp_path, SBOM, json.dumps(report(CLEAN, SKIPPED))) == 0
    said = capsys.readouterr().out
    assert "0 known vulnerabilities in 1 of 2 packages; of the others no database could be reached" in said


def test_no_answer_fails(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="pip-audit gave no answer: no network"):
        run(tmp_path, SBOM, "")
