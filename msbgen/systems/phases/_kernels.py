"""Kernels of phases: runs cut at equal progress, and change points.

Kernels are serial and release the GIL: callers run them from threads over independent work.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

from msbgen.core.compiled import cached


def _kernel(function: Callable[..., Any]) -> Any:
    """Compile lazily, cache on disk where a place for the cache can be found."""
    # contraction (fused multiply-add) is a freedom of fast mathematics that keeps inf and NaN
    options = {"nogil": True, "error_model": "numpy", "fastmath": {"contract"}}
    return cached(njit, function, options)


# ------------------------------------------------------------------ runs on the progress axis

_WHOLE = 1e-6  # tolerance of the length of a last interval


@_kernel
def _row_seconds(duration, length, interval, row):
    """Time of a row of a run; the last row ends with the run, if it can."""
    if row == length - 1:
        last = duration - (length - 1) * interval
        if 0.0 < last <= interval * (1.0 + _WHOLE):
            return last
    return interval


@_kernel
def run_totals(counts, clock, duration, interval, length, total):
    """Number of rows of each run, and the total of its clock; 0 where the run is missing.

    ``counts`` (contexts, runs, rows) end at the first NaN; ``clock`` is of that shape, or empty
    for wall time.
    """
    n_contexts, n_runs, n_rows = counts.shape
    for c in range(n_contexts):
        for r in range(n_runs):
            n = 0
            if duration[c, r] > 0.0:
                while n < n_rows and not np.isnan(counts[c, r, n]):
                    n += 1
            length[c, r] = n
            done = 0.0
            for t in range(n):
                if clock.size == 0:
                    done += _row_seconds(duration[c, r], n, interval, t)
                else:
                    done += clock[c, r, t]
            total[c, r] = done


@_kernel
def cut_runs(clock, amount, runs, interval, out):
    """Amounts in equal stretches of the clock, into ``out`` (contexts, runs, bins).

    ``clock`` and ``amount`` are counts (contexts, runs, rows), or empty for wall time; ``runs``
    is (duration, length, total), (contexts, runs) each.  NaN where a run is missing.
    """
    duration, lengths, totals = runs
    n_contexts, n_runs, bins = out.shape
    sums = np.empty(bins)
    for c in range(n_contexts):
        for r in range(n_runs):
            total = totals[c, r]
            if not total > 0.0:
                out[c, r] = np.nan
                continue
            sums[:] = 0.0
            b = 0
            done = 0.0
            for t in range(lengths[c, r]):
                # invariant: amounts up to `done` are in sums[: b + 1], and done <= the end of b
                seconds = _row_seconds(duration[c, r], lengths[c, r], interval, t)
                step = seconds if clock.size == 0 else np.float64(clock[c, r, t])
                left = seconds if amount.size == 0 else np.float64(amount[c, r, t])
                if step <= 0.0:
                    sums[b] += left  # time passes while the clock stands still
                    continue
                density = left / step
                end = done + step
                while b < bins - 1 and end >= total * (b + 1) / bins:
                    edge = total * (b + 1) / bins
                    sums[b] += density * (edge - done)
                    done = edge
                    b += 1
                sums[b] += density * (end - done)
                done = end
            for b in range(bins):
                out[c, r, b] = sums[b]


@_kernel
def change_points(scores, penalty, cost, start):
    """Segmentation with the least sum of squares about the segments' means, plus `penalty` each.

    ``scores`` (bins, k).  ``start[j]`` receives where the last piece of the best cut of the first
    j bins begins, ``cost[j]`` its cost; both (bins + 1,).  Exact: every start is tried.
    """
    bins, k = scores.shape
    sums = np.empty(k)
    cost[0] = 0.0
    for j in range(1, bins + 1):
        sums[:] = 0.0
        squares = 0.0
        cost[j] = np.inf
        for i in range(j - 1, -1, -1):
            # invariant: sums and squares are those of bins i to j - 1
            within = 0.0
            for d in range(k):
                x = scores[i, d]
                sums[d] += x
                squares += x * x
                within -= sums[d] * sums[d]
            whole = cost[i] + penalty + max(squares + within / (j - i), 0.0)
            if whole < cost[j]:
                cost[j] = whole
                start[j] = i
