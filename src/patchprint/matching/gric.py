"""A homography or a fundamental matrix: which of the two describes the matches better for what it costs."""

from __future__ import annotations

import math

import numpy as np

from patchprint.ops.geometry import epipolar_errors, homography_errors

_DATA_DIMENSION = 4  # a match is two points of the plane
_MODEL_DIMENSION = {"homography": 2, "fundamental": 3}  # of the surface on which matches lie
_PARAMETERS = {"homography": 8, "fundamental": 7}


def describes_better(
    homography: np.ndarray, fundamental: np.ndarray, a: np.ndarray, b: np.ndarray, noise: float
) -> str:
    """The geometry with the smaller criterion, "homography" or "fundamental".

    Shape:
        homography, fundamental (3, 3); a, b (N, 2): the matches that agree with at least one of them. Those that agree with
        neither would speak for the fundamental matrix, for which an outlier costs less. ``noise``: standard deviation of a
        coordinate in pixels.
    """
    flat = criterion(homography_errors(homography, a, b), "homography", noise)
    general = criterion(epipolar_errors(fundamental, a, b), "fundamental", noise)
    return "homography" if flat <= general else "fundamental"


def criterion(errors: np.ndarray, kind: str, noise: float) -> float:
    """Torr's geometric robust information criterion (GRIC); the smaller the better.

    With n matches of r = 4 coordinates, a surface of dimension d with k parameters, and Sampson errors e of deviation s::

        sum(min(e^2 / s^2, 2 (r - d))) + n d ln(r) + k ln(r n)

    (P. H. S. Torr, Geometric motion segmentation and model selection, Phil. Trans. R. Soc. A 356, 1998.)
    """
    count, dimension = len(errors), _MODEL_DIMENSION[kind]
    misfit = np.minimum((errors / noise) ** 2, 2 * (_DATA_DIMENSION - dimension)).sum()
    positions = count * dimension * math.log(_DATA_DIMENSION)
    return float(misfit + positions + _PARAMETERS[kind] * math.log(_DATA_DIMENSION * max(count, 1)))
