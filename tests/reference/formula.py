"""What all references share: the batch that the test makes, and losses without memory.

A reference is the loss again, in float64 and NumPy or plain loops, written from the formulas of the fact sheet; where the
papers' code sums over points, it takes the mean, as the losses do. ``reference(settings, points, dim)`` of the module that
has the loss's name (``-`` becomes ``_``), which may list ``VARIANTS`` of its settings by suffix, returns an object with

* ``step(raw, progress)``: update running statistics and fix detached weights by this batch;
* ``value(raw)``: the loss of a batch with these (losses on groups also take ``valid`` and ``ignore``).

``raw`` is (points, views, dim), before normalization.
"""

import numpy as np

STEP = 3  # of the batches that are compared: the key of what is random


class Formula:
    """A loss without memory."""

    def __init__(self, value):
        self.value = value

    def step(self, raw, progress):
        pass


def unit(raw):
    return raw / np.linalg.norm(raw, axis=-1, keepdims=True)


def units(raw):
    """Unit vectors of the first and of the second views, each (points, dim)."""
    vectors = unit(raw)
    return vectors[:, 0], vectors[:, 1]


def finite_differences(value, at, step=1e-6):
    gradient = np.zeros_like(at)
    for index in np.ndindex(at.shape):
        moved = at.copy()
        moved[index] = at[index] + step
        above = value(moved)
        moved[index] = at[index] - step
        gradient[index] = (above - value(moved)) / (2 * step)
    return gradient
