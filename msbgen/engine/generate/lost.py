"""Imputation of samples that were lost for good, from a first fit of the trend.

The length of a lost sample is known, its counts are not.  The progress of the run at its start is
known nearly as well.  From the trend follow the progress made in that time and the counts.  Where a
phase changes, this is better than a rate between the samples around.  Speed and counts are scaled
by those of the run relative to the trend in its other samples.

The progress counter's total is about the same in all runs.  Its imputed counts are therefore scaled
so that the total of the run moves towards that of other runs.  It moves farther the less these
totals vary.
"""

import numpy as np
from numpy.typing import NDArray

from msbgen.engine.generate.progress import uniform_knots
from msbgen.engine.generate.runs import Runs
from msbgen.engine.trend.fit import Trend, fit_trend

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

# Passes over a run: the work of a gap moves the start of the gaps after it.
_PASSES = 4


def fill_lost(counts: Floats, lost: Bools, runs: Runs, trend: Trend) -> Floats:
    """Counts with the lost samples imputed by a trend, (n_known, n_runs, n_times, n_counters).

    Counts are events per interval, with lost samples interpolated as by :mod:`msbgen.data.gaps`;
    NaN after the end of a run.  `lost` has their shape, without samples of runs that do not hold
    the counter.  `trend` is that of the states of `runs`.  O(runs · (bins + times) · n_counters).
    """
    filled = counts.copy()
    index = np.argwhere(np.isfinite(runs.total))
    if runs.clock:
        _fill_clock(filled, lost, runs, trend, index)
    knots, reached = _reached(trend)
    counters = np.arange(counts.shape[3])
    others = np.delete(counters, runs.clock - 1) if runs.clock else counters
    for r, (c, run) in enumerate(index):
        inside = np.isfinite(filled[c, run]).any(axis=1)
        absent = lost[c, run, inside]
        if not absent[:, others].any():
            continue
        values, edges = filled[c, run, inside], runs.intervals[0][r, : len(absent) + 1]
        if runs.clock:
            work = values[:, runs.clock - 1]
            edges = _edges(work, _total(runs, r, work))
        for q, k in enumerate(others, start=1 if runs.clock else 0):
            expected = np.diff(np.interp(edges, knots, reached[c, :, q]))
            measured = expected[~absent[:, k]].sum()
            if absent[:, k].any() and measured > 0:
                level = values[~absent[:, k], k].sum() / measured
                values[absent[:, k], k] = level * expected[absent[:, k]]
        filled[c, run, inside] = values
    return filled


def _fill_clock(filled: Floats, lost: Bools, runs: Runs, trend: Trend, index: NDArray) -> None:
    """Impute, in place, the progress counter's counts of lost samples."""
    clock, time = runs.clock - 1, runs.intervals[1][..., 0]
    knots, reached = _reached(trend)
    n_lost = lost[..., clock].sum(axis=2)[tuple(index.T)]
    for r in np.flatnonzero(n_lost):
        c, run = index[r]
        inside = np.isfinite(filled[c, run, :, clock])
        work, absent = filled[c, run, inside, clock], lost[c, run, inside, clock]
        seconds = time[r, : len(work)]
        for _ in range(_PASSES):
            total = _total(runs, int(r), work)
            edges = _edges(work, total)
            times = np.interp(edges, knots, reached[c, :, 0])
            expected = np.diff(times)
            slowdown = seconds[~absent].sum() / max(expected[~absent].sum(), 1e-300)
            ends = np.interp(
                times[:-1][absent] + seconds[absent] / slowdown, reached[c, :, 0], knots
            )
            work[absent] = np.maximum(ends - edges[:-1][absent], 0.0) * total
        filled[c, run, inside, clock] = work
    ended = np.isnan(runs.expected)
    total = np.nansum(filled[..., clock], axis=2)[tuple(index.T)]
    total = np.where(ended, total, runs.expected)
    share = _correction(total, n_lost, ended, runs)
    for r in np.flatnonzero((n_lost > 0) & ended):
        c, run = index[r]
        absent = lost[c, run, :, clock]
        sums = filled[c, run, absent, clock].sum()
        if sums > 0:
            factor = 1.0 + share[r] * total[r] / sums
            filled[c, run, absent, clock] *= max(factor, 0.0)


def _correction(total: Floats, n_lost: NDArray, ended: Bools, runs: Runs) -> Floats:
    """Corrections of the totals (n,) of runs that ended, as shares of them, (n,).

    Squared departures from a trend of the totals grow with the number of lost samples, `n_lost`
    (n,).  The growth is the error of the imputation, the rest is the variance between runs.
    """
    from scipy.optimize import nnls  # imported here, as few fits need it

    usual = fit_trend(
        runs.contexts, runs.means(total[:, None, None]), weights=runs.n_runs, find_caps=False
    ).predict(runs.contexts)[runs.context, 0, 0]
    residual = np.log(np.maximum(total, 1e-300) / np.maximum(usual, 1e-300))
    terms = np.stack([np.ones(len(residual)), n_lost], axis=1)
    (between_runs, per_sample), _ = nnls(terms[ended], residual[ended] ** 2)
    error = per_sample * n_lost
    return np.expm1(-residual * error / np.maximum(between_runs + error, 1e-300))


def _reached(trend: Trend) -> tuple[Floats, Floats]:
    """Edges of the bins, and amounts of the known contexts until there, (n_known, bins + 1, k)."""
    amounts = trend.predict(trend.contexts)
    reached = np.zeros((len(amounts), amounts.shape[1] + 1, amounts.shape[2]))
    np.cumsum(amounts, axis=1, out=reached[:, 1:])
    return uniform_knots(amounts.shape[1]), reached


def _total(runs: Runs, run: int, work: Floats) -> float:
    """Total of the progress counter in a whole run that counts `work` until its end or cut."""
    expected = float(runs.expected[run])
    return float(work.sum()) if np.isnan(expected) else max(expected, float(work.sum()))


def _edges(work: Floats, total: float) -> Floats:
    """Progress at the edges of intervals in which the progress counter counts `work`."""
    return np.minimum(np.concatenate([[0.0], np.cumsum(work)]) / total, 1.0)
