"""Single counts that no run can have: a counter that was read wrongly once.

A count is wrong where it is far above the largest count that nearly all other runs have in any
interval.  Such a count in a single run is an error of reading.
"""

import numpy as np
from numpy.typing import NDArray

from msbgen.engine.faults.findings import WrongCount

Floats = NDArray[np.float64]

# A count this many times the most that other runs have in an interval is wrong.
_FACTOR = 8.0
# Share of the runs that may hold a wrong count: the largest count of the rest is the reference.
_WRONG_RUNS = 0.05
_LEAST_RUNS = 5


def find_wrong_counts(counts: Floats) -> list[WrongCount]:
    """Wrong counts among `counts` (n, runs, times, k), NaN where nothing was measured."""
    wrong = []
    for k in range(counts.shape[3]):
        values = counts[..., k]
        largest = np.fmax.reduce(values, axis=2)
        runs = np.sort(largest[np.isfinite(largest)])
        if len(runs) < _LEAST_RUNS:
            continue
        reference = float(runs[int((1.0 - _WRONG_RUNS) * (len(runs) - 1))])
        if not reference > 0:
            continue
        with np.errstate(invalid="ignore"):
            cells = np.argwhere(values > _FACTOR * reference)
        for c, r, t in cells.tolist():
            factor = float(values[c, r, t]) / reference
            wrong.append(
                WrongCount(
                    contexts=(c,), run=r, interval=t, counter=k, factor=factor,
                    log_odds=float(np.log(factor)),
                )
            )  # fmt: skip
    return wrong
