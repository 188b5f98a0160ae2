"""All that is on record about reliability, in one file: ``python -m tools.reliability`` writes ``results/reliability.json``.

The tests in ``tests/faults/defects`` run against this tree, where they must pass, and against the commit whose review found
the defects, where each defect must make one of its tests fail. Faults, damaged files and load are what ``make faults``,
``make fuzz`` and ``make load`` wrote last.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from patchprint.common import files, provenance
from tools.markdown import read

ROOT = Path(__file__).resolve().parents[1]
TESTS = "tests/faults/defects"
REVIEWED = "d122da8"
PASSED = "passed"
DEFECTS = {
    "H1": "`--force` removed folders that patchprint did not make, photos among them",
    "H2": "a kill while a folder was replaced left neither the old nor the new one",
    "H3": "`opencv-yml` on a full disk: cut files, exit code 0",
    "H4": "`adapt` killed before its first checkpoint could never go on",
    "H5": "a COLMAP model cut by a full disk got its final name, and `sfm` refused it for ever",
    "H6": "a cut COLMAP model was read for ever, or with wrong cameras",
    "H7": "photos with a space in their name were matched with none by `--matching retrieval`",
    "M1": "killed after its last checkpoint, a run was said to be done without its weights",
    "M2": "a resumed run with `--average` ended with other counters",
    "M3": "the name in a weight file led `eval --out` out of its folder",
    "M4": "a wrong page of the first mirror was not followed by the second",
    "M5": "a training that diverged ended with SIGSEGV",
    "M6": "full disk: the error named no file, HDF5 ended the process at some sizes, SQLite's error was a traceback",
    "M7": "a small weight file that announced a huge network took gigabytes",
    "M8": "`sfm` wrote among the photos, and took its own picture for one",
    "M9": "without optional packages every command was a traceback",
    "M10": "errors of libraries were tracebacks",
    "L1": "one photo name that is not UTF-8 stopped `describe`",
    "L2": "a pipe or a device among the photos hung `describe`",
    "L3": "a database with an endless view was read for ever",
    "L4": "keypoints with an infinite angle, scale or frame were an IndexError",
    "L5": "one descriptor that is no number cost nearly all matches",
    "L6": "describing from threads took a network out of training",
    "L7": "a run was resumed with other data, or from a checkpoint with a flipped bit",
    "L8": "`--strength nan` never ended; a negative patch scale was trained with",
    "L9": "a line separator in a photo's name shifted the names of a store",
    "L10": "what killed runs left was never removed",
    "L11": "a child forked after use hung",
    "L12": "photos entered the database in the order in which threads were done",
}


def defects_of(test: str) -> list[str]:
    """The defects that a test is named after: ``test_l1_l9_odd_names`` shows L1 and L9."""
    found = re.search(r"::test_((?:[hml]\d+_)+)", test)
    return [word.upper() for word in found[1].strip("_").split("_")] if found else []


def read_outcomes(report: Path) -> dict[str, str]:
    """``passed``, or why not, by the name of each test in a JUnit report of pytest."""
    outcomes = {}
    for case in ET.parse(report).iter("testcase"):
        name = f"{case.attrib['classname'].replace('.', '/')}.py::{case.attrib['name']}"
        wrong = next(
            (found for kind in ("failure", "error", "skipped") if (found := case.find(kind)) is not None), None
        )
        outcomes[name] = PASSED if wrong is None else _reason(wrong)
    return outcomes


def _reason(wrong: ET.Element) -> str:
    """Where a test failed, and the first line of what it said."""
    place = re.findall(r"^(\S+\.py:\d+): ", wrong.text or "", re.MULTILINE)
    said = (wrong.get("message") or wrong.tag).strip().splitlines()[0]
    return f"{place[-1]}: {said[:300]}" if place else said[:300]


def run_tests(source: Path | None) -> dict[str, str]:
    """What became of the tests of the defects in a source tree; None is this one."""
    chosen = {} if source is None else {"PATCHPRINT_TREE": str(source)}
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}", TESTS]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", **chosen}
        subprocess.run(command, cwd=ROOT, env=environment, check=False, stdout=sys.stderr)
        return read_outcomes(report)


@contextmanager
def reviewed_tree() -> Iterator[Path]:
    """The source of the reviewed commit, out of this repository's history."""
    with tempfile.TemporaryDirectory() as folder:
        archive = subprocess.run(["git", "archive", REVIEWED, "src"], cwd=ROOT, capture_output=True, check=True).stdout
        subprocess.run(["tar", "--extract", "--directory", folder], input=archive, check=True)
        yield Path(folder) / "src"


