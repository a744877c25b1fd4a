"""Residuals of measured runs from the centre of their context: the points of the bridge.

A run measured at β_r is used at context β as exp(centre(β) + residual) (regression adjustment).
Progress is cut into segments.  The snapshot of a segment is the cloud of the residuals of all
measured runs there, and of their lags.  A lag is the logarithm of the amounts until the end of the
segment over those of the centre: for time, a positive lag means late.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from msbgen.core.arrays import LOGARITHMS, Stored
from msbgen.engine.generate.centre import Centre, log_ratio
from msbgen.engine.generate.imputation import find_donors, impute
from msbgen.engine.generate.runs import Runs

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Residuals:
    """Logarithms of the runs' amounts over those of their context.

    Residuals from the mean of a context have the variance of a new run there.  The residual of a
    single run of a context is taken from the contexts around it.
    """

    # (n,): known context of each run that is used, not decreasing
    run_context: Annotated[Indices, Stored(("used",), dtype="i8", below="known")]
    # (n, bins, k): of the amounts in each bin
    residual: Annotated[Floats, Stored(("used", "bin", "quantity"), LOGARITHMS)]
    # (n, segments, k): of the amounts in each segment
    coarse: Annotated[Floats, Stored(("used", "segment", "quantity"), LOGARITHMS)]
    # (n, segments, k): of all amounts until the end of each segment
    lag: Annotated[Floats, Stored(("used", "segment", "quantity"), LOGARITHMS)]
    # (n,): of the progress counter's total over the trend of the totals
    total_residual: Annotated[Floats, Stored(("used",), LOGARITHMS)]

    @classmethod
    def fit(
        cls, runs: Runs, state: Floats, centre: Centre, *, epsilon: float, tol: float
    ) -> Residuals:
        """Residuals of the runs' states (n, bins, k) from the centre of the known contexts.

        What a run did not measure is imputed (:mod:`msbgen.engine.generate.imputation`); `epsilon`
        and `tol` are those of the bridge that couples runs and donors.
        """
        fitted = centre.of_known(runs.n_measured)[runs.context]
        state = _with_all_times(state, fitted, runs.is_untimed)
        bins, k = state.shape[1:]

        def in_segments(amounts: Floats) -> Floats:
            return amounts.reshape(len(state), centre.segments, -1, k).sum(axis=2)

        # the floor of lags: the mean over all bins of the amounts until there
        typical = (fitted * np.arange(bins, 0, -1)[:, None]).mean(axis=(0, 1))
        segments, fitted_segments = in_segments(state), in_segments(fitted)
        fitted_sums = fitted_segments.cumsum(axis=1)
        residual, coarse, lag = (
            _unbiased(log, runs)
            for log in (
                log_ratio(state, fitted),
                log_ratio(segments, fitted_segments),
                log_ratio(segments.cumsum(axis=1), fitted_sums, typical),
            )
        )
        total = np.log(runs.run_total / centre.totals(runs.contexts)[runs.context])
        if not np.isfinite(coarse).all():
            scaled = centre.scaled_contexts[runs.context]
            donor = find_donors(coarse, lag, scaled, runs.context, epsilon=epsilon, tol=tol)
            residual, coarse = impute(residual, donor), impute(coarse, donor)
            # a run that was cut has the total of the donor of its end
            total = np.where(np.isfinite(runs.expected), total[donor[:, -1, 0]], total)
            imputed_sums = in_segments(fitted * np.exp(residual)).cumsum(axis=1)
            imputed = log_ratio(imputed_sums, fitted_sums, typical)
            lag = np.where(np.isfinite(lag), lag, imputed)
        return cls(runs.context, residual, coarse, lag, total)

    @cached_property
    def factor(self) -> Floats:
        """Measured amounts over those of the centre, (n, bins, k)."""
        return np.exp(self.residual)

    @cached_property
    def time_factor(self) -> Floats:
        """`factor` of the first quantity alone, (n, bins)."""
        return np.ascontiguousarray(self.factor[..., 0])

    def points(self, scaled_contexts: Floats) -> Floats:
        """Snapshots of the bridge, (segments, n, 2k + n_resources).

        Residuals and lags in standard deviations, and the contexts (n_known, n_resources) in
        bandwidths.
        """
        segments = self.coarse.shape[1]
        contexts = np.repeat(scaled_contexts[self.run_context, None], segments, axis=1)
        points = (_standardised(self.coarse), _standardised(self.lag), contexts)
        return np.ascontiguousarray(np.concatenate(points, axis=2).transpose(1, 0, 2))


def _with_all_times(state: Floats, fitted: Floats, untimed: NDArray[np.bool_]) -> Floats:
    """States (n, bins, k) with the times of untimed stretches: as fitted, at the run's own speed.

    `untimed` (n,) are the runs that have one.
    """
    if not untimed.any():
        return state
    state, (time, usual) = state.copy(), (state[untimed, :, 0], fitted[untimed, :, 0])
    unknown = np.isnan(time)
    sums = np.where(unknown, 0.0, time).sum(axis=1), np.where(unknown, 0.0, usual).sum(axis=1)
    speed = np.divide(*sums, out=np.ones(len(time)), where=sums[1] > 0)
    state[untimed, :, 0] = np.where(unknown, usual * speed[:, None], time)
    return state


def _unbiased(residual: Floats, runs: Runs) -> Floats:
    """Log residuals (n, bins, k) from a context's mean, with the variance of new runs there.

    Scaled by √(R/(R−1)), with R the runs of the context, and shifted so that the mean of the
    exponentials is one.  The residual of a single run stays as it is.
    """
    n_runs = runs.n_finite(residual)[runs.context]
    spread = residual * np.sqrt(n_runs / np.maximum(n_runs - 1.0, 1.0))
    excess = np.log(runs.means(np.exp(spread)))[runs.context]
    return np.where(n_runs > 1, spread - excess, residual)


def _standardised(values: Floats) -> Floats:
    """Divided by the standard deviation over all runs and segments, quantity by quantity."""
    deviation = values.std(axis=(0, 1))
    return values / np.where(deviation > 0, deviation, 1.0)
