"""Single counts that no run can have: a counter that was read wrongly, once.

A count is absurd where it is far above the most that any interval of nearly all other runs holds:
what happens in one interval of one run alone is a mistake of reading.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# A count this many times the most that other runs have in an interval.
_FACTOR = 8.0
# Runs that may hold a wrong count: the largest of the rest is what runs have.
_WRONG = 0.05
_FEW_RUNS = 5


@dataclass(frozen=True)
class WrongCount:
    """A count that is absurd.

    Attributes
    ----------
    context, run, interval, counter : int
    factor : float
        How many times the most that other runs have.
    """

    context: int
    run: int
    interval: int
    counter: int
    factor: float


def find_wrong_counts(counts: Floats) -> list[WrongCount]:
    """Find the counts (n, runs, times, k) that no run can have; NaN where there is none."""
    found = []
    for k in range(counts.shape[3]):
        own = counts[..., k]
        largest = np.fmax.reduce(own, axis=2)
        runs = np.sort(largest[np.isfinite(largest)])
        if len(runs) < _FEW_RUNS:
            continue
        most = float(runs[int((1.0 - _WRONG) * (len(runs) - 1))])
        if not most > 0:
            continue
        with np.errstate(invalid="ignore"):
            places = np.argwhere(own > _FACTOR * most)
        for c, r, t in places.tolist():
            found.append(WrongCount(c, r, t, k, float(own[c, r, t]) / most))
    return found
