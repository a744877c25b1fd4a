"""What is known of a task before a plan: priors, noise and costs, from a law or from nothing.

From a law.  Each quantity of its trend (time, and events, per bin of progress) is a Gaussian
process with the length scales that the trend has learned.  Its amplitude is set so that the
predicted errors of known contexts, each left out in turn, are in the mean square the observed ones:
expected errors are calibrated on held-out known contexts.  They are those of a typical context: the
median over random contexts was 1.0 and 0.4 times the expected on two programs (gcc, bc), the root
mean square 1.6 to 6 times on three, as contexts at the end of a resource that no known one
resembles (the lowest bandwidth with few ways) depart tenfold.  An error counts by how much it moves
the profile, each counter divided by its largest value, as in the scaled normalised DTW.
Run-to-run noise is that among the runs of a context; what the trend's nugget holds beyond it is
misfit, which repetition does not remove.  Where the trend has found a cap, time has the uncertainty
of the unthrottled time, as far as that reaches it, and a throttled context tells little of it.

From nothing.  Logarithms of the levels, and lengths and noise as the trend has them before it has
seen enough; more of a resource is taken to be faster, so that low levels cost more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from msbgen.core.errors import ArgumentError
from msbgen.data.schema import same_level
from msbgen.generate.law import Law
from msbgen.trend.covariance import prior_covariance
from msbgen.trend.fit import Trend, fit_trend

Floats = NDArray[np.float64]

# No run takes as long as a hundred years [s].
_LONGEST = 3e9
# Before the trend can choose: its first length, its first nugget.
_LENGTH, _NUGGET = 1.6, 1e-3
# Time rises with this power of a level's distance from the highest one, shared by the resources.
_STEEPNESS = 1.0
# An observation of a time that a cap hides is worth at least this share of one in the open.
_LEAST_WORTH = 0.05
# Runs of contexts with several that tell how runs of one context differ.
_FEW_RUNS = 6


@dataclass(frozen=True, eq=False)
class Quantity:
    """What is known of one quantity before the plan.

    Attributes
    ----------
    axes : tuple of ndarray
        Scaled coordinate of each level of each resource.
    lengths : ndarray, (m,)
    importance : float
        Squared error of a profile for unit variance of this quantity.
    weight : ndarray, (N,)
        Share of the variance that reaches the profile at each context; not negative.
    misfit, noise : float
        Variance that repetition does not remove, and that of one run.
    points : ndarray, (n, m)
        Scaled coordinates of the measured contexts.
    runs : ndarray, (n,)
        Runs of each of them.
    sight : ndarray, (N,)
        Variance of an observation of a context over the usual one, at least 1: where a cap binds,
        the time tells little of the unthrottled time.
    point_sight : ndarray, (n,)
        The same of the measured contexts.
    """

    axes: tuple[Floats, ...]
    lengths: Floats
    importance: float
    weight: Floats
    misfit: float
    noise: float
    points: Floats
    runs: Floats
    sight: Floats
    point_sight: Floats

    @property
    def measured_noise(self) -> Floats:
        """Variance of what was measured before, (n,)."""
        return self.point_sight * (self.misfit + self.noise / self.runs)

    def step_noise(self, before: Floats, runs: int) -> Floats:
        """Variance of the observation that `runs` more of a context are, (N,)."""
        after = 1.0 / (self.misfit + self.noise / (before + runs))
        there = np.where(before > 0, before, 1.0)
        known = np.where(before > 0, 1.0 / (self.misfit + self.noise / there), 0.0)
        return self.sight / np.maximum(after - known, 1e-300)


@dataclass(frozen=True, eq=False)
class Prior:
    """What a plan starts from.

    Attributes
    ----------
    quantities : list of Quantity
        Over the contexts of the platform, the product of the levels.
    cost : ndarray, (N,)
        Of one run of each context [s].
    before : ndarray, (N,)
        Runs that each context has.
    n_known : int
        Contexts that are measured, whether or not the platform has them.
    noise : float
        Expected error of a profile that one run of its context makes.
    calibrated : bool
        Whether errors are those of profiles, calibrated on held-out known contexts; else they are
        in units of what the task varies beyond a power law.
    """

    quantities: list[Quantity]
    cost: Floats
    before: Floats
    n_known: int
    noise: float
    calibrated: bool


def prior_of_levels(axes: Sequence[Floats], run_seconds: float = 1.0) -> Prior:
    """Of a task that was never measured, on a platform with the given levels.

    Parameters
    ----------
    axes : sequence of ndarray
        Levels of each resource, rising.
    run_seconds : float
        How long a run takes at the highest levels, about [s].

    Raises
    ------
    ArgumentError
        Levels so far apart that a run at the lowest would take a hundred years.
    """
    known = np.empty((0, len(axes)))
    with np.errstate(over="ignore"):
        cost = run_seconds * _guessed_cost(axes)
    if not cost.max() < _LONGEST:
        raise ArgumentError(
            f"a run at the lowest levels would take {cost.max():.3g} s; levels that are closer, or "
            f"another time of a run at the highest ones, are wanted."
        )
    return _guess(axes, cost, known, np.empty(0))


def prior_of_law(law: Law, axes: Sequence[Floats]) -> Prior:
    """Of a measured task, on a platform with the given levels.

    Raises
    ------
    ArgumentError
        A law that has no trend.
    """
    known, runs = law.contexts, np.isfinite(law.centre.total).sum(axis=1).astype(float)
    if len(known) < len(axes) + 3:
        # too few to choose parameters from: the guess, brought to what the known ones took
        cost = _guessed_cost(axes)
        took = np.nanmean(law.duration, axis=1)
        near = [nearest_index(axes, row) for row in known]
        return _guess(axes, cost * np.exp(np.mean(np.log(took / cost[near]))), known, runs)
    platform = all_points(axes)
    quantities, noise = _learned(law, axes, platform, runs)
    return Prior(
        quantities, _durations(law, platform), _before(axes, known, runs), len(known), noise, True
    )


def all_points(axes: Sequence[Floats]) -> Floats:
    """Product of the axes, (N, m), the last one fastest."""
    return np.stack([g.ravel() for g in np.meshgrid(*axes, indexing="ij")], axis=1)


def nearest_index(axes: Sequence[Floats], context: Floats) -> int:
    """Place in the product of the axes of the context that is nearest, axis by axis."""
    place = [int(np.argmin(np.abs(axis - level))) for axis, level in zip(axes, context)]
    return int(np.ravel_multi_index(place, [len(axis) for axis in axes]))


def holds(axes: Sequence[Floats], context: Floats) -> bool:
    """Whether a context is one of the product of the axes, but for rounding."""
    for axis, level in zip(axes, context):
        near = axis[np.argmin(np.abs(axis - level))]
        if not same_level(near, level):
            return False
    return True


def _before(axes: Sequence[Floats], known: Floats, runs: Floats) -> Floats:
    """Runs that each context of the platform has, (N,)."""
    before = np.zeros(int(np.prod([len(axis) for axis in axes])))
    for row, n in zip(known, runs):
        if holds(axes, row):
            before[nearest_index(axes, row)] = n
    return before


# ------------------------------------------------------------------ from nothing


def _guess(axes: Sequence[Floats], cost: Floats, known: Floats, runs: Floats) -> Prior:
    quantities = [_unknown(axes, known, runs)]
    return Prior(quantities, cost, _before(axes, known, runs), len(known), _NUGGET**0.5, False)


def _log_axes(axes: Sequence[Floats]) -> list[Floats]:
    """Levels in the logarithm where they have one, each resource spanning [−1/2, 1/2]."""
    out = []
    for axis in axes:
        values = np.log(axis) if axis[0] > 0 else axis
        span = float(np.ptp(values))
        out.append((values - values[0]) / span - 0.5 if span > 0 else np.zeros(len(values)))
    return out


def _unknown(axes: Sequence[Floats], known: Floats, runs: Floats) -> Quantity:
    """A task of which the trend could not choose anything yet."""
    z = _log_axes(axes)
    size = int(np.prod([len(axis) for axis in axes]))
    points = np.stack([np.interp(known[:, r], axis, z[r]) for r, axis in enumerate(axes)], axis=1)
    return Quantity(
        axes=tuple(z),
        lengths=np.full(len(axes), _LENGTH),
        importance=1.0,
        weight=np.ones(size),
        misfit=0.0,
        noise=_NUGGET,
        points=points,
        runs=runs,
        sight=np.ones(size),
        point_sight=np.ones(len(known)),
    )


def _guessed_cost(axes: Sequence[Floats]) -> Floats:
    """Time over that at the highest levels, (N,): a power law, unless a level is not positive."""
    cost = np.ones(1)
    for axis in axes:
        slower = (
            (axis[-1] / axis) ** (_STEEPNESS / len(axes)) if axis[0] > 0 else np.ones(len(axis))
        )
        cost = (cost[:, None] * slower).ravel()
    return cost


# ------------------------------------------------------------------ from a law


def _durations(law: Law, contexts: Floats) -> Floats:
    """Execution time of each context as the trend has it [s]."""
    centre = law.centre
    if centre.clock == 0:
        return centre.total_trend.predict(contexts)[:, 0, 0]
    return centre.trend.predict(contexts)[..., 0].sum(axis=1)


def _learned(
    law: Law, axes: Sequence[Floats], platform: Floats, runs: Floats
) -> tuple[list[Quantity], float]:
    """Every quantity of the trend as a prior, and the error that one run makes."""
    fitted, states = law.centre.trend, law.known_states()
    trend = fitted
    if trend.form != "gaussian-process":
        # the local-linear form has no posterior: a process with the same coordinates stands in
        trend = fit_trend(
            law.contexts, states, weights=runs, form="gaussian-process",
            coordinates=trend.coordinates, find_caps=False,
        )  # fmt: skip
    worth = runs / runs.mean()
    importance = _importance(states, trend.offset, law.centre.clock)
    squared = (np.log(trend.held_out + trend.offset) - np.log(states + trend.offset)) ** 2
    spread = _spread(law, importance)
    scaled_axes, points, unseen = _coordinates(trend, axes)
    quantities, noise = [], 0.0
    for k in range(states.shape[2]):
        lengths, nugget = trend.lengths[k].copy(), float(trend.nugget[k])
        share, point_share = np.ones(len(platform)), np.ones(len(points))
        for cap in fitted.caps if k == 0 else ():
            lengths, nugget = cap.lengths.copy(), cap.nugget
            weight = importance[:, 0] / importance[:, 0].sum()
            # of the unthrottled time's variance what reaches the time, in the mean over the bins
            share, point_share = (
                fitted.free_share(contexts) ** 2 @ weight for contexts in (platform, law.contexts)
            )
        lengths[unseen] = _LENGTH
        sight, point_sight = (1.0 / np.maximum(s, _LEAST_WORTH) for s in (share, point_share))
        among = prior_covariance(points, points, lengths)
        among += np.diag(nugget * point_sight / worth)
        # variance of a known context given all others, its own noise included
        left_out = 1.0 / np.diag(np.linalg.inv(among))
        predicted = point_share * (left_out - nugget * point_sight / worth) + nugget / worth
        seen = (squared[..., k] @ importance[:, k]).mean()
        amplitude = float(max(seen, 1e-12) / predicted.mean())
        # where runs are not repeated all of the nugget may be their noise
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
                sight=sight,
                point_sight=point_sight,
            )
        )
    return quantities, float(np.sqrt(noise))


def _coordinates(
    trend: Trend, axes: Sequence[Floats]
) -> tuple[list[Floats], Floats, NDArray[np.bool_]]:
    """Levels and known contexts in the trend's coordinates; resources that it has not seen vary."""
    points = trend.scaled(trend.contexts)
    unseen = np.ptp(trend.contexts, axis=0) == 0
    scaled = []
    for r, axis in enumerate(axes):
        if unseen[r]:
            z = _log_axes([axis])[0]
            points[:, r] = np.interp(trend.contexts[:, r], axis, z)
        else:
            contexts = np.tile(trend.contexts[0], (len(axis), 1))
            contexts[:, r] = axis
            z = trend.scaled(contexts)[:, r]
        scaled.append(z)
    return scaled, points, unseen


