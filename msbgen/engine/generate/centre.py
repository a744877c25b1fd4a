"""Expected amounts of any context: a trend over the contexts, corrected near known ones.

At equal progress all runs are in the same phase, so the state (time and events per bin of
progress) depends smoothly on the context: log state = centre(β, bin) + residual.  The centre is
the trend plus a kernel mean of the context residuals: log mean state of a known context over the
trend.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Annotated

import numpy as np
from numpy.typing import NDArray

from msbgen.core.arrays import LOGARITHMS, NOT_NEGATIVE, POSITIVE, SHARE, Stored
from msbgen.core.contexts import are_many, gaussian_log_weights, near_weights, scott_bandwidth
from msbgen.core.parts import Given, Sizes
from msbgen.engine.generate.measurements import Measurements
from msbgen.engine.generate.partial import fill_means
from msbgen.engine.generate.runs import Runs
from msbgen.engine.trend.deviations import Variance, trend_variance
from msbgen.engine.trend.durations import Durations
from msbgen.engine.trend.fit import Trend, fit_trend
from msbgen.engine.trend.folds import Folds

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

# Least bandwidth of the kernel over contexts before its factor, in spacings of the known contexts.
# Few contexts are farther apart than Scott's bandwidth: a mean would be that of the nearest.
_LEAST_SPACINGS = 0.7


@dataclass(frozen=True, eq=False)
class Centre:
    """Expected amounts per bin of progress, from which the runs of a context vary."""

    clock: int  # quantity that measures progress: 0 for wall time, 1 + k for counter k
    # segments of progress, of equally many bins each
    segments: Annotated[int, Given("settings.segments")]
    # of the kernel over contexts, as a multiple of Scott's rule over the known contexts in the
    # coordinates of the trend, or of 0.7 times their spacing where that is more
    bandwidth: Annotated[float, Given("settings.bandwidth")]
    # (n_known, n_runs): total of the progress counter; NaN for runs that are missing or lost counts
    total: Annotated[Floats, Stored(("known", "run"), NOT_NEGATIVE, missing=True)]
    # (n_known, n_runs): measured over corrected time; 1 unless a fault was corrected
    slowdown: Annotated[Floats, Stored(("known", "run"), POSITIVE)]
    # (n_known,): contexts whose time was scaled to what the others predict
    time_imputed: Annotated[NDArray[np.bool_], Stored(("known",), dtype="bool")]
    # amounts per bin at any context; the first quantity is time, unless progress is measured by it
    trend: Trend
    # total of the progress counter at any context
    total_trend: Annotated[Trend, Sizes(bin=1, quantity=1)]
    # (n_known, bins, k): log of each context's mean measured amounts over the fitted ones
    context_residual: Annotated[Floats, Stored(("known", "bin", "quantity"), LOGARITHMS)]
    # (n_known, k): factor on the context residuals in the local mean: 1; for a context with one
    # run, whose residual may be noise, the share that the neighbours predict
    shrinkage: Annotated[Floats, Stored(("known", "quantity"), SHARE)]
    # durations at any context; None for many contexts, and where time measures progress
    durations: Durations | None = None

    @classmethod
    def fit(
        cls,
        runs: Runs,
        state: Floats,
        trend: Trend,
        measurements: Measurements,
        *,
        segments: int,
        bandwidth: float,
    ) -> Centre:
        """Centre with the trend of the totals, and the context residuals of the known contexts.

        `state` (n, bins, k) are the amounts per bin of the runs, to whose means `trend` was fitted.
        The runs were made of `measurements`.
        """
        total_trend = fit_trend(
            runs.contexts,
            runs.means(runs.run_total[:, None, None]),
            weights=runs.n_runs,
            find_caps=False,
        )
        filled = fill_means(runs.amounts(state), trend)
        context_residual = log_ratio(filled, trend.predict(runs.contexts))
        shrinkage = np.ones((len(context_residual), context_residual.shape[2]))
        single = runs.n_measured <= 1
        if single.any():
            scaled = trend.scaled(runs.contexts) / _kernel_width(trend, bandwidth)
            means = np.nan_to_num(runs.means(runs.state))
            size = np.maximum(means.sum(axis=(0, 1)), 1e-300)
            factor = predicted_share(scaled, context_residual, single[:, None] * means / size)
            shrinkage = np.where(single, factor, shrinkage)
        imputed = np.asarray(measurements.time_imputed, dtype=bool)
        centre = cls(
            runs.clock,
            segments,
            bandwidth,
            runs.total,
            measurements.slowdowns,
            np.broadcast_to(imputed, len(context_residual)),
            trend,
            total_trend,
            context_residual,
            shrinkage,
        )
        if runs.clock == 0 or are_many(trend.contexts):
            return centre
        return replace(centre, durations=centre._fit_durations(runs, _log_time(filled)))

    def _fit_durations(self, runs: Runs, log_time: Floats) -> Durations:
        """Durations about the trend; about a line where no counter explains time.

        `log_time` (n_known,) are the logarithms of the mean durations [s].
        """
        has_line = self.trend.mean.shape[0] == 1
        departure = log_time if has_line else log_time - _log_time(self._fitted)
        given = self.trend.contexts, departure, runs.weight
        return Durations.fit(*given, has_line=has_line, repeats=_repeats(runs))

    @property
    def n_quantities(self) -> int:
        """Number of quantities: time, unless progress is measured by it, and the other counters."""
        return self.context_residual.shape[2]

    @cached_property
    def n_runs(self) -> Indices:
        """Number of runs of each known context that the distribution was fitted to, (n_known,)."""
        return np.isfinite(self.total).sum(axis=1)

    @cached_property
    def is_corrected(self) -> bool:
        """Whether the time of any run was corrected."""
        return bool((self.slowdown != 1.0).any())

    @cached_property
    def kernel_width(self) -> Floats:
        """Bandwidth of the kernel over contexts in the coordinates of the trend, (n_resources,)."""
        return _kernel_width(self.trend, self.bandwidth)

    @cached_property
    def scaled_contexts(self) -> Floats:
        """Known contexts in bandwidths, (n_known, n_resources)."""
        return self.trend.scaled(self.trend.contexts) / self.kernel_width

    @cached_property
    def _shrunk(self) -> Floats:
        """Context residuals after shrinkage, (n_known, bins, k)."""
        return self.context_residual * self.shrinkage[:, None]

    @cached_property
    def _shrunk_sums(self) -> Floats:
        """Context residuals of the sums over bins after shrinkage, (n_known, 1, k)."""
        return self._residual_of_sums * self.shrinkage[:, None]

    def known_log_times(self, durations: Durations) -> Floats:
        """Logarithm of the mean duration of each known context of these durations, (n_known,)."""
        departure = durations.departure
        return departure if durations.has_line else departure + _log_time(self._fitted)

    @cached_property
    def variance(self) -> Variance:
        """Variances of the trend's Gaussian process of time."""
        return trend_variance(self.trend)

    def left_out_log_times(self, durations: Durations, folds: Folds) -> Floats:
        """Logarithm of the duration of contexts from all outside their fold, (rows of the folds,).

        The parameters of the trend and the hypotheses of the durations are kept.
        """
        contexts = self.trend.contexts
        parts = [durations.left_out[: folds.singles]]
        for level in (folds.members[group] for group in folds.groups):
            kept = np.setdiff1d(np.arange(len(contexts)), level)
            others = durations.refit(kept, durations.departure[kept])
            parts.append(others.predict(contexts[level]))
        departure = np.concatenate(parts)
        if durations.has_line:
            return departure
        return departure + _log_time(self.trend.left_out(folds))

    @property
    def _residual_of_sums(self) -> Floats:
        """Context residuals of the sums over bins, (n_known, 1, k)."""
        states = self.known_states(), self._fitted
        return log_ratio(*(amounts.sum(axis=1, keepdims=True) for amounts in states))

    @cached_property
    def _fitted(self) -> Floats:
        """Amounts of the trend at the known contexts, (n_known, bins, k)."""
        return self.trend.predict(self.trend.contexts)

    def known_states(self) -> Floats:
        """Mean measured amounts per bin of each known context, (n_known, bins, k)."""
        return self._fitted * np.exp(self.context_residual)

    def of_known(self, n_measured: Indices) -> Floats:
        """Amounts from which residuals of the known contexts are taken, (n_known, bins, k).

        The mean of the runs of a context; the centre where `n_measured` (n_known, k) runs of a
        context that hold a quantity are a single one.  Where counters explain time, that is the
        local mean: the durations follow a run's own noise, which its residuals must keep.
        """
        states, single = self.known_states(), n_measured <= 1
        rows = np.asarray(single.any(axis=1))
        weight = _weights_of_known(self.scaled_contexts, rows)
        centre = self._with_context_residuals(self._fitted[rows], weight)
        if self.durations and self.durations.has_line:
            departure = self.durations.predict(self.trend.contexts[rows])
            self._set_time(self.durations, centre, self._fitted[rows], departure)
        states[rows] = np.where(single[rows, None], centre, states[rows])
        return states

    @cached_property
    def left_out_alone(self) -> Floats:
        """Centre of each known context, predicted from all others, (n_known, bins, k).

        The parameters of the trend are kept.  The residuals of the others are those from the full
        trend.
        """
        fitted, weight = self.trend.left_out_alone, _weights_of_others(self.scaled_contexts)
        states = self._with_context_residuals(fitted, weight)
        if self.durations:
            self._set_time(self.durations, states, fitted, self.durations.left_out)
        return states

    def left_out(self, folds: Folds) -> Floats:
        """Centre of contexts that are left out alone and in groups, as `left_out_alone`, for many.

        (rows of the folds, bins, k)
        """
        from scipy.sparse import csr_array  # imported here, as few fits have many contexts

        fitted, known = self.trend.left_out(folds), self.scaled_contexts
        alone = fitted[: folds.singles]
        parts = [self._with_context_residuals(alone, _weights_of_others(known))]
        for group in folds.groups:
            members = folds.members[group]
            kept = np.setdiff1d(np.arange(len(known)), members)
            near = _normalised(near_weights(known[kept], known[members]))
            shape = len(members), len(known)
            weight = csr_array((near.data, kept[near.indices], near.indptr), shape=shape)
            rows = slice(folds.singles + group.start, folds.singles + group.stop)
            parts.append(self._with_context_residuals(fitted[rows], weight))
        return np.concatenate(parts)

    def of_others(
        self, kept: Indices, states: Floats, trend: Trend, *, anew: bool = False
    ) -> Centre:
        """Centre of the `kept` contexts, with a trend that was fitted to their means `states`.

        The hypotheses on durations are kept, or fitted `anew`.
        """
        fitted = trend.predict(trend.contexts)
        centre = replace(
            self,
            total=self.total[kept],
            slowdown=self.slowdown[kept],
            time_imputed=self.time_imputed[kept],
            trend=trend,
            context_residual=log_ratio(states, fitted),
            shrinkage=self.shrinkage[kept],
        )
        vars(centre)["_fitted"] = fitted
        if self.durations is None:
            return centre
        departure = self.known_log_times(self.durations)[kept]
        if not self.durations.has_line:
            departure -= _log_time(fitted)
        durations = self.durations.refit(kept, departure)
        if anew:
            given = durations.contexts, departure, durations.weight
            durations = Durations.fit(*given, has_line=durations.has_line, like=durations)
        return replace(centre, durations=durations)

    def log_weights(self, query: Floats) -> Floats:
        """Log of the kernel between contexts and known ones, (q, n_known), 0 for the nearest."""
        return gaussian_log_weights(
            self.scaled_contexts, self.trend.scaled(query) / self.kernel_width
        )

    def amounts(self, query: Floats, log_weight: Floats, only: slice = slice(None)) -> Floats:
        """Amounts per bin at contexts with their :meth:`log_weights`, (q, bins, k).

        Those of the quantities `only`.
        """
        fitted = self.trend.predict(query, only)
        states = self._with_context_residuals(fitted, _weights(log_weight), only)
        if self.durations and only.start in (None, 0):
            self._set_time(self.durations, states, fitted, self.durations.predict(query))
        return states

    @staticmethod
    def _set_time(durations: Durations, states: Floats, fitted: Floats, departure: Floats) -> None:
        """Scale the times of bins of states (q, bins, k), in place, to the durations.

        They depart by `departure` (q,) from 1 s, or from the trend's amounts `fitted` (q, bins, k).
        """
        log = departure if durations.has_line else departure + _log_time(fitted)
        time = states[..., 0].sum(axis=1)
        states[..., 0] *= (np.exp(log) / np.maximum(time, 1e-300))[:, None]

    def _with_context_residuals(
        self, fitted: Floats, weight: Floats | csr_array, only: slice = slice(None)
    ) -> Floats:
        """Amounts of the trend (q, bins, k) times the local mean of the context residuals.

        `fitted` holds the quantities `only`.

        If the total time comes from a trend of the sums, so do its residuals.  Single bins have the
        noise of deconvolution, and the mean of noisy logarithms is too low.
        """
        states = _local_mean(weight, self._shrunk[..., only])
        np.exp(states, out=states)
        states *= fitted
        if not self.trend.sums:
            return states
        sums = fitted.sum(axis=1) * np.exp(_local_mean(weight, self._shrunk_sums[..., only])[:, 0])
        states *= (sums / np.maximum(states.sum(axis=1), 1e-300))[:, None]
        return states

    def totals(self, query: Floats) -> Floats:
        """Total of the progress counter at contexts, (q,)."""
        return self.total_trend.predict(query)[:, 0, 0]

    def problems(self) -> Iterator[tuple[str, object, str]]:
        """What is wrong with a stored centre."""
        used = np.isfinite(self.total)
        if not used.any(axis=1).all():
            yield "total", "NaN", "a run per context"
        if not (self.total[used] > 0).all():
            yield "total", 0, "a positive number"
        if not 0 <= self.clock <= self.n_quantities:
            yield "clock", self.clock, f"0 to {self.n_quantities}"


