"""Samples that were lost inside a run, and how they are filled.

A sample that is late or missing leaves a gap in a run.  Where the counter went on counting, the
next sample holds the missed counts (``carried``): they are spread evenly over the gap, and totals
are kept.  Where it did not (``lost``), the rate is interpolated between the samples around the gap.
A gap at the very end is filled in the same way, from the samples before it.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

CARRIED, LOST = "carried", "lost"
KINDS = (CARRIED, LOST)

# A duration this close to a whole number of intervals [intervals] has no partial one.
_WHOLE = 1e-6
# Upper limit of intervals in a file.
_MOST = 2**62


def interval_counts(duration: Floats, interval: float) -> NDArray[np.int64]:
    """Intervals that runs of some durations [s] fill or begin, 0 for missing runs."""
    with np.errstate(over="ignore", invalid="ignore"):
        length = np.clip(np.ceil(duration / interval - _WHOLE), 1, _MOST)
    return np.where(np.isnan(duration), 0, length).astype(np.int64)


def fill_gaps(counts: Floats, duration: Floats, interval: float, *, carried: bool) -> Floats:
    """Counts of one counter with its gaps filled, NaN after the end of each run.

    `counts` (n_contexts, n_runs, n_times) are events per interval, NaN in gaps, after the end, and
    throughout where the counter was not measured; `duration` (n_contexts, n_runs) and `interval`
    are in seconds.  `carried`: the count after a gap holds what was missed; otherwise it is lost.

    Examples
    --------
    >>> run = np.array([[[2.0, np.nan, 4.0, 6.0]]])
    >>> fill_gaps(run, np.array([[0.4]]), 0.1, carried=True).tolist()
    [[[2.0, 2.0, 2.0, 6.0]]]
    >>> fill_gaps(run, np.array([[0.4]]), 0.1, carried=False).tolist()
    [[[2.0, 3.0, 4.0, 6.0]]]
    """
    filled = np.array(counts, dtype=float)
    length = np.minimum(interval_counts(duration, interval), counts.shape[2])
    inside = np.arange(counts.shape[2]) < length[..., None]
    missing = np.isnan(filled) & inside
    held = np.isfinite(filled).any(axis=2)
    for c, r in np.argwhere(missing.any(axis=2) & held):
        own = filled[c, r, : length[c, r]]
        width = np.full(len(own), 1.0)  # [intervals]
        width[-1] = min(duration[c, r] / interval - (len(own) - 1), 1.0)
        known = np.flatnonzero(np.isfinite(own))
        if carried:
            first = np.concatenate([[0], known[:-1] + 1])
            last = known[-1] + 1
            rate = own[known] / np.add.reduceat(width[:last], first)
            own[:last] = np.repeat(rate, known - first + 1) * width[:last]
            known = np.arange(last)
        gap = np.flatnonzero(np.isnan(own))
        own[gap] = np.interp(gap, known, own[known] / width[known]) * width[gap]
    return filled
