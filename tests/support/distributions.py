"""What pyproject.toml declares, and which installed distributions and modules that brings."""

import functools
import tomllib
from collections.abc import Iterable, Mapping
from importlib import metadata

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from support.checkout import ROOT

_PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
CORE = [Requirement(line) for line in _PROJECT["project"]["dependencies"]]
EXTRAS = {
    name: [Requirement(line) for line in lines] for name, lines in _PROJECT["project"]["optional-dependencies"].items()
}
BUILD = [Requirement(line) for line in _PROJECT["build-system"]["requires"]]


def installed_for(requirements: Iterable[Requirement]) -> set[str]:
    """Canonical names of the distributions that the requirements bring, with all that those need, as installed here."""
    found: set[str] = set()
    seen: set[tuple[str, str]] = set()
    waiting = [(each, extra) for each in requirements for extra in ("", *each.extras)]
    while waiting:
        requirement, extra = waiting.pop()
        name = str(canonicalize_name(requirement.name))
        if (name, extra) in seen:
            continue
        seen.add((name, extra))
        if name == "patchprint":
            needs = EXTRAS[extra] if extra else CORE
        else:
            found.add(name)
            try:
                lines = metadata.requires(name) or []
            except metadata.PackageNotFoundError:
                continue
            needs = [
                each
                for each in map(Requirement, lines)
                if each.marker is None or each.marker.evaluate({"extra": extra})
            ]
        waiting += [(each, wanted) for each in needs for wanted in ("", *each.extras)]
    return found


@functools.cache
def _owners() -> Mapping[str, list[str]]:
    return metadata.packages_distributions()


def modules_of(names: Iterable[str]) -> set[str]:
    """Modules at the top of the distributions; one that is not installed is taken to hold a module of its name."""
    wanted = set(names)
    owned = {module: {canonicalize_name(owner) for owner in owners} for module, owners in _owners().items()}
    installed = {module for module, owners in owned.items() if owners & wanted}
    return installed | {name.replace("-", "_") for name in wanted - set().union(*owned.values())}
