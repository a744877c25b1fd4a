"""Samples that were lost for good, taken from what all runs say happens there.

How long a lost sample lasted is known, not what was counted.  Where the run stood when it began is
known nearly as well, and the trend says how far runs get from there in that time, and what they
count on the way: more than a rate between the samples around it does, where a phase changes.
The whole run is as much faster or slower than the trend, and counts as much more, as it is seen to.
What the clock counts in the whole run is about the same in others, which corrects the sum of what
a run lost: the more, the less runs without gaps differ in it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from msbgen.generate.clock import uniform_knots
from msbgen.generate.runs import Runs
from msbgen.trend.fit import Trend, fit_trend

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

# Passes over a run: how much work a gap takes moves where the ones after it begin.
_PASSES = 4


def fill_lost(counts: Floats, lost: Bools, runs: Runs, trend: Trend) -> Floats:
    """Replace what stands for lost samples by what a trend says happens there.

    Parameters
    ----------
    counts : ndarray, (n_known, n_runs, n_times, n_counters)
        Events per interval, lost samples filled in somehow, as by :mod:`msbgen.data.gaps`; NaN
        after the end of a run.
    lost : ndarray of bool, (n_known, n_runs, n_times, n_counters)
        Samples that were lost, none of runs that do not hold the counter.
    runs : Runs
        What `counts` are as runs.
    trend : Trend
        Of the states of these runs.

    Returns
    -------
    ndarray, (n_known, n_runs, n_times, n_counters)
        Events per interval: `counts` but for the lost samples of `runs`.

    Notes
    -----
    O(runs · (bins + times) · n_counters).
    """
    filled = counts.copy()
    place = np.argwhere(np.isfinite(runs.total))
    if runs.clock:
        _fill_clock(filled, lost, runs, trend, place)
    knots, reached = _reached(trend)
    every = np.arange(counts.shape[3])
    others = np.delete(every, runs.clock - 1) if runs.clock else every
    for r, (c, run) in enumerate(place):
        inside = np.isfinite(filled[c, run]).any(axis=1)
        absent = lost[c, run, inside]
        if not absent[:, others].any():
            continue
        own, edges = filled[c, run, inside], runs.intervals[0][r, : len(absent) + 1]
        if runs.clock:
            edges = _edges(own[:, runs.clock - 1], _total(runs, r, own[:, runs.clock - 1]))
        for q, k in enumerate(others, start=1 if runs.clock else 0):
            expected = np.diff(np.interp(edges, knots, reached[c, :, q]))
            seen = expected[~absent[:, k]].sum()
            if absent[:, k].any() and seen > 0:
                level = own[~absent[:, k], k].sum() / seen
                own[absent[:, k], k] = level * expected[absent[:, k]]
        filled[c, run, inside] = own
    return filled


def _fill_clock(filled: Floats, lost: Bools, runs: Runs, trend: Trend, place: NDArray) -> None:
    """Fill in, in place, what the clock counted in lost samples."""
    clock, time = runs.clock - 1, runs.intervals[1][..., 0]
    knots, reached = _reached(trend)
    n_lost = lost[..., clock].sum(axis=2)[tuple(place.T)]
    for r in np.flatnonzero(n_lost):
        c, run = place[r]
        inside = np.isfinite(filled[c, run, :, clock])
        work, absent = filled[c, run, inside, clock], lost[c, run, inside, clock]
        took = time[r, : len(work)]
        for _ in range(_PASSES):
            total = _total(runs, int(r), work)
            edges = _edges(work, total)
            until = np.interp(edges, knots, reached[c, :, 0])
            expected = np.diff(until)
            slower = took[~absent].sum() / max(expected[~absent].sum(), 1e-300)
            then = np.interp(until[:-1][absent] + took[absent] / slower, reached[c, :, 0], knots)
            work[absent] = np.maximum(then - edges[:-1][absent], 0.0) * total
        filled[c, run, inside, clock] = work
    ended = np.isnan(runs.expected)
    total = np.nansum(filled[..., clock], axis=2)[tuple(place.T)]
    total = np.where(ended, total, runs.expected)
    share = _correction(total, n_lost, ended, runs)
    for r in np.flatnonzero((n_lost > 0) & ended):
        c, run = place[r]
        absent = lost[c, run, :, clock]
        sums = filled[c, run, absent, clock].sum()
        if sums > 0:
            factor = 1.0 + share[r] * total[r] / sums
            filled[c, run, absent, clock] *= max(factor, 0.0)


def _correction(total: Floats, n_lost: NDArray, ended: Bools, runs: Runs) -> Floats:
    """What the totals (n,) of runs that ended are better changed by, as a share of them.

    Squared departures from a trend of the totals grow with the number of lost samples, `n_lost`
    (n,): what they grow by is the error of filling these in, the rest is how much runs differ.
    """
    usual = fit_trend(
        runs.contexts, runs.means(total[:, None, None]), weights=runs.n_runs, find_caps=False
    ).predict(runs.contexts)[runs.context, 0, 0]
    off = np.log(np.maximum(total, 1e-300) / np.maximum(usual, 1e-300))
    terms = np.stack([np.ones(len(off)), n_lost], axis=1)
    (own, each), _ = nnls(terms[ended], off[ended] ** 2)
    error = each * n_lost
    return np.expm1(-off * error / np.maximum(own + error, 1e-300))


def _reached(trend: Trend) -> tuple[Floats, Floats]:
    """Edges of the bins, and what the known contexts do until there, (n_known, bins + 1, k)."""
    amounts = trend.predict(trend.contexts)
    reached = np.zeros((len(amounts), amounts.shape[1] + 1, amounts.shape[2]))
    np.cumsum(amounts, axis=1, out=reached[:, 1:])
    return uniform_knots(amounts.shape[1]), reached


def _total(runs: Runs, run: int, work: Floats) -> float:
    """What the clock counts in a whole run that counts `work` until its end or cut."""
    expected = float(runs.expected[run])
    return float(work.sum()) if np.isnan(expected) else max(expected, float(work.sum()))


def _edges(work: Floats, total: float) -> Floats:
    """Progress at the edges of intervals in which the clock counts `work`."""
    return np.minimum(np.concatenate([[0.0], np.cumsum(work)]) / total, 1.0)