def _log_time(states: Floats) -> Floats:
    """Logarithm of the time of all bins of states (q, bins, k), (q,)."""
    return np.log(np.maximum(states[..., 0].sum(axis=1), 1e-300))


def _repeats(runs: Runs) -> tuple[float, int]:
    """Sum of the squared deviations of log durations from their context's mean, and its freedom."""
    ended = np.isnan(runs.expected) & ~runs.is_untimed
    log, context = np.log(runs.duration[ended]), runs.context[ended]
    number = np.bincount(context)
    mean = np.bincount(context, log) / np.maximum(number, 1)
    return float(((log - mean[context]) ** 2).sum()), len(log) - int((number > 0).sum())


def _kernel_width(trend: Trend, bandwidth: float) -> Floats:
    """Bandwidth of the kernel over contexts in the coordinates of the trend, (n_resources,)."""
    known = trend.scaled(trend.contexts)
    varies = np.ptp(known, axis=0) > 0
    per_resource = len(known) ** (1.0 / max(varies.sum(), 1))
    least = np.where(varies, _LEAST_SPACINGS / max(per_resource - 1.0, 1.0), 0.0)
    return bandwidth * np.maximum(scott_bandwidth(known), least)


def _local_mean(weight: Floats | csr_array, context_residual: Floats) -> Floats:
    """Mean of context residuals (n_known, bins, k) by weights (q, n_known), (q, bins, k)."""
    mean = np.asarray(weight @ context_residual.reshape(len(context_residual), -1))
    return mean.reshape(len(mean), *context_residual.shape[1:])


