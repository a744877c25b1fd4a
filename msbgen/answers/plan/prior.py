"""Priors, noise and costs of a task for a plan, from a fitted distribution or without measurements.

From a distribution.  Each quantity of its trend (time and events per bin of progress) is a Gaussian
process with the trend's length scales.  The amplitude is calibrated on known contexts, each left
out in turn: their predicted errors are equal to the observed ones in the mean square.  Expected
errors are those of a typical context.  Without a similar known context, errors at the end of a
resource's range (the lowest bandwidth with few ways) are up to ten times as large.

The weight of an error is its effect on the profile, with each counter divided by its largest value,
as in the scaled normalised DTW.  Run-to-run noise is the variance within contexts.  The rest of the
trend's nugget is misfit, which repetition does not remove.  Under a cap, the uncertainty of time
is that of the time without the cap, times its share at each context.  A capped context says little
about the time without the cap.

Without measurements.  The coordinates are logarithms of the levels; lengths and noise are the
defaults of the trend.  A run is assumed to be slower at lower levels, which then cost more.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from msbgen.core.contexts import are_many
from msbgen.core.errors import ArgumentError, MeasurementError
from msbgen.data.schema import same_level
from msbgen.engine.generate.distribution import ProfileDistribution
from msbgen.engine.generate.word_columns import NUMBERS, WordColumns
from msbgen.engine.trend.covariance import prior_covariance
from msbgen.engine.trend.fit import Trend, fit_trend
from msbgen.engine.trend.low_rank import LowRankVariance

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

# Longest plausible run: a hundred years [s].
_LONGEST = 3e9
# Length scale and nugget of the trend before it is fitted.
_LENGTH, _NUGGET = 1.6, 1e-3
# Exponent of the time in the ratio of the highest level to a level, shared by the resources.
_STEEPNESS = 1.0
# Least information of a time at a cap, as a share of that of an unthrottled time.
_LEAST_INFORMATION = 0.05
# Fewest runs, in contexts with several, to estimate the variance within contexts.
_FEW_RUNS = 6
# Condition on planned times where neither measurements nor a user gave the time of a run.
UNTIMED = "if a run at the highest levels takes 1 s (set by --run-seconds, run_seconds)"
# Factors by which times of the power law may be wrong: of a whole plan, and of single rows.  Of the
# six programs that ship, scaled to one to five measured contexts or to the highest levels, the
# largest were 1.9 and 5.8.
PLAN_FACTOR, ROW_FACTOR = 2, 6


@dataclass(frozen=True, eq=False)
class Quantity:
    """Prior of one quantity, and its earlier measurements."""

    # scaled coordinate of each level of each resource, (levels,); of words (levels, columns)
    axes: tuple[Floats, ...]
    lengths: Floats  # (m,) of all coordinates
    importance: float  # squared error of a profile for unit variance of this quantity
    # (N,): share of the variance in that of the profile at each context; not negative
    weight: Floats
    misfit: float  # variance that repetition does not remove
    noise: float  # variance of one run
    points: Floats  # (n, m): scaled coordinates of the measured contexts
    runs: Floats  # (n,): number of runs of each of them
    # (N,): factor ≥ 1 on the variance of an observation of each context: where a cap binds, the
    # time informs little on the unthrottled time
    noise_factor: Floats
    measured_noise_factor: Floats  # (n,): the factor of the measured contexts

    @property
    def measured_noise(self) -> Floats:
        """Variance of the earlier measurements, (n,)."""
        return self.measured_noise_factor * (self.misfit + self.noise / self.runs)

    def step_noise(self, before: Floats, runs: int | Indices, index: Indices) -> Floats:
        """Variance of the observation by `runs` more runs of contexts `index` (q,), (q,).

        The contexts (N,) have the runs `before`.
        """
        done = before[index]
        after = 1.0 / (self.misfit + self.noise / (done + runs))
        earlier = np.where(done > 0, done, 1.0)
        known = np.where(done > 0, 1.0 / (self.misfit + self.noise / earlier), 0.0)
        return self.noise_factor[index] / np.maximum(after - known, 1e-300)


@dataclass(frozen=True, eq=False)
class Prior:
    """Priors, costs and earlier runs of all contexts of a platform."""

    quantities: list[Quantity]  # over the contexts of the platform, the product of the levels
    cost: Floats  # (N,): of one run of each context [s]
    before: Floats  # (N,): number of runs that each context has
    n_known: int  # number of measured contexts, also of those that are not on the platform
    noise: float  # deviation of one run from the mean of its context, in the units of errors
    # whether errors are those of profiles, calibrated on held-out known contexts; else their scale
    # is not known
    calibrated: bool


def prior_of_levels(axes: Sequence[Floats], run_seconds: float = 1.0) -> Prior:
    """Prior of a task without measurements, on a platform with the given rising levels.

    `run_seconds` is the approximate time of a run at the highest levels [s].  ArgumentError for
    levels so far apart that a run at the lowest would take a hundred years.
    """
    known = np.empty((0, len(axes)))
    with np.errstate(over="ignore"):
        cost = run_seconds * _power_law_cost(axes)
    if not cost.max() < _LONGEST:
        raise ArgumentError(
            f"a run at the lowest levels would take {cost.max():.3g} s; levels that are closer, or "
            f"another time of a run at the highest ones, are wanted."
        )
    return _default_prior(axes, cost, known, np.empty(0))


def prior_of_distribution(
    distribution: ProfileDistribution, axes: Sequence[Floats], words: WordColumns = NUMBERS
) -> Prior:
    """Prior of a measured task on a platform of these levels; ArgumentError without a trend.

    MeasurementError where the trend's errors or times are not finite.

    `words` are the columns of the distribution for levels that are words.
    """
    known, centre = words.decode(distribution.contexts), distribution.centre
    runs = np.isfinite(centre.total).sum(axis=1).astype(float)
    if len(known) < len(axes) + 3:
        # too few to fit parameters: the default prior, with costs scaled to the measured times
        cost = _power_law_cost(axes)
        duration = np.nanmean(distribution.duration, axis=1)
        near = [nearest_index(axes, row) for row in known]
        scale = np.exp(np.mean(np.log(duration / cost[near])))
        return _default_prior(axes, cost * scale, known, runs)
    platform = words.encode(all_points(axes))
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # a check follows
        durations, free_share = _durations(distribution, platform)
        quantities, noise = _fitted_quantities(distribution, axes, free_share, runs, words)
        before = _before(axes, known, runs)
    figures = [durations, noise]
    for one in quantities:
        figures += [one.lengths, one.importance, one.weight, one.misfit, one.noise]
        figures += [one.noise_factor, one.measured_noise_factor]
    if not all(np.isfinite(figure).all() for figure in figures):
        raise MeasurementError(
            "the fitted trend gives errors or times that are not finite: fit the model again."
        )
    return Prior(quantities, durations, before, len(known), noise, True)


def all_points(axes: Sequence[Floats]) -> Floats:
    """Product of the axes, (N, m), the last one fastest; an axis may have several columns."""
    rows = np.meshgrid(*(np.arange(len(axis)) for axis in axes), indexing="ij")
    return np.column_stack([axis[row.ravel()] for axis, row in zip(axes, rows)])


def nearest_index(axes: Sequence[Floats], context: Floats) -> int:
    """Index in the product of the axes of the context that is nearest, axis by axis."""
    index = [int(np.argmin(np.abs(axis - level))) for axis, level in zip(axes, context)]
    return int(np.ravel_multi_index(index, [len(axis) for axis in axes]))


def is_on_axes(axes: Sequence[Floats], context: Floats) -> bool:
    """Whether a context is one of the product of the axes, up to rounding."""
    nearest = (axis[np.argmin(np.abs(axis - level))] for axis, level in zip(axes, context))
    return all(same_level(near, level) for near, level in zip(nearest, context))


def _before(axes: Sequence[Floats], known: Floats, runs: Floats) -> Floats:
    """Number of runs that each context of the platform has, (N,)."""
    before = np.zeros(int(np.prod([len(axis) for axis in axes])))
    for row, n in zip(known, runs):
        if is_on_axes(axes, row):
            before[nearest_index(axes, row)] = n
    return before


# ------------------------------------------------------------------ without measurements


def _log_axes(axes: Sequence[Floats]) -> list[Floats]:
    """Logarithms of positive levels, or the levels, scaled to [−1/2, 1/2] for each resource."""
    out = []
    for axis in axes:
        values = np.log(axis) if axis[0] > 0 else axis
        span = float(np.ptp(values))
        out.append((values - values[0]) / span - 0.5 if span > 0 else np.zeros(len(values)))
    return out


def _default_prior(axes: Sequence[Floats], cost: Floats, known: Floats, runs: Floats) -> Prior:
    """Prior of one quantity with the default parameters of the trend."""
    z = _log_axes(axes)
    size = int(np.prod([len(axis) for axis in axes]))
    points = np.stack([np.interp(known[:, r], axis, z[r]) for r, axis in enumerate(axes)], axis=1)
    quantity = Quantity(
        axes=tuple(z),
        lengths=np.full(len(axes), _LENGTH),
        importance=1.0,
        weight=np.ones(size),
        misfit=0.0,
        noise=_NUGGET,
        points=points,
        runs=runs,
        noise_factor=np.ones(size),
        measured_noise_factor=np.ones(len(known)),
    )
    return Prior([quantity], cost, _before(axes, known, runs), len(known), _NUGGET**0.5, False)


def _power_law_cost(axes: Sequence[Floats]) -> Floats:
    """Time relative to that at the highest levels, (N,), by a power law of positive levels."""
    cost = np.ones(1)
    for axis in axes:
        slower = (
            (axis[-1] / axis) ** (_STEEPNESS / len(axes)) if axis[0] > 0 else np.ones(len(axis))
        )
        cost = (cost[:, None] * slower).ravel()
    return cost


# ------------------------------------------------------------------ from a distribution


def _durations(distribution: ProfileDistribution, contexts: Floats) -> tuple[Floats, Floats]:
    """Execution time of each context by the trend [s], and its free shares, (q, bins)."""
    centre = distribution.centre
    times, free_share = centre.trend.times(contexts)
    if centre.clock == 0:
        return centre.total_trend.predict(contexts)[:, 0, 0], free_share
    return times.sum(axis=1), free_share


def _fitted_quantities(
    distribution: ProfileDistribution,
    axes: Sequence[Floats],
    free_share: Floats,
    runs: Floats,
    words: WordColumns,
) -> tuple[list[Quantity], float]:
    """Prior of every quantity of the trend, and the deviation of one run from its context.

    `free_share` (N, bins) is that of the trend at the contexts of the platform.
    """
    fitted, states = distribution.centre.trend, distribution.known_states()
    trend = fitted
    if trend.form != "gaussian-process":
        # the local-linear form has no posterior: a process with the same coordinates replaces it
        trend = fit_trend(
            distribution.contexts, states, weights=runs, form="gaussian-process",
            coordinates=trend.coordinates, find_caps=False,
        )  # fmt: skip
    weights = runs / runs.mean()
    importance = _importance(states, trend.offset, distribution.centre.clock)
    squared = (np.log(trend.left_out_alone + trend.offset) - np.log(states + trend.offset)) ** 2
    spread = _spread(distribution, importance)
    scaled_axes, points, constant = _coordinates(trend, axes, words)
    quantities, noise = [], 0.0
    for k in range(states.shape[2]):
        lengths, nugget = trend.lengths[k].copy(), float(trend.nugget[k])
        share, point_share = np.ones(len(free_share)), np.ones(len(points))
        for cap in fitted.caps if k == 0 else ():
            lengths, nugget = cap.lengths.copy(), cap.nugget
            weight = importance[:, 0] / importance[:, 0].sum()
            # share of the unthrottled time's variance in that of the time, mean over the bins
            of_known = fitted.times(distribution.contexts)[1]
            share, point_share = (part**2 @ weight for part in (free_share, of_known))
        lengths[constant] = _LENGTH
        factor, point_factor = (
            1.0 / np.maximum(s, _LEAST_INFORMATION) for s in (share, point_share)
        )
        left_out = _left_out_variance(points, lengths, nugget * point_factor / weights)
        predicted = point_share * left_out + nugget / weights
        observed = (squared[..., k] @ importance[:, k]).mean()
        amplitude = float(max(observed, 1e-12) / predicted.mean())
        # without repeated runs the whole nugget may be noise
        one_run = nugget * runs.mean() if spread is None else spread[k] / amplitude
        noise += amplitude * one_run
        quantities.append(
            Quantity(
                axes=tuple(scaled_axes),
                lengths=lengths,
                importance=amplitude,
                weight=share,
                misfit=max(nugget - one_run / runs.mean(), 0.0),
                noise=max(one_run, 1e-9),
                points=points,
                runs=runs,
                noise_factor=factor,
                measured_noise_factor=point_factor,
            )
        )
    return quantities, float(np.sqrt(noise))


def _left_out_variance(points: Floats, lengths: Floats, noise: Floats) -> Floats:
    """Variance of each point (n, m) given observations of all others with noise (n,)."""
    if are_many(points):
        process = LowRankVariance(points, lengths, noise)
        return process.left_out([np.array([i]) for i in range(len(points))])
    covariance = prior_covariance(points, points, lengths) + np.diag(noise)
    return 1.0 / np.diag(np.linalg.inv(covariance)) - noise


def _coordinates(
    trend: Trend, axes: Sequence[Floats], words: WordColumns
) -> tuple[list[Floats], Floats, NDArray[np.bool_]]:
    """Levels and known contexts in the trend's coordinates, and coordinates of one known level."""
    points = trend.scaled(trend.contexts)
    constant = np.ptp(trend.contexts, axis=0) == 0
    scaled, r = [], 0
    for axis, codes in zip(axes, words.codes or ((),) * len(axes)):
        width = max(len(codes), 1)
        if constant[r] and not codes:
            z = _log_axes([axis])[0]
            points[:, r] = np.interp(trend.contexts[:, r], axis, z)
        else:
            contexts = np.tile(trend.contexts[0], (len(axis), 1))
            values = axis[:, None] == np.array(codes) if codes else axis[:, None]
            contexts[:, r : r + width] = values
            z = trend.scaled(contexts)[:, r : r + width]
            z = z if codes else z[:, 0]
        scaled.append(z)
        r += width
    return scaled, points, constant


