"""Deconvolution of counts within their sampling intervals, alternating with fits of a trend.

An interval gives the count of a stretch of progress, not where in it the events occurred.  A trend
over contexts predicts where, and is fitted to counts that were deconvolved with it: a few times in
turn.

Intervals of other runs begin elsewhere, so that all of them together resolve more than each.  The
amounts per bin are those that, summed over every run's intervals, give the counts (Richardson,
1972; Lucy, 1974).  The amounts of a bin depend on the context, and one context has few runs.  The
correction of a bin is therefore the mean over the contexts around it, at first over all.  Steps are
extrapolated along the one before (Biggs and Andrews, Applied Optics 36(8), 1997).

Caps make time uneven over the contexts.  Time therefore follows from the time model
(:mod:`msbgen.engine.trend.time_model`) if that predicts the intervals of left-out contexts clearly
better.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from msbgen.core.contexts import (
    are_many,
    near_weights,
    representative_contexts,
    squared_distances,
)
from msbgen.core.lazy import lazy_module
from msbgen.engine.generate.partial import fill_means
from msbgen.engine.generate.progress import uniform_knots
from msbgen.engine.generate.runs import Runs
from msbgen.engine.trend.coordinates import names_for_all
from msbgen.engine.trend.fit import Trend, choosing_contexts, fit_trend
from msbgen.engine.trend.folds import Folds
from msbgen.engine.trend.time_model import Windows

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_kernels = lazy_module("msbgen.engine.generate._kernels")

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]


@dataclass(frozen=True)
class DeconvolutionSettings:
    """Settings of the deconvolution."""

    shared_steps: int = 20  # corrections by the mean over all contexts
    near_steps: int = 10  # corrections by the mean over the contexts around, after these
    reach: float = 0.2  # kernel width of the contexts around, in length scales of a quantity
    # largest share of the last step that is repeated; with 1 steps would never end
    most_momentum: float = 0.95
    # least correction of a bin in one step: a bin that is zero once would stay zero
    least_ratio: float = 1e-3
    # fits with the trend's own predictions where no run of a context measured a quantity
    fill_steps: int = 3
    # error of left-out intervals over that of the trend, below which the time model is used: a
    # smaller gain may be chance
    time_model_gain: float = 0.95
    # the same for few single runs over several resources: without one of three levels, the parts of
    # the time model are hardly determined.  Where its error is more than twice the trend's, as in
    # eight contexts over three resources, it is indeed the worse one.
    time_model_gain_of_few: float = 2.0
    time_contexts: int = 1000  # contexts that a time model of many is fitted to
    negligible: float = 1e-12  # amounts below this share of their mean are rounding


_SETTINGS = DeconvolutionSettings()
# Least floor of the amounts, and how far below the floor logarithms go: far above the least number.
_LEAST_FLOOR, _DEEPEST = 1e-280, 20.0


def deconvolved_trend(
    runs: Runs,
    segments: int,
    deconvolutions: int,
    step: Callable[[], None],
    *,
    counters: bool = False,
) -> tuple[Trend, Floats]:
    """Trend of the states, and the runs' states deconvolved with it, (n, bins, k).

    The trend decides on caps by `segments` sums of bins.  Counts are deconvolved `deconvolutions`
    times with the trend as the prior, and the trend is fitted again; `step` is called after each
    fit.

    The time model is used if it predicts time clearly better; for few single runs over several
    resources, if it is not twice as bad.  `counters` is for measurements in which more runs have
    times than counts: errors of time alone favour the trend there.  The time model is then also
    used if it is better for time, and clearly better for all quantities together.

    Of many contexts, representative ones decide on the form of the trend, its parameters, caps and
    time model.  All contexts are then deconvolved and fitted with these, step by step once more.
    """
    if are_many(runs.contexts):
        part = runs.of_contexts(choosing_contexts(runs.contexts))
        chosen = deconvolved_trend(part, segments, deconvolutions, step, counters=counters)
        return _trend_like(chosen[0], runs, deconvolutions, step)
    even = _trend_of_even_counts(runs, segments)
    step()
    trend, state = even, runs.state
    for _ in range(deconvolutions):
        state = runs.deconvolved(trend)
        trend = trend.refit(fill_means(runs.amounts(state), trend), weights=runs.weight)
        step()
    n, m = runs.contexts.shape
    if deconvolutions == 0 or runs.clock == 0 or n < m + 3:
        return trend, state
    with_model, model_state = trend_with_time_model(runs, even)
    time = [left_out_error(runs, one, [0]) for one in (trend, with_model)]
    gain = _SETTINGS.time_model_gain_of_few if _are_few(runs) else _SETTINGS.time_model_gain
    better = _is_better(time[1], time[0], gain)
    if counters and not better and time[1] < time[0]:
        every = [left_out_error(runs, one, range(state.shape[2])) for one in (trend, with_model)]
        better = _is_better(every[1], every[0], _SETTINGS.time_model_gain)
    return (with_model, model_state) if better else (trend, state)


def _trend_of_even_counts(runs: Runs, segments: int) -> Trend:
    """Trend of the runs' states, of counts spread evenly within the sampling intervals.

    What was not measured is filled in by a first trend, of the contexts whose time is known
    throughout.  Values that were filled in may mislead the choice of parameters.  So if some
    contexts lack a time, all are also fitted with the parameters of the first trend.  The better of
    both for the measured intervals of left-out contexts is returned.
    """

    def fitted(rows: Indices | slice, states: Floats) -> Trend:
        return fit_trend(
            runs.contexts[rows],
            states[rows],
            weights=runs.weight[rows],
            coordinates=names_for_all(runs.contexts[rows], runs.contexts),
            # a cap is on a counter per time, which is a state only where progress is not wall time
            find_caps=runs.clock != 0,
            segments=min(segments, states.shape[1]),
        )

    def settled(trend: Trend, filled: Floats) -> Trend:
        for _ in range(_SETTINGS.fill_steps):
            trend = trend.refit(filled, weights=runs.weight, contexts=runs.contexts)
            filled = fill_means(means, trend)
        return trend

    means, rows = runs.amounts(runs.state), runs.timed_contexts
    if np.isfinite(means).all():
        return fitted(slice(None), means)
    first = fitted(rows, means)
    filled = fill_means(means, first, runs.contexts)
    # bins measured in every context, if any, decide on form, smoothness and caps
    everywhere = np.isfinite(means[rows]).all(axis=(0, 2))
    chosen = filled[:, everywhere] if everywhere.any() else filled
    trend = settled(fitted(slice(None), chosen), filled)
    if len(rows) == len(means):
        return trend
    return min((trend, settled(first, filled)), key=lambda one: left_out_error(runs, one, [0]))


def _trend_like(
    chosen: Trend, runs: Runs, deconvolutions: int, step: Callable[[], None]
) -> tuple[Trend, Floats]:
    """The trend of all runs and their states, as of `deconvolved_trend`, with chosen parameters."""
    plain = replace(chosen, sums=(), time_model=()) if chosen.time_model else chosen
    filled = fill_means(runs.amounts(runs.state), chosen, runs.contexts)
    trend, state = plain.refit(filled, weights=runs.weight, contexts=runs.contexts), runs.state
    step()
    if chosen.time_model:
        trend, state = trend_with_time_model(runs, trend, chosen)
    for _ in range(deconvolutions):
        if not chosen.time_model:
            state = runs.deconvolved(trend)
            trend = trend.refit(fill_means(runs.amounts(state), trend), weights=runs.weight)
        step()
    return trend, state


def left_out_error(runs: Runs, trend: Trend, quantities: Iterable[int]) -> float:
    """Error of a trend in the intervals of left-out contexts: geometric mean over quantities.

    Over time and the counters that counted anything; [s] for time alone.
    """
    folds = Folds.of(runs.contexts)
    left_out = trend.left_out(folds)
    windows = {q: interval_windows(runs, q) for q in quantities}
    errors = [w.error(left_out[..., q], folds) for q, w in windows.items() if w.time.any()]
    return float(np.prod(errors) ** (1 / len(errors)))


def _are_few(runs: Runs) -> bool:
    """Whether runs are few single ones over several resources."""
    n, m = runs.contexts.shape
    several = (np.ptp(runs.contexts, axis=0) > 0).sum() > 1
    return bool(several and n < 2 * (m + 3) and runs.n_runs.max() == 1)


def _is_better(time_model: float, trend: float, gain: float) -> bool:
    """Whether the error of the time model is below `gain` times that of the trend."""
    return time_model < gain * trend


def trend_with_time_model(
    runs: Runs, trend: Trend, like: Trend | None = None
) -> tuple[Trend, Floats]:
    """Trend whose time follows the time model, and the runs' states deconvolved with it.

    Progress of `runs` is not measured by time; `trend` is that of their states.  The parameters are
    those of the time model of the trend `like`, where it is given.
    """
    trend, counts = _resolved_counts(runs, trend)
    if like is None:
        with_model = trend.with_time_model(interval_windows(runs))
    else:
        rows = representative_contexts(runs.contexts, _SETTINGS.time_contexts)
        windows = interval_windows(runs.of_contexts(rows))
        with_model = trend.with_time_model_of(like, windows, rows)
    time = runs.deconvolved(with_model, shared_steps=0)[..., :1]
    state = np.concatenate([time, in_runs(runs, counts)], axis=2)
    means = fill_means(runs.amounts(state), trend)
    trend = replace(trend, sums=()).refit(means, weights=runs.weight)
    return replace(trend, sums=with_model.sums, time_model=with_model.time_model), state


def _resolved_counts(runs: Runs, trend: Trend) -> tuple[Trend, Floats]:
    """Trend of counts that all intervals together resolve, and these (n_known, bins, k − 1).

    Counts are deconvolved with corrections that all contexts share, then with those around each.
    """
    time, counts = runs.means(runs.state[..., :1]), runs.state[:0, :, 1:]
    for kernels, steps in (
        (everywhere(trend), _SETTINGS.shared_steps),
        (neighbours(trend), _SETTINGS.near_steps),
    ):
        prior = trend.predict(runs.contexts)[..., 1:]
        counts, means = deconvolved_counts(runs, prior, kernels, steps)
        states = np.concatenate([time, means], axis=2)
        trend = trend.refit(fill_means(states, trend), weights=runs.weight)
    return trend, counts


def trend_of_counts(runs: Runs, like: Trend, deconvolutions: int) -> Trend:
    """Trend of the counts of some runs, deconvolved with these alone; its time is not deconvolved.

    The parameters are those of the trend `like`, whose kind of deconvolution is used: with a time
    model that of counts alone, else `deconvolutions` steps with the trend as the prior.
    """
    plain = replace(like, caps=(), sums=(), time_model=())
    filled = fill_means(runs.amounts(runs.state), like, runs.contexts)
    trend = plain.refit(filled, weights=runs.weight, contexts=runs.contexts)
    if like.time_model:
        return _resolved_counts(runs, trend)[0]
    for _ in range(deconvolutions):
        means = fill_means(runs.amounts(runs.deconvolved(trend)), trend)
        trend = trend.refit(means, weights=runs.weight)
    return trend


def everywhere(trend: Trend) -> list[Floats]:
    """Equal weights of the known contexts for each counter: one row for all of them, (1, n)."""
    return [np.ones((1, len(trend.contexts)))] * (len(trend.lengths) - 1)


def neighbours(trend: Trend) -> list[Floats] | list[csr_array]:
    """Kernel weights between the known contexts for each counter, (n, n); sparse for many."""
    known = trend.scaled(trend.contexts)
    scaled = [known / (_SETTINGS.reach * lengths) for lengths in trend.lengths[1:]]
    if are_many(known):
        return [near_weights(z, z) for z in scaled]
    return [np.exp(-0.5 * squared_distances(z, z)) for z in scaled]


def deconvolved_counts(
    runs: Runs, prior: Floats, kernels: Sequence[Floats | csr_array], steps: int
) -> tuple[Floats, Floats]:
    """Expected amounts of the counters in each bin, and their means over the runs with these.

    (n_known, bins, k − 1) each.  The means are those of `Runs.amounts`, NaN where no run measured
    a counter.  `prior` (n_known, bins, k − 1) is a first estimate of the amounts; each of the k − 1
    `kernels`, (n_known, n_known) or (1, n_known), has the weights of the contexts in each other's
    corrections.
    """
    position, amounts = runs.intervals
    amounts, bins = np.ascontiguousarray(amounts[..., 1:]), prior.shape[1]
    missing = _counters_first(np.isnan(runs.state[..., 1:]))
    factors = runs.time_factors(runs.state, time_resolved=False)
    floor = np.maximum(_SETTINGS.negligible * prior.mean(axis=(0, 1)), _LEAST_FLOOR)

    # counters first, so that the steps of each are products of contiguous matrices
    weight = _counters_first(runs.n_finite(runs.state)[..., 1:].astype(float))
    start = _counters_first(prior + floor)
    least = np.log(floor)[:, None, None] - _DEEPEST - np.log(start)
    highest_least = least.max(axis=1, keepdims=True)
    expected, part, sums = (np.empty_like(start) for _ in range(3))
    given = bins * position, amounts, expected, runs.context, missing, sums
    # logarithms over the start, (k − 1, rows, bins): one row while those of all contexts are equal
    is_shared = all(isinstance(kernel, np.ndarray) and len(kernel) == 1 for kernel in kernels)
    rows = 1 if is_shared else len(prior)
    at = last = last_step = np.zeros((len(start), rows, bins))

    def distribute(logs: Floats) -> None:
        np.multiply(start, np.exp(logs), out=expected)
        sums[:] = 0.0
        _kernels.sum_in_proportion(*given)
        for k, factor in factors.items():
            sums[k - 1] *= factor

    for _ in range(steps):
        distribute(at)
        np.multiply(weight, expected, out=part)
        step = np.empty((len(start), rows, bins))
        for k, kernel in enumerate(kernels):
            before, after = kernel @ part[k], kernel @ sums[k]
            ratio = np.divide(after, before, out=np.ones_like(before), where=before > 0)
            np.maximum(ratio, _SETTINGS.least_ratio, out=ratio)
            expected[k] *= ratio
            np.log(ratio, out=step[k])
        reached = at + step
        size = expected.sum(axis=1, keepdims=True) if reached.shape[1] == 1 else expected
        size *= last_step
        along = np.einsum("knb,knb->k", size, step)
        along /= np.maximum(np.einsum("knb,knb->k", size, last_step), 1e-300)
        momentum = np.clip(along, 0.0, _SETTINGS.most_momentum)[:, None, None]
        at = reached - last
        at *= momentum
        at += reached
        if (at < highest_least).any():
            at = np.maximum(at, least)
        last, last_step = reached, step
    distribute(last)
    means = np.divide(sums, weight, out=np.full_like(sums, np.nan), where=weight > 0)
    return _counters_last(expected), _counters_last(means)


def in_runs(runs: Runs, expected: Floats) -> Floats:
    """Amounts of the counters in each bin of the runs, NaN where not measured, (n, bins, k − 1).

    In proportion to the expected ones of the contexts, (n_known, bins, k − 1).
    """
    position, amounts = runs.intervals
    counts, knots = np.ascontiguousarray(amounts[..., 1:]), uniform_knots(expected.shape[1])
    out = np.empty((len(counts), *expected.shape[1:]))
    _kernels.rebin_in_proportion(position, counts, knots, expected, runs.context, out)
    out[np.isnan(runs.state[..., 1:])] = np.nan
    return out


def _counters_first(values: NDArray[Any]) -> NDArray[Any]:
    """The same values (n, bins, k), as a contiguous array (k, n, bins)."""
    return np.ascontiguousarray(np.moveaxis(values, 2, 0))


def _counters_last(values: Floats) -> Floats:
    """The same values (k, n, bins), as a contiguous array (n, bins, k)."""
    return np.ascontiguousarray(np.moveaxis(values, 0, 2))


def interval_windows(runs: Runs, quantity: int = 0) -> Windows:
    """Amounts of a quantity in the sampling intervals of the runs that hold it.

    Times are scaled so that each run is as long as the mean run of its context.
    """
    position, amounts = runs.intervals
    amount, shape = amounts[..., quantity], (len(runs.contexts), runs.state.shape[1])
    if quantity == 0:
        scaled = amount * runs.time_scale[:, None]
        return Windows.of_runs(position, scaled, runs.context, shape, runs.untimed)
    measured = np.isfinite(runs.state[:, 0, quantity])
    return Windows.of_runs(position[measured], amount[measured], runs.context[measured], shape)
