"""Conversion between wall time and progress, at which all runs are in the same phase.

A slower context stretches time, so equal times are different phases in different contexts.
Progress is the fraction p in [0, 1] that a monotone quantity (the *clock*) has reached of the run's
total.  As functions of p, all runs have the same length, and states vary smoothly with the
context.

A run is a curve through the quantities q(t) = (t, cumulative counter_1, ..., cumulative counter_d),
linear within each sampling interval.  Any of them is the clock:  ``clock=1 + k`` is counter k,
``clock=0`` wall time.  The *state* of a bin of progress holds the amounts of the other quantities
in it, in their order [s per bin, events per bin].  Amounts are conserved: they add up to the run's
duration and totals, also where time passes without progress (such a plateau is part of one bin),
and where a bin has no width.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from msbgen.core.errors import ArgumentError
from msbgen.core.lazy import lazy_module

_kernels = lazy_module("msbgen.engine.generate._kernels")

Floats = NDArray[np.float64]

# A duration this close to a whole number of intervals [intervals] has no partial one.
_WHOLE = 1e-6
# Least rest of a run that was cut, as a share of it.
_NOT_ENDED = 1e-6


@dataclass(frozen=True)
class ClockedRuns:
    """Runs at equal progress."""

    # (..., bins, d): amounts per bin of time and of all counters but that of progress [s, events].
    # NaN for a missing run, a run without progress, bins that overlap an interval without a count
    # of that counter, and from the bin on in which a run was cut
    state: Floats
    # (...): of the progress counter, expected where a run was cut; [s] when progress is wall time
    total: Floats
    knots: Floats  # (bins + 1,): edges of the bins, from 0 to 1
    clock: int  # index of the progress counter among time and the counters


def uniform_knots(n_bins: int) -> Floats:
    """Edges of `n_bins` bins of equal progress, (n_bins + 1,)."""
    if n_bins < 1:
        raise ArgumentError(f"n_bins is {n_bins}; at least 1 is wanted.")
    return np.linspace(0.0, 1.0, n_bins + 1)


def to_progress(
    counts: ArrayLike,
    duration: ArrayLike,
    interval: ArrayLike,
    *,
    knots: ArrayLike,
    clock: int = 1,
    expected: ArrayLike | None = None,
) -> ClockedRuns:
    """Amounts of every quantity per bin of progress, for many runs at once.

    Counts (..., time, d) are events per sampling interval; NaN after the end of a run, throughout
    for a missing run, and where a counter was not measured.  Intervals are [s], of all runs or of
    each (...); the last one of a run ends at its duration (...) [s].  The knots (bins + 1,) are
    the edges of the bins, from 0 to 1; a bin without width takes a plateau.  The clock is 0 for
    wall time, 1 + k for counter k; its total is `expected` (...) in runs that were cut, NaN for the
    others.

    Exact for piecewise linear q: summing the bins gives the cumulative counts at the knots.  Finer
    knots than samples are allowed; they interpolate.  O(runs · (time + bins) · d).

    Examples
    --------
    >>> run = [[4.0, 1.0], [4.0, 3.0], [2.0, 0.0]]  # two counters, the last interval is partial
    >>> runs = to_progress(run, 0.25, 0.1, knots=[0.0, 0.5, 1.0])
    >>> runs.state.round(4).tolist(), float(runs.total)
    ([[0.125, 1.75], [0.125, 2.25]], 10.0)
    """
    runs, ended = _checked_runs(counts, duration, interval, clock)
    edges = _checked_knots(knots)
    batch = runs.shape[:-2]
    position, total, amounts = _amounts(runs, ended, interval, clock, expected)
    state = np.empty((len(amounts), len(edges) - 1, amounts.shape[2]))
    _kernels.rebin(position, amounts, edges, np.full(len(amounts), len(edges) - 2), state)
    _cut(state, position, edges)
    return ClockedRuns(state.reshape(*batch, *state.shape[1:]), total.reshape(batch), edges, clock)


def progress_amounts(
    counts: ArrayLike,
    duration: ArrayLike,
    interval: ArrayLike,
    *,
    clock: int = 1,
    expected: ArrayLike | None = None,
) -> tuple[Floats, Floats]:
    """Progress at the edges of the sampling intervals of runs, and the amounts of the intervals.

    Arguments as of :func:`to_progress`, runs along one axis.  Progress (n, time + 1) goes from 0
    to 1, or to less for a run that was cut; NaN throughout for a run without a state in
    :func:`to_progress`.  Amounts (n, time, d) are those of the quantities that are not the clock
    [s, events]; 0 after the end of a run.
    """
    runs, ended = _checked_runs(counts, duration, interval, clock)
    position, _, amounts = _amounts(runs, ended, interval, clock, expected)
    return position, amounts


def deconvolve(
    counts: ArrayLike,
    duration: ArrayLike,
    interval: ArrayLike,
    prior: ArrayLike,
    *,
    knots: ArrayLike,
    clock: int = 1,
    shared_steps: int = 0,
    expected: ArrayLike | None = None,
) -> ClockedRuns:
    """Runs at equal progress, deconvolved within the sampling intervals with a prior.

    A burst shorter than the sampling interval is smeared over the interval, differently in every
    context, because sampling times fall into other phases there.  The prior is a first estimate of
    the amounts per bin, such as the prediction of a trend; it is broadcast to (..., bins, d), and
    only its ratios within an interval matter.  The counts of each interval are distributed over its
    bins in proportion to the prior instead of evenly: one step of Richardson-Lucy deconvolution.
    The sum of every interval is kept.

    Sampling intervals fall into other phases in every run.  The ratio of all deconvolved runs to
    the prior is therefore structure that the prior has not resolved: `shared_steps` times the prior
    is multiplied by that ratio, bin by bin, before it is used.  The runs must be of one task.

    Other arguments as of :func:`to_progress`.
    """
    runs, ended = _checked_runs(counts, duration, interval, clock)
    edges = _checked_knots(knots)
    batch = runs.shape[:-2]
    shape = (*batch, len(edges) - 1, runs.shape[-1])
    weight = np.asarray(prior, dtype=float)
    if not np.all(np.isfinite(weight)) or np.any(weight < 0):
        raise ArgumentError(
            f"prior goes from {weight.min():g} to {weight.max():g}; finite amounts ≥ 0 are wanted."
        )
    try:
        weight = np.broadcast_to(weight, shape) if weight.shape != shape else weight
    except ValueError:
        raise ArgumentError(f"prior has shape {weight.shape}; {shape} is wanted.") from None
    position, total, amounts = _amounts(runs, ended, interval, clock, expected)
    state = np.empty((len(amounts), *shape[-2:]))
    # kernels are compiled for writable arrays, which broadcast ones are not
    weight = np.require(weight, requirements=["C", "W"]).reshape(state.shape)
    own = np.arange(len(state))
    _kernels.rebin_in_proportion(position, amounts, edges, weight, own, state)
    _cut(state, position, edges)
    for _ in range(shared_steps):
        finite = np.isfinite(state)
        present = [weight, state]
        if not finite.all():
            present = [np.where(finite, x, 0.0) for x in present]
        before, after = (x.sum(axis=0) for x in present)
        weight = weight * np.divide(after, before, out=np.ones_like(before), where=before > 0)
        _kernels.rebin_in_proportion(position, amounts, edges, weight, own, state)
        _cut(state, position, edges)
    return ClockedRuns(state.reshape(shape), total.reshape(batch), edges, clock)


def to_wall_time(
    state: ArrayLike, total: ArrayLike, interval: float, *, knots: ArrayLike, clock: int = 1
) -> tuple[Floats, Floats]:
    """Counts per sampling interval of wall time, and durations, from amounts per bin of progress.

    `state` (..., bins, d) is as :func:`to_progress` returns it; `total` (...) is the clock's total
    in each run, or one number for all.  The counts (..., time, d) are of all counters in their
    order, with the clock.  The last interval of a run may be partial, NaN follows; a run with a
    NaN is NaN throughout.  Durations (...) are the sums of the time amounts [s].  O(runs · (bins
    + time) · d).
    """
    amounts, totals = np.asarray(state, dtype=float), np.asarray(total, dtype=float)
    edges = _checked_knots(knots)
    if amounts.ndim < 2 or amounts.shape[-2] != len(edges) - 1:
        raise ArgumentError(
            f"state has shape {amounts.shape}; (..., {len(edges) - 1}, d) is wanted for "
            f"{len(edges)} knots."
        )
    batch, (bins, d) = amounts.shape[:-2], amounts.shape[-2:]
    if not 0 <= clock <= d:
        raise ArgumentError(f"clock is {clock}; 0 (wall time) to {d} (last counter) is wanted.")
    if not interval > 0:
        raise ArgumentError(f"interval is {interval} s; a positive one is wanted.")
    if np.any(amounts < 0) or np.any(totals < 0):
        raise ArgumentError("state or total is negative somewhere; amounts ≥ 0 are wanted.")
    flat = amounts.reshape(-1, bins, d)
    totals = np.broadcast_to(totals, batch).reshape(-1)
    clock_amounts = totals[:, None] * np.diff(edges)
    quantities = np.insert(flat, clock, clock_amounts, axis=2)
    quantities[~np.isfinite(quantities).all(axis=(1, 2))] = np.nan
    position = _cumulative(quantities[:, :, 0])
    duration = position[:, -1].copy()
    if np.any(duration == 0):
        raise ArgumentError(
            f"run {int(np.argmin(duration))} takes no time; a positive amount of time is wanted."
        )
    length = np.ceil(np.nan_to_num(duration) / interval - _WHOLE).astype(np.int64)
    length = np.maximum(length, 1)
    n_times = int(length.max()) if len(length) else 0
    counts = np.empty((len(flat), n_times, d))
    others = np.ascontiguousarray(quantities[:, :, 1:])
    _kernels.rebin(position, others, interval * np.arange(n_times + 1.0), length - 1, counts)
    return counts.reshape(*batch, n_times, d), duration.reshape(batch)


def resample(
    counts: ArrayLike, duration: ArrayLike, interval: float, new_interval: float
) -> Floats:
    """Counts per sampling interval of another length, with events spread evenly in the old ones.

    Counts (..., time, d) are NaN after the end of a run, whose last interval ends at its duration
    (...) [s].  Totals are kept.
    """
    runs, ended = _checked_runs(counts, duration, interval, 0)
    batch = runs.shape[:-2]
    quantities, _ = _quantities(runs.reshape(-1, *runs.shape[-2:]), ended.reshape(-1), interval)
    length = np.maximum(np.ceil(ended.reshape(-1) / new_interval - _WHOLE), 1).astype(np.int64)
    edges = new_interval * np.arange(length.max() + 1.0)
    out = np.empty((len(quantities), len(edges) - 1, runs.shape[-1]))
    _kernels.rebin(
        _cumulative(quantities[:, :, 0]),
        np.ascontiguousarray(quantities[:, :, 1:]),
        edges,
        length - 1,
        out,
    )
    return out.reshape(*batch, *out.shape[1:])


def lost_counts(
    total: ArrayLike, *, tolerance: float = 0.03, factor: float = 5.0
) -> NDArray[np.bool_]:
    """Runs (contexts, runs) that lost counts of progress: their total is an outlier among all.

    A run is bad when the logarithm of its total is farther than the threshold

        max(log(1 + tolerance), factor · 1.4826 · median |log total − median log total|)

    from the median over all runs *and* from the median of the other runs of its context, if there
    are any: work may depend on the context.  Runs whose progress counter counted nothing are bad;
    missing ones, with a total of NaN, are not.
    """
    totals = np.asarray(total, dtype=float)
    if totals.ndim != 2:
        raise ArgumentError(f"total has shape {totals.shape}; (contexts, runs) is wanted.")
    nothing = totals <= 0
    with np.errstate(invalid="ignore", divide="ignore"):
        value = np.where(nothing, np.nan, np.log(totals))
    known = np.isfinite(value)
    if not known.any():
        return nothing
    away = np.abs(value - np.median(value[known]))
    threshold = max(np.log1p(tolerance), factor * 1.4826 * float(np.median(away[known])))
    bad = nothing.copy()
    for c, r in np.argwhere(known & (away > threshold)):
        others = np.delete(value[c], r)
        others = others[np.isfinite(others)]
        bad[c, r] = others.size == 0 or abs(value[c, r] - np.median(others)) > threshold
    return bad


def _checked_runs(
    counts: ArrayLike, duration: ArrayLike, interval: ArrayLike, clock: int
) -> tuple[Floats, Floats]:
    runs, ended = np.asarray(counts, dtype=float), np.asarray(duration, dtype=float)
    if runs.ndim < 2 or 0 in runs.shape[-2:]:
        raise ArgumentError(f"counts has shape {runs.shape}; (..., time, d) is wanted.")
    if ended.shape != runs.shape[:-2]:
        raise ArgumentError(f"duration has shape {ended.shape}; {runs.shape[:-2]} is wanted.")
    steps = np.asarray(interval, dtype=float)
    if not np.all(steps > 0) or steps.shape not in ((), ended.shape):
        raise ArgumentError(f"interval is {interval} s; a positive one is wanted.")
    if not 0 <= clock <= runs.shape[-1]:
        raise ArgumentError(
            f"clock is {clock}; 0 (wall time) to {runs.shape[-1]} (last counter) is wanted."
        )
    return runs, ended


def _checked_knots(knots: ArrayLike) -> Floats:
    edges = np.ascontiguousarray(knots, dtype=float)
    if (
        edges.ndim != 1
        or len(edges) < 2
        or edges[0] != 0
        or edges[-1] != 1
        or np.any(np.diff(edges) < 0)
    ):
        raise ArgumentError(
            f"knots have shape {edges.shape}; two or more that ascend from 0 to 1 are wanted."
        )
    return edges


def _quantities(
    runs: Floats, duration: Floats, interval: ArrayLike
) -> tuple[Floats, NDArray[np.intp]]:
    """Seconds and counts of every interval (n, time, 1 + d), zero after the end; run lengths.

    A missing run is NaN throughout and has length 0.
    """
    n_times = runs.shape[1]
    measured = np.isfinite(runs).any(axis=2)
    length = np.max(np.where(measured, np.arange(1, n_times + 1), 0), axis=1)
    length = np.where(np.isfinite(duration), length, 0)
    steps = np.reshape(np.asarray(interval, dtype=float), (-1, 1))
    ends = np.minimum(steps * np.arange(1, n_times + 1.0), duration[:, None])
    column = np.arange(n_times)
    ends = np.where(column >= length[:, None] - 1, duration[:, None], ends)
    quantities = np.concatenate([np.diff(ends, axis=1, prepend=0.0)[:, :, None], runs], axis=2)
    quantities[column >= length[:, None]] = 0.0
    quantities[length == 0] = np.nan
    return quantities, length


def _amounts(
    runs: Floats, duration: Floats, interval: ArrayLike, clock: int, expected: ArrayLike | None
) -> tuple[Floats, Floats, Floats]:
    """Progress at all edges (n, time + 1), totals (n,), amounts of the others (n, time, d).

    The progress of a run that was cut ends below 1.
    """
    flat = runs.reshape(-1, *runs.shape[-2:])
    quantities, _ = _quantities(flat, duration.reshape(-1), interval)
    position, total = _positions(quantities, clock)
    if expected is not None:
        wanted = np.broadcast_to(np.asarray(expected, dtype=float), duration.shape).reshape(-1)
        cut = np.isfinite(wanted) & np.isfinite(total)
        # a run that was cut had not ended, even with more counts than expected
        least = np.maximum(wanted[cut], total[cut] * (1.0 + _NOT_ENDED))
        position[cut] *= (total[cut] / least)[:, None]
        total[cut] = least
    return position, total, np.ascontiguousarray(np.delete(quantities, clock, axis=2))


def _cut(state: Floats, position: Floats, edges: Floats) -> None:
    """Set to NaN, in place, the bins (n, bins, d) after the cut of a run."""
    end = position[:, -1]
    missing = (end < 1.0 - _NOT_ENDED / 2)[:, None] & (edges[1:] > end[:, None])
    if missing.any():
        state[missing] = np.nan


def _positions(quantities: Floats, clock: int) -> tuple[Floats, Floats]:
    """Progress at all edges of the intervals (n, time + 1), and totals of its counter.

    NaN throughout for a missing run, a total of zero, or a missing sample of the progress counter.
    """
    position = _cumulative(quantities[:, :, clock])
    total = position[:, -1].copy()
    with np.errstate(invalid="ignore", divide="ignore"):
        position /= np.where(total > 0, total, np.nan)[:, None]
    return position, total


def _cumulative(amounts: Floats) -> Floats:
    position = np.zeros((len(amounts), amounts.shape[1] + 1))
    np.cumsum(amounts, axis=1, out=position[:, 1:])
    return position