def _weights(log_weight: Floats) -> Floats:
    """Weights that sum to 1, from their logarithms (q, n_known)."""
    weight = np.exp(log_weight)
    weight /= weight.sum(axis=1, keepdims=True)
    return weight


def _weights_of_known(scaled_contexts: Floats, rows: NDArray[np.bool_]) -> Floats | csr_array:
    """Weights of all known contexts around some of them, (rows, n_known); sparse for many."""
    if are_many(scaled_contexts):
        return _normalised(near_weights(scaled_contexts, scaled_contexts[rows]))
    return _weights(gaussian_log_weights(scaled_contexts, scaled_contexts[rows]))


def _normalised(weight: csr_array) -> csr_array:
    """Sparse weights whose rows sum to 1."""
    sums = np.add.reduceat(weight.data, weight.indptr[:-1])
    normalised = weight.copy()
    normalised.data *= np.repeat(1.0 / sums, np.diff(weight.indptr))
    return normalised


def predicted_share(scaled_contexts: Floats, context_residual: Floats, weight: Floats) -> Floats:
    """Share of the context residuals that neighbours predict, (k,); the rest may be noise.

    A factor from 0 to 1 on the local mean of all other contexts.  It predicts the residuals best,
    in least squares with the given weights (n_known, bins, k).
    """
    if len(scaled_contexts) == 1:
        return np.ones(context_residual.shape[2])
    others = _local_mean(_weights_of_others(scaled_contexts), context_residual)
    agreement = (weight * context_residual * others).sum(axis=(0, 1))
    return np.clip(agreement / np.maximum((weight * others**2).sum(axis=(0, 1)), 1e-300), 0, 1)


def _weights_of_others(scaled_contexts: Floats) -> Floats | csr_array:
    """Weights of each known context's others, (n_known, n_known); sparse for many."""
    if are_many(scaled_contexts):
        return _normalised(near_weights(scaled_contexts, scaled_contexts, others=True))
    log_weight = gaussian_log_weights(scaled_contexts, scaled_contexts)
    np.fill_diagonal(log_weight, -np.inf)
    return _weights(log_weight - log_weight.max(axis=1, keepdims=True))


def log_ratio(measured: Floats, expected: Floats, typical: Floats | None = None) -> Floats:
    """Logarithm of measured over expected amounts, (n, bins, k), both at least a floor.

    The floor is a thousandth of the quantity's typical amount (k,), by default the mean expected
    one: below it counts are rounding, and their logarithm would be noise without bound.
    """
    floor = np.maximum(1e-3 * (expected.mean(axis=(0, 1)) if typical is None else typical), 1e-300)
    return np.log(np.maximum(measured, floor) / np.maximum(expected, floor))
