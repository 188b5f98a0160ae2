"""DOAP on real-valued descriptors: L2 distance in [0, 2]."""

from reference.average_precision import doap
from reference.formula import Formula, unit
from reference.mining import distance

VARIANTS = {"": {"bins": 10}}


def reference(settings, points, dim):
    bins = settings["bins"]
    return Formula(lambda raw, valid=None, ignore=None: doap(unit(raw), bins, 2 / bins, distance, valid, ignore))
