"""Compiled loops that convert counts between bins of progress and intervals of time."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

from msbgen.core.compiled import cached

# Smallest amount that a prior may expect in an interval: its reciprocal must be finite.
_LEAST_EXPECTED = 1e-300


def _kernel(function: Callable[..., Any]) -> Any:
    """Compile at the first call; cache on disk where that is possible."""
    # contraction (fused multiply-add) is the one flag of fast mathematics that keeps inf and NaN
    options = {"nogil": True, "error_model": "numpy", "fastmath": {"contract"}}
    return cached(njit, function, options)


@_kernel
def rebin(position, amounts, edges, last, out):
    """Distribute amounts (n, intervals, k) between consecutive positions over bins between edges.

    An interval is distributed in proportion to its overlap with the bins; an interval without
    width goes to one bin as a whole.  Bin last[r] takes everything beyond its lower edge; later
    bins, and runs whose position is NaN, are set to NaN.
    """
    n, intervals, k = amounts.shape
    for r in range(n):
        end = -1 if np.isnan(position[r, intervals]) else last[r]
        for b in range(out.shape[1]):
            for q in range(k):
                out[r, b, q] = 0.0 if b <= end else np.nan
        if end < 0:
            continue
        j = 0
        for i in range(intervals):
            # invariant: all intervals before i are distributed, none of them beyond bin j, and
            # bin j ends after position i unless it has no width or is the last
            start = position[r, i]
            stop = position[r, i + 1]
            width = stop - start
            if width > 0.0:
                while start < stop:
                    while j < end and edges[j + 1] <= start:
                        j += 1
                    upper = stop if j == end else min(stop, edges[j + 1])
                    share = (upper - start) / width
                    for q in range(k):
                        out[r, j, q] += share * amounts[r, i, q]
                    start = upper
            else:
                for q in range(k):
                    out[r, j, q] += amounts[r, i, q]
            # a bin without width is full after one interval without width
            if j < end and edges[j + 1] <= stop:
                j += 1


@_kernel
def rebin_in_proportion(position, amounts, edges, prior, row, out):
    """As :func:`rebin`, in proportion to a prior instead of to the overlap.

    The prior of run r is prior[row[r]] of (m, bins, k).  Within a bin it is uniform; where it is
    (almost) zero throughout an interval, the overlap decides.
    """
    n, intervals, k = amounts.shape
    end = out.shape[1] - 1
    expected = np.empty(k)
    part = np.empty(out.shape[1])  # of each bin, that an interval overlaps
    for r in range(n):
        out_r = out[r]
        prior_r = prior[row[r]]
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
                expected[:] = 0.0
                for b in range(j, last + 1):
                    overlap = min(stop, edges[b + 1]) - max(start, edges[b])
                    part[b] = overlap / (edges[b + 1] - edges[b]) if overlap > 0.0 else 0.0
                    if overlap > 0.0:
                        for q in range(k):
                            expected[q] += prior_r[b, q] * part[b]
                for q in range(k):
                    amount = amounts[r, i, q]
                    if expected[q] > _LEAST_EXPECTED:
                        inverse = 1.0 / expected[q]
                        for b in range(j, last + 1):
                            if part[b] > 0.0:
                                out_r[b, q] += amount * (prior_r[b, q] * part[b] * inverse)
                    else:
                        for b in range(j, last + 1):
                            if part[b] > 0.0:
                                overlap = part[b] * (edges[b + 1] - edges[b])
                                out_r[b, q] += amount * (overlap / width)
                j = last
            else:
                for q in range(k):
                    out_r[j, q] += amounts[r, i, q]
            if j < end and edges[j + 1] <= stop:
                j += 1


@_kernel
def sum_in_proportion(position, amounts, prior, row, missing, sums):
    """Add the runs of :func:`rebin_in_proportion` to sums[:, row[r]] (k, m, bins).

    Positions are in bins of equal width, and the prior (k, m, bins) is not below the least expected
    amount.  What is missing (k, n, bins) is left out.
    """
    n, intervals, k = amounts.shape
    bins = prior.shape[2]
    ratio = np.empty((k, bins))  # of measured over expected amounts, in each bin
    for r in range(n):
        c = row[r]
        if np.isnan(position[r, intervals]):
            continue
        ratio[:] = 0.0
        for i in range(intervals):
            start = position[r, i]
            stop = position[r, i + 1]
            first = min(int(start), bins - 1)
            if not stop > start:
                for q in range(k):
                    if not missing[q, r, first]:
                        sums[q, c, first] += amounts[r, i, q]
                continue
            # shares of the last bin and, where that is another one, of the first
            end = max(min(math.ceil(stop), bins), first + 1)
            share = first + 1 - start if end > first + 1 else 0.0
            inside = stop - max(start, end - 1.0)
            for q in range(k):
                within = prior[q, c, first:end]
                expected = inside * within[within.size - 1] + share * within[0]
                for b in range(1, within.size - 1):
                    expected += within[b]
                value = amounts[r, i, q] / expected
                covered = ratio[q, first:end]
                covered[covered.size - 1] += inside * value
                covered[0] += share * value
                for b in range(1, covered.size - 1):
                    covered[b] += value
        for q in range(k):
            total, own, whole, absent = sums[q, c], ratio[q], prior[q, c], missing[q, r]
            for b in range(bins):
                total[b] += 0.0 if absent[b] else own[b] * whole[b]


@_kernel
def path_amounts(centre, factor, path, out):
    """Amounts of whole paths, (q, paths, k): sum over the bins of centre times factor.

    centre (q, bins, k), factor (n, bins, k); path (q, paths, segments) holds the run whose factors
    apply in each segment of equally many bins.
    """
    bins = centre.shape[1]
    segments = path.shape[2]
    per_segment = bins // segments
    for q in range(path.shape[0]):
        for p in range(path.shape[1]):
            out_p = out[q, p]
            out_p[:] = 0.0
            for j in range(segments):
                run = factor[path[q, p, j]]
                for b in range(j * per_segment, (j + 1) * per_segment):
                    for k in range(out_p.shape[0]):
                        out_p[k] += centre[q, b, k] * run[b, k]


@_kernel
def play_paths(centre, factor, path, stretch, total, weight, last, clock, interval, counts):
    """Counts of paths per interval of wall time, each times its weight.

    As progress.to_wall_time, bin after bin.  The state of a bin is centre (q, bins, d) times the
    factor (n, bins, d) of the run that path (q, paths, segments) visits there, times stretch
    (q, paths, d); the clock counts total / bins (q, paths) in every bin.  Interval `last`
    (q, paths) takes everything beyond its lower edge.  counts (q, paths, times, d) receives the
    paths one by one, counts (q, 1, times, d) their sum; NaN follows the last interval.
    """
    bins = centre.shape[1]
    d = centre.shape[2]
    paths = path.shape[1]
    segments = path.shape[2]
    per_segment = bins // segments
    first = 0 if clock == 0 else 1  # the state has no column of the clock, but one of time
    factors = np.empty(d)
    amount = np.empty(d)
    sums = np.zeros((counts.shape[2], d))
    for q in range(path.shape[0]):
        end = 0
        for p in range(paths):
            # invariant: sums holds the counts of paths before p that are not written yet
            per_bin = total[q, p] / bins
            final = last[q, p]
            for c in range(d):
                factors[c] = weight[q, p] * stretch[q, p, c]
            if clock > 0:
                amount[clock - 1] = weight[q, p] * per_bin
            slow = stretch[q, p, 0]
            stop = 0.0
            i = 0
            edge = interval
            for j in range(segments):
                run = factor[path[q, p, j]]
                for b in range(j * per_segment, (j + 1) * per_segment):
                    # invariant: all bins before b are written; they end at time stop, which is not
                    # after edge, the end of interval i, unless that is the last
                    start = stop
                    stop += per_bin if clock == 0 else centre[q, b, 0] * run[b, 0] * slow
                    for c in range(first, d):
                        column = c - 1 if c < clock else c
                        amount[column] = centre[q, b, c] * run[b, c] * factors[c]
                    if stop <= edge or i == final:
                        for c in range(d):
                            sums[i, c] += amount[c]
                        continue
                    rate = 1.0 / (stop - start)
                    while start < stop:
                        while i < final and edge <= start:
                            i += 1
                            edge = interval * (i + 1)
                        upper = stop if i == final else min(stop, edge)
                        share = (upper - start) * rate
                        for c in range(d):
                            sums[i, c] += share * amount[c]
                        start = upper
            end = max(end, final)
            if p + 1 < counts.shape[1] or p + 1 == paths:
                row = counts[q, min(p, counts.shape[1] - 1)]
                for t in range(row.shape[0]):
                    for c in range(d):
                        row[t, c] = sums[t, c] if t <= end else np.nan
                        sums[t, c] = 0.0
                end = 0