def _importance(states: Floats, offset: Floats, clock: int) -> Floats:
    """Squared error of the scaled profile per squared error of each logarithm, (bins, k).

    The rate of a counter is its amount over the time, so that an error of time is one of every
    counter.  The rate of the progress counter is 1 / time.
    """
    time = np.maximum(states[..., 0], 1e-300)
    amounts = [(states[..., k] + offset[k], states[..., k]) for k in range(1, states.shape[2])]
    if clock != 0:
        amounts.append((np.ones_like(time), np.ones_like(time)))
    rates, size = [], np.zeros_like(time)
    for floored, amount in amounts:
        # a quantile: single bins, shorter than a sampling interval, are not the largest rate
        largest = max(float(np.quantile(amount / time, 0.995)), 1e-300)
        rates.append((floored / time / largest) ** 2)
        size += (amount / time / largest) ** 2
    share = time / time.sum(axis=1, keepdims=True)
    norm = np.quantile(size, 0.995, axis=1)[:, None]
    per_rate = [(share * rate / norm).mean(axis=0) for rate in rates]
    out = np.zeros((states.shape[1], states.shape[2]))
    out[:, 0] = np.sum(per_rate, axis=0) if per_rate else share.mean(axis=0)
    for k in range(1, states.shape[2]):
        out[:, k] = per_rate[k - 1]
    return out


def _spread(distribution: ProfileDistribution, importance: Floats) -> Floats | None:
    """Squared error of one run within its context, (k,); None with too few repeated runs."""
    run_context, residual = distribution.residuals.run_context, distribution.residuals.residual
    repeated = np.bincount(run_context)[run_context] > 1
    if repeated.sum() < _FEW_RUNS:
        return None
    return np.einsum("nbk,bk->k", residual[repeated] ** 2, importance) / repeated.sum()
