"""Errors of predictions in gaps between measured levels that may hide a cliff.

See :mod:`msbgen.engine.generate.cliffs`.  Here each part of a run is looked at separately.
"""

import numpy as np
from numpy.typing import NDArray

from msbgen.engine.bounds.heldout import HeldOut
from msbgen.engine.generate.cliffs import STEEPER

Floats = NDArray[np.float64]

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
        cliff = change > STEEPER * np.maximum(before, after)
        errors[rows] = np.maximum(errors[rows], np.where(cliff, _SHARE * change, 0.0))
    return errors
