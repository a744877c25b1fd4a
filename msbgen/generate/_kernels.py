"""Kernels of the clocks and laws: counts between bins of progress and intervals of time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit


def _kernel(function: Callable[..., Any]) -> Any:
    """Compile lazily, cache on disk where a place for the cache can be found."""
    # contraction (fused multiply-add) is a freedom of fast mathematics that keeps inf and NaN
    options = {"nogil": True, "error_model": "numpy", "fastmath": {"contract"}}
    try:
        return njit(cache=True, **options)(function)
    except RuntimeError:  # "no locator available": a read-only install without a cache folder
        return njit(**options)(function)


@_kernel
def rebin(position, amounts, edges, last, out):
    """Share amounts (n, intervals, k) between consecutive positions out to bins between edges.

    A positive interval is shared in proportion to its overlap with the bins; an interval without
    width goes to one bin whole.  Bin last[r] takes all that lies beyond its lower edge; later
    bins, and runs whose position is NaN, are set to NaN.
    """
    n, intervals, k = amounts.shape
    for r in range(n):
        out_r = out[r]
        position_r = position[r]
        end = last[r]
        if np.isnan(position_r[intervals]):
            out_r[:, :] = np.nan
            continue
        out_r[: end + 1, :] = 0.0
        out_r[end + 1 :, :] = np.nan
        j = 0
        for i in range(intervals):
            # invariant: all intervals before i are shared out, none of them beyond bin j, and
            # bin j ends after position i unless it has no width or is the last
            amount = amounts[r, i]
            start = position_r[i]
            stop = position_r[i + 1]
            width = stop - start
            if width > 0.0:
                while start < stop:
                    while j < end and edges[j + 1] <= start:
                        j += 1
                    upper = stop if j == end else min(stop, edges[j + 1])
                    share = (upper - start) / width
                    for q in range(k):
                        out_r[j, q] += share * amount[q]
                    start = upper
            else:
                for q in range(k):
                    out_r[j, q] += amount[q]
            # a bin without width is full after one interval without width
            if j < end and edges[j + 1] <= stop:
                j += 1


@_kernel
def rebin_in_proportion(position, amounts, edges, prior, out):
    """As :func:`rebin`, sharing in proportion to a prior (n, bins, k) instead of to the overlap.

    Within a bin the prior is uniform; where it is zero throughout an interval, the overlap
    decides.
    """
    n, intervals, k = amounts.shape
    end = out.shape[1] - 1
    for r in range(n):
        out_r = out[r]
        prior_r = prior[r]
        position_r = position[r]
        if np.isnan(position_r[intervals]):
            out_r[:, :] = np.nan
            continue
        out_r[:, :] = 0.0
        j = 0
        for i in range(intervals):
            # invariant: as in rebin
            start = position_r[i]
            stop = position_r[i + 1]
            width = stop - start
            if width > 0.0:
                while j < end and edges[j + 1] <= start:
                    j += 1
                last = j
                while last < end and edges[last + 1] < stop:
                    last += 1
                for q in range(k):
                    amount = amounts[r, i, q]
                    expected = 0.0
                    for b in range(j, last + 1):
                        overlap = min(stop, edges[b + 1]) - max(start, edges[b])
                        if overlap > 0.0:
                            expected += prior_r[b, q] * overlap / (edges[b + 1] - edges[b])
                    for b in range(j, last + 1):
                        overlap = min(stop, edges[b + 1]) - max(start, edges[b])
                        if overlap > 0.0:
                            if expected > 0.0:
                                mine = prior_r[b, q] * overlap / (edges[b + 1] - edges[b])
                                out_r[b, q] += amount * (mine / expected)
                            else:
                                out_r[b, q] += amount * (overlap / width)
                j = last
            else:
                for q in range(k):
                    out_r[j, q] += amounts[r, i, q]
            if j < end and edges[j + 1] <= stop:
                j += 1


@_kernel
def path_amounts(centre, factor, path, out):
    """Amounts of whole paths, (q, paths, k): sum over the bins of centre times factor.

    centre (q, bins, k), factor (n, bins, k); path (q, paths, segments) names the run whose factors
    hold in each of equally many bins.
    """
    bins = centre.shape[1]
    segments = path.shape[2]
    per_segment = bins // segments
    for q in range(path.shape[0]):
        for p in range(path.shape[1]):
            out_p = out[q, p]
            out_p[:] = 0.0
            for j in range(segments):
                mine = factor[path[q, p, j]]
                for b in range(j * per_segment, (j + 1) * per_segment):
                    for k in range(out_p.shape[0]):
                        out_p[k] += centre[q, b, k] * mine[b, k]


@_kernel
def _play(centre, factor, path, scale, total, weight, clock, interval, last, amount, counts):
    """Add a path's counts per interval of wall time, times a weight, to counts (times, d).

    As clock.to_wall_time, bin after bin: the state of a bin is centre (bins, d) times the visited
    run's factor times scale (d,), and the clock counts the same in every bin.  Interval `last`
    takes all that lies beyond its lower edge.  amount (d,) is scratch.
    """
    bins, d = centre.shape
    segments = path.shape[0]
    per_segment = bins // segments
    own = total / bins
    stop = 0.0
    i = 0
    for j in range(segments):
        mine = factor[path[j]]
        for b in range(j * per_segment, (j + 1) * per_segment):
            # invariant: all bins before b are played, they end at time stop in interval i
            if clock == 0:
                width = own
                for q in range(d):
                    amount[q] = centre[b, q] * mine[b, q] * scale[q]
            else:
                width = centre[b, 0] * mine[b, 0] * scale[0]
                for q in range(1, d):
                    # the clock's own column is left out of the state, time is its first
                    column = q - 1 if q < clock else q
                    amount[column] = centre[b, q] * mine[b, q] * scale[q]
                amount[clock - 1] = own
            start = stop
            stop = start + width
            if width > 0.0:
                while start < stop:
                    while i < last and interval * (i + 1) <= start:
                        i += 1
                    upper = stop if i == last else min(stop, interval * (i + 1))
                    share = weight * (upper - start) / width
                    for q in range(d):
                        counts[i, q] += share * amount[q]
                    start = upper
            else:
                for q in range(d):
                    counts[i, q] += weight * amount[q]


@_kernel
def expected_counts(centre, factor, path, scale, total, weight, clock, interval, last, counts):
    """Add to counts (q, times, d) the weighted counts of paths; see _play.

    scale (q, paths, d); total, weight and last (q, paths).
    """
    amount = np.empty(centre.shape[2])
    for q in range(path.shape[0]):
        for p in range(path.shape[1]):
            _play(
                centre[q], factor, path[q, p], scale[q, p], total[q, p], weight[q, p], clock,
                interval, last[q, p], amount, counts[q],
            )  # fmt: skip


@_kernel
def path_counts(centre, factor, path, scale, total, clock, interval, last, counts):
    """Counts (q, paths, times, d) of paths one by one, NaN after interval `last`; see _play."""
    amount = np.empty(centre.shape[2])
    for q in range(path.shape[0]):
        for p in range(path.shape[1]):
            end = last[q, p]
            counts[q, p, : end + 1] = 0.0
            counts[q, p, end + 1 :] = np.nan
            _play(
                centre[q], factor, path[q, p], scale[q, p], total[q, p], 1.0, clock,
                interval, end, amount, counts[q, p],
            )  # fmt: skip
