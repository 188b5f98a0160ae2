"""DOAP on binary descriptors: relaxed Hamming distance."""

from reference.average_precision import doap, soft_hamming
from reference.formula import Formula

VARIANTS = {"": {}, "wide": {"bins": 5}}


def reference(settings, points, dim):
    bins = settings.get("bins", dim)
    return Formula(lambda raw, valid=None, ignore=None: doap(raw, bins, dim / bins, soft_hamming, valid, ignore))
