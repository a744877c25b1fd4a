"""Counts placed within their sampling intervals, by trends that are fitted to counts so placed.

An interval says what was counted in a stretch of progress, not where.  A trend over contexts says
where within it counts belong, and is fitted to counts that are placed so: in turn, a few times.

Intervals of other runs begin elsewhere, so that all of them together tell more.  Amounts per bin
are sought that, summed over every run's intervals, give what was counted (Richardson, 1972; Lucy,
1974).  What a bin holds depends on the context, and one context's runs tell little: the correction
of a bin is the mean of those of the contexts around it, at first of all.  Steps are extrapolated
along the one before (Biggs and Andrews, Applied Optics 36(8), 1997).  Time, which caps make uneven
over the contexts, follows from one law of all intervals (:mod:`msbgen.trend.joint`).  Whether all
that is better is decided by the intervals of left-out contexts: by their time and, of partial runs
where counters are known from less than time is, by their counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from msbgen.core.contexts import squared_distances
from msbgen.generate import _kernels
from msbgen.generate.clock import uniform_knots
from msbgen.generate.partial import fill_means
from msbgen.generate.runs import Runs
from msbgen.trend.fit import Trend, fit_trend
from msbgen.trend.folds import Folds
from msbgen.trend.joint import Windows

Floats = NDArray[np.float64]

# Corrections by what all contexts share, then by what those within a fifth of the length scales
# of a quantity do.
_SHARED_STEPS, _NEAR_STEPS, _REACH = 20, 10, 0.2
# A step follows the one before by at most this share, and a correction is at least that.
_MOST_MOMENTUM, _LEAST_RATIO = 0.95, 1e-3
# Times that what no run of a context was seen to do is taken from the trend fitted with it.
_FILLINGS = 3
# One law of all intervals has to lower the error of left-out intervals by this factor.
_GAIN = 0.95
# Amounts below this share of their mean are none.
_NEGLIGIBLE = 1e-12


def deconvolved_trend(
    runs: Runs, segments: int, sharpenings: int, done: Callable[[], None], *, counters: bool = False
) -> tuple[Trend, Floats]:
    """Trend of the states and the runs' states, each placed by the other.

    Parameters
    ----------
    runs : Runs
    segments : int
        Sums of bins by which the trend decides on caps.
    sharpenings : int
        Times that the trend places the counts of a sampling interval within it, and is fitted
        again.
    done : callable
        Called after each fit.
    counters : bool
        Whether counters, too, say if one law of all intervals is used.  Where time is known from
        more than they are it judges for the trend: then it is enough that the law is not worse for
        time and clearly better for all quantities together.

    Returns
    -------
    trend : Trend
    state : ndarray, (n, bins, k)
    """
    means = runs.amounts(runs.state)
    everywhere = np.isfinite(means).all(axis=(0, 2))
    chosen = filled = means
    if not everywhere.all():
        rough = fit_trend(runs.contexts, means, weights=runs.weight, find_caps=False)
        filled = fill_means(means, rough)
        # what was seen in every context decides on form, smoothness and caps, if there is any
        chosen = filled[:, everywhere] if everywhere.any() else filled
    spread = fit_trend(
        runs.contexts,
        chosen,
        weights=runs.weight,
        # a cap is on a counter per time, which is a state only where time is not the clock
        find_caps=runs.clock != 0,
        segments=min(segments, chosen.shape[1]),
    )
    if not everywhere.all():
        for _ in range(_FILLINGS):
            spread = spread.refit(filled, weights=runs.weight)
            filled = fill_means(means, spread)
    done()
    trend, state = spread, runs.state
    for _ in range(sharpenings):
        state = runs.sharpened(trend)
        trend = trend.refit(fill_means(runs.amounts(state), trend), weights=runs.weight)
        done()
    n, m = runs.contexts.shape
    if sharpenings == 0 or runs.clock == 0 or n < m + 3:
        return trend, state
    joined, placed = joint_trend(runs, spread)
    time = [left_out_error(runs, law, [0]) for law in (trend, joined)]
    better = _clearly_better(time[1], time[0])
    if counters and not better and time[1] < time[0]:
        every = [left_out_error(runs, law, range(state.shape[2])) for law in (trend, joined)]
        better = _clearly_better(every[1], every[0])
    return (joined, placed) if better else (trend, state)


def left_out_error(runs: Runs, trend: Trend, quantities: Iterable[int]) -> float:
    """How far a trend is off in the intervals of left-out contexts: geometric mean of quantities.

    Of time and those counters that counted anything; [s] of time alone.
    """
    folds = Folds.of(runs.contexts)
    left_out = trend.left_out(folds)
    seen = {q: interval_windows(runs, q) for q in quantities}
    errors = [w.error(left_out[..., q], folds) for q, w in seen.items() if w.time.any()]
    return float(np.prod(errors) ** (1 / len(errors)))


def _clearly_better(joined: float, trend: float) -> bool:
    """Whether one law of all intervals meets those left out clearly better than the trend."""
    return joined < _GAIN * trend


def joint_trend(runs: Runs, trend: Trend) -> tuple[Trend, Floats]:
    """A trend whose time is one law of all intervals, and the runs' states as it places them.

    The clock of `runs` is not time; `trend` is that of their states.
    """
    n, state = len(runs.contexts), runs.state
    everywhere = np.ones((state.shape[2] - 1, n, n))
    for near, steps in ((everywhere, _SHARED_STEPS), (neighbours(trend), _NEAR_STEPS)):
        counts = deconvolved_counts(runs, trend.predict(runs.contexts)[..., 1:], near, steps)
        state = np.concatenate([state[..., :1], counts], axis=2)
        means = fill_means(runs.amounts(state, placed=False), trend)
        trend = trend.refit(means, weights=runs.weight)
    joined = trend.joined(interval_windows(runs))
    time = runs.sharpened(joined, shared_steps=0)[..., :1]
    state = np.concatenate([time, state[..., 1:]], axis=2)
    means = fill_means(runs.amounts(state), trend)
    trend = replace(trend, whole=()).refit(means, weights=runs.weight)
    return replace(trend, whole=joined.whole, joint=joined.joint), state


def neighbours(trend: Trend) -> Floats:
    """How much the known contexts have to do with each other, for each counter, (k − 1, n, n)."""
    known = trend.scaled(trend.contexts)
    places = [known / (_REACH * lengths) for lengths in trend.lengths[1:]]
    return np.array([np.exp(-0.5 * squared_distances(place, place)) for place in places])


def deconvolved_counts(runs: Runs, prior: Floats, near: Floats, steps: int) -> Floats:
    """Amounts of the counters in each bin of the runs, NaN where not seen, (n, bins, k − 1).

    Parameters
    ----------
    runs : Runs
    prior : ndarray, (n_known, bins, k − 1)
        Amounts to begin with.
    near : ndarray, (k − 1, n_known, n_known)
        Weights of the contexts in each other's corrections.
    steps : int
    """
    position, amounts = runs.intervals
    amounts = np.ascontiguousarray(amounts[..., 1:])
    knots, unseen = uniform_knots(prior.shape[1]), np.isnan(runs.state[..., 1:])
    weight = runs.seen(runs.state)[..., 1:].astype(float)
    floor = np.maximum(_NEGLIGIBLE * prior.mean(axis=(0, 1)), 1e-300)
    state = runs.state.copy()
    out = np.empty((len(amounts), *prior.shape[1:]))

    def place(prior: Floats) -> Floats:
        _kernels.rebin_in_proportion(position, amounts, knots, prior[runs.context], out)
        out[unseen] = np.nan
        return out

    at = last = np.log(prior + floor)
    moved = np.zeros_like(at)
    for _ in range(steps):
        expected = np.exp(at)
        state[..., 1:] = place(expected)
        means = np.where(weight > 0, runs.amounts(state, placed=False)[..., 1:], 0.0)
        held, step = weight * means, np.empty_like(at)
        for k, kernel in enumerate(near):
            had = kernel @ (weight[..., k] * expected[..., k])
            ratio = np.divide(kernel @ held[..., k], had, out=np.ones_like(had), where=had > 0)
            step[..., k] = np.log(np.maximum(ratio, _LEAST_RATIO))
        reached = at + step
        size = np.exp(reached) * moved
        along = (size * step).sum(axis=(0, 1)) / np.maximum((size * moved).sum(axis=(0, 1)), 1e-300)
        at = np.maximum(
            reached + np.clip(along, 0.0, _MOST_MOMENTUM) * (reached - last), np.log(floor) - 20.0
        )
        last, moved = reached, step
    return place(np.exp(last))


def interval_windows(runs: Runs, quantity: int = 0) -> Windows:
    """The time of the runs' sampling intervals, each run's as long as its context's mean.

    Or another quantity, of the runs that hold it.
    """
    position, amounts = runs.intervals
    amount, shape = amounts[..., quantity], (len(runs.contexts), runs.state.shape[1])
    if quantity == 0:
        return Windows.of_runs(position, amount * runs.evened[:, None], runs.context, shape)
    held = np.isfinite(runs.state[:, 0, quantity])
    return Windows.of_runs(position[held], amount[held], runs.context[held], shape)
