"""The papers' tables and figures: many runs, what is measured after each, one table and one drawing.

A file ``NAME.py`` in this folder is the study NAME (``-`` for ``_``): it holds ``study``, a `Study`, which is data and no
machinery. Files with an underscore are what all studies share: `_engine` does the runs, `_tables` and `_figures` show them.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable

from patchprint.common.registry import Registry
from patchprint.studies._engine import Report, run_study
from patchprint.studies._figures import Bars, Curves, Figure, Functions, HeatMap, Lines, Profiles
from patchprint.studies._plan import Options
from patchprint.studies._study import Case, Column, Measure, Study


def _loader(module: str) -> Callable[[], Study]:
    return lambda: importlib.import_module(f"{__name__}.{module}").study


STUDIES: Registry[Callable[[], Study]] = Registry(
    "study",
    {m.name.replace("_", "-"): _loader(m.name) for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_")},
)

__all__ = [
    "STUDIES", "Bars", "Case", "Column", "Curves", "Figure", "Functions", "HeatMap", "Lines", "Measure", "Options", "Profiles",
    "Report", "Study", "run_study",
]  # fmt: skip
