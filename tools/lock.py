"""Write requirements.lock: the versions of constraints.txt with the sha256 of every file that may be installed for them.

    python -m tools.lock [--uv UV] [FOLDER_OF_WHEELS ...]

``pip install --require-hashes -r requirements.lock`` then takes nothing else. The checksums come from the package index, by
``uv``; wheels in the folders (the CPU build of torch, which the index does not have) take the place of the index's files.
"""

import argparse
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

from patchprint.common import files
from patchprint.common.provenance import sha256_of_file

_ROOT = Path(__file__).resolve().parents[1]
CONSTRAINTS, LOCK = _ROOT / "constraints.txt", _ROOT / "requirements.lock"
_HEAD = """# Made by make lock from constraints.txt; for Python 3.11 and the CPU build of torch.
# pip install --require-hashes -r requirements.lock
"""


def pins(text: str) -> dict[str, str]:
    """Return versions by canonical name from constraints or a lock."""
    found = re.findall(r"^([\w.-]+)==([^\s\\]+)", text, re.MULTILINE)
    return {canonical(name): version for name, version in found}


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def with_wheels(lock: str, wheels: Iterable[Path]) -> str:
    """Return the lock with the checksums of local wheels, where they are builds (``+cpu``) of the pinned versions.

    They replace those of the index: pip prefers files whose checksum the index tells, and would take the other build.
    """
    for wheel in wheels:
        name, version = wheel.name.split("-")[:2]
        if pins(lock).get(canonical(name)) == version.partition("+")[0]:
            line = f"    --hash=sha256:{sha256_of_file(wheel)}\n"
            lock = re.sub(rf"(?mi)^({re.escape(name)}==.*\n)(?:    --hash=.*\n)+", rf"\g<1>{line}", lock)
    return lock


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--uv", default="uv")
    options = parser.parse_args(arguments)
    compile_ = [
        options.uv,
        "pip",
        "compile",
        "--quiet",
        "--no-deps",
        "--generate-hashes",
        "--no-annotate",
        "--no-header",
    ]
    made = subprocess.run([*compile_, CONSTRAINTS], check=True, capture_output=True, text=True).stdout
    wheels = (wheel for folder in options.folders for wheel in sorted(folder.glob("*.whl")))
    files.write_text(LOCK, _HEAD + with_wheels(made, wheels))


if __name__ == "__main__":
    main()
