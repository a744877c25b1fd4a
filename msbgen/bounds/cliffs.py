"""Gaps between measured levels in which a count may change at an unknown place.

A working set begins to fit a cache at some number of ways.  If that lies between two measured
levels, counts change far more across this gap than across those beside it, and no data show where.
A prediction in the gap may then be wrong by a large share of the change, although errors in
left-out contexts are small.
"""

import numpy as np
from numpy.typing import NDArray

from msbgen.bounds.heldout import HeldOut

Floats = NDArray[np.float64]

# A change across a gap is suspicious if it exceeds those across the gaps beside so many times.
_STEEPER = 2.0
# Share of the change by which a prediction may be wrong: half way, a sudden change has happened or
# has not.
_SHARE = 0.5


def cliff_errors(held_out: HeldOut, contexts: Floats) -> Floats:
    """Errors that sudden changes between levels may cause, (q, segments, k), in logarithms.

    Half of the predicted change of amounts across the gap of a resource's level, where that is more
    than twice the changes across the gaps beside it; the largest of the resources.  0 at measured
    levels, and outside of them.
    """
    known, floor = held_out.trend.contexts, held_out.floor
    errors = np.zeros((len(contexts), held_out.segments, held_out.predicted.shape[2]))
    for r, new in enumerate(held_out.query(contexts).new.T):
        levels = np.unique(known[:, r])
        rows = np.flatnonzero(new & (contexts[:, r] > levels[0]) & (contexts[:, r] < levels[-1]))
        if len(levels) < 3 or not len(rows):
            continue
        below = np.searchsorted(levels, contexts[rows, r]) - 1
        logs = []
        for step in (-1, 0, 1, 2):  # beyond the ends nothing changes
            at = contexts[rows].copy()
            at[:, r] = levels[np.clip(below + step, 0, len(levels) - 1)]
            logs.append(np.log(held_out.query(at).predicted + floor))
        before, change, after = np.abs(np.diff(np.stack(logs), axis=0))
        cliff = change > _STEEPER * np.maximum(before, after)
        errors[rows] = np.maximum(errors[rows], np.where(cliff, _SHARE * change, 0.0))
    return errors
