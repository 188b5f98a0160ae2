"""Studies repeat tables and figures of papers: many training runs, measurements of each, a table and a figure.

A file in this folder without an underscore declares the studies of one paper: ``STUDIES``, a dict of `Study` by name.
"""

import importlib
import pkgutil

from patchprint.common.registry import Registry
from patchprint.studies._engine import Report, run_study
from patchprint.studies._figures import Bars, Curves, Figure, Functions, Gains, HeatMap, Lines, Profiles
from patchprint.studies._plan import Options
from patchprint.studies._study import Case, Column, Measure, Study


def _declared() -> dict[str, Study]:
    """Return the studies of all files, by name."""
    files = [each.name for each in pkgutil.iter_modules(__path__) if not each.name.startswith("_")]
    declared = [item for file in files for item in importlib.import_module(f"{__name__}.{file}").STUDIES.items()]
    studies = dict(declared)
    if len(studies) < len(declared):
        raise ValueError("two files declare a study of the same name")
    return studies


STUDIES: Registry[Study] = Registry("study", _declared())

__all__ = [
    "STUDIES", "Bars", "Case", "Column", "Curves", "Figure", "Functions", "Gains", "HeatMap", "Lines", "Measure", "Options",
    "Profiles", "Report", "Study", "run_study",
]  # fmt: skip