def defects(now: Mapping[str, str], before: Mapping[str, str]) -> dict[str, Any]:
    """Every defect with its tests, by the outcomes in this tree and in the reviewed one."""
    tests = {defect: {} for defect in DEFECTS}  # type: dict[str, dict[str, dict[str, str]]]
    for test, outcome in now.items():
        for defect in defects_of(test):
            tests[defect][test] = {"now": outcome, REVIEWED: before.get(test, "it was not run")}
    return {
        defect: {
            "what": what,
            "passes_now": bool(tests[defect]) and all(each["now"] == PASSED for each in tests[defect].values()),
            f"fails_at_{REVIEWED}": any(each[REVIEWED] != PASSED for each in tests[defect].values()),
            "tests": tests[defect],
        }
        for defect, what in DEFECTS.items()
    }


def join(defects: dict[str, Any], parts: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """The scores of the one result: the defects, and what the nightly runs wrote to the files of faults, fuzz and load."""
    readers = {
        name: {key: value for key, value in counts.items() if key != "faults"}
        for name, counts in parts["fuzz"]["scores"]["readers"].items()
    }
    origin = {name: {"settings": part["settings"], "seed": part["seed"], **part["run"]} for name, part in parts.items()}
    return {
        "defects": defects,
        "faults": {key: parts["faults"]["scores"][key] for key in ("injected", "recovered", "lost", "by_fault", "by_writer")},
        "damaged_files": {"total": parts["fuzz"]["scores"]["total"], "readers": readers},
        "load": {name: parts["load"]["scores"][name] for name in ("describe", "train")},
        "origin": origin,
    }  # fmt: skip


def problems(scores: dict[str, Any], parts: Mapping[str, dict[str, Any]]) -> list[str]:
    """What does not hold."""
    found = [
        f"{defect} is not shown by a test that passes now and fails at {REVIEWED}"
        for defect, told in scores["defects"].items()
        if not (told["passes_now"] and told[f"fails_at_{REVIEWED}"])
    ]
    total = scores["damaged_files"]["total"]
    found += [f"{total[kind]} {kind} of readers" for kind in ("crashes", "hangs", "tracebacks") if total[kind]]
    found += parts["faults"]["scores"]["problems"] + parts["load"]["scores"]["problems"]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "reliability.json")
    parser.add_argument("--keep-tests", action="store_true", help="what the tests gave stands in --out already")
    chosen, started = parser.parse_args(), time.monotonic()
    out = chosen.out
    if chosen.keep_tests:
        told = read(out)["scores"]
        found, origin = told["defects"], told["origin"]["defects"]
    else:
        with reviewed_tree() as source:
            before = run_tests(source)
        found, origin = defects(run_tests(None), before), provenance.run_info(started)
    parts = {name: read(ROOT / "results" / "reliability" / f"{name}.json") for name in ("faults", "fuzz", "load")}
    scores = join(found, parts)
    scores["origin"]["defects"] = origin
    settings = {"tests": TESTS, "reviewed_commit": REVIEWED}
    result = provenance.record("reliability", settings=settings, scores=scores, started=started)
    files.write_json(out, result.to_json())
    wrong = problems(scores, parts)
    print("\n".join(wrong) or f"all held; {out}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