def _importance(states: Floats, offset: Floats, clock: int) -> Floats:
    """Squared error of the scaled profile for that of each quantity's logarithm, (bins, k).

    A counter's rate is its amount over the time: an error of time is one of every counter.  The
    clock's own rate is 1 / time.
    """
    time = np.maximum(states[..., 0], 1e-300)
    amounts = [(states[..., k] + offset[k], states[..., k]) for k in range(1, states.shape[2])]
    if clock != 0:
        amounts.append((np.ones_like(time), np.ones_like(time)))
    rates, size = [], np.zeros_like(time)
    for counted, seen in amounts:
        # the largest rate but for single bins, which a sampling interval is longer than
        largest = max(float(np.quantile(seen / time, 0.995)), 1e-300)
        rates.append((counted / time / largest) ** 2)
        size += (seen / time / largest) ** 2
    share = time / time.sum(axis=1, keepdims=True)
    norm = np.quantile(size, 0.995, axis=1)[:, None]
    per_rate = [(share * rate / norm).mean(axis=0) for rate in rates]
    out = np.zeros((states.shape[1], states.shape[2]))
    out[:, 0] = np.sum(per_rate, axis=0) if per_rate else share.mean(axis=0)
    for k in range(1, states.shape[2]):
        out[:, k] = per_rate[k - 1]
    return out


def _spread(law: Law, importance: Floats) -> Floats | None:
    """Squared error that one run has within its context, (k,); None where too few are repeated."""
    run_context, residual = law.residuals.run_context, law.residuals.residual
    repeated = np.bincount(run_context)[run_context] > 1
    if repeated.sum() < _FEW_RUNS:
        return None
    return np.einsum("nbk,bk->k", residual[repeated] ** 2, importance) / repeated.sum()
