"""How measured runs depart from the centre of their context: the points of the bridge.

A run measured at β_r serves context β as exp(centre(β) + residual) (regression adjustment).
Progress is cut into segments; the snapshot of a segment is the cloud of all measured runs'
residuals there and of how far each run has got ahead of its centre until there (its lag).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msbgen.core.arrays import LOGARITHMS, StoredArrays
from msbgen.generate.centre import Centre, log_ratio
from msbgen.generate.imputation import find_donors, lend
from msbgen.generate.runs import Runs

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Residuals:
    """Logarithms of the runs' amounts over those of their context.

    About a context's own mean they have the variance of a new run there; a run that is alone in
    its context is measured from what surrounds it.

    Attributes
    ----------
    run_context : ndarray of int, (n,)
        Known context of each run that is used, not decreasing.
    residual : ndarray, (n, bins, k)
        Of the amounts in each bin.
    coarse : ndarray, (n, segments, k)
        Of the amounts in each segment.
    lag : ndarray, (n, segments, k)
        Of all amounts until the end of each segment.
    total_residual : ndarray, (n,)
        Of what the clock counted in the whole run, over the trend of the totals.
    """

    run_context: Indices
    residual: Floats
    coarse: Floats
    lag: Floats
    total_residual: Floats

    @classmethod
    def fit(
        cls, runs: Runs, state: Floats, centre: Centre, *, epsilon: float, tol: float
    ) -> Residuals:
        """Measure the runs' states (n, bins, k) from the centre of the known contexts.

        What a run was not seen to do is lent by others (:mod:`msbgen.generate.imputation`), coupled
        with the given weight of the entropy and tolerance.
        """
        fitted = centre.of_known(runs.holders)[runs.context]
        bins, k = state.shape[1:]
        parts = (len(state), centre.segments, -1, k)
        own_parts, fitted_parts = (a.reshape(parts).sum(axis=2) for a in (state, fitted))
        # the mean over all bins of what has been reached there
        reached = (fitted * np.arange(bins, 0, -1)[:, None]).mean(axis=(0, 1))
        ahead = log_ratio(own_parts.cumsum(axis=1), fitted_parts.cumsum(axis=1), reached)
        residual, coarse, lag = (
            _unbiased(log, runs)
            for log in (log_ratio(state, fitted), log_ratio(own_parts, fitted_parts), ahead)
        )
        total = np.log(runs.run_total / centre.totals(runs.contexts)[runs.context])
        if not np.isfinite(coarse).all():
            lender = find_donors(
                coarse, lag, centre.place[runs.context], runs.context, epsilon=epsilon, tol=tol
            )
            residual, coarse = lend(residual, lender), lend(coarse, lender)
            # who was cut ends as the run does that it is lent from
            last = lender[:, -1, 0]
            total = np.where(np.isfinite(runs.expected), total[last], total)
            parts_then = (fitted * np.exp(residual)).reshape(parts).sum(axis=2)
            then = log_ratio(parts_then.cumsum(axis=1), fitted_parts.cumsum(axis=1), reached)
            lag = np.where(np.isfinite(lag), lag, then)
        return cls(runs.context, residual, coarse, lag, total)

    @cached_property
    def factor(self) -> Floats:
        """Measured over centre, (n, bins, k)."""
        return np.exp(self.residual)

    @cached_property
    def time_factor(self) -> Floats:
        """The same of the first quantity alone, (n, bins)."""
        return np.ascontiguousarray(self.factor[..., 0])

    def points(self, place: Floats) -> Floats:
        """Snapshots of the bridge, (segments, n, 2k + n_resources).

        Residuals and lags in units of their deviation, and contexts (n_known, n_resources) in
        bandwidths.
        """
        segments = self.coarse.shape[1]
        contexts = np.repeat(place[self.run_context, None], segments, axis=1)
        points = (_standardised(self.coarse), _standardised(self.lag), contexts)
        return np.ascontiguousarray(np.concatenate(points, axis=2).transpose(1, 0, 2))

    def to_arrays(self) -> dict[str, tuple[tuple[str, ...], Any]]:
        """Everything but the runs' contexts, which the totals tell, as named arrays."""
        return {
            "residual": (("used", "bin", "quantity"), self.residual),
            "coarse": (("used", "segment", "quantity"), self.coarse),
            "lag": (("used", "segment", "quantity"), self.lag),
            "total_residual": (("used",), self.total_residual),
        }

    @classmethod
    def from_arrays(cls, stored: StoredArrays, centre: Centre) -> Residuals:
        """Undo :meth:`to_arrays`.

        Raises
        ------
        ProfileError
            An array that is missing, of another shape, or of numbers that it cannot hold.
        """
        run_context = np.nonzero(np.isfinite(centre.total))[0]
        n, (_, bins, k) = len(run_context), centre.departure.shape
        return cls(
            run_context,
            stored.numbers("residual", (n, bins, k), within=LOGARITHMS),
            stored.numbers("coarse", (n, centre.segments, k), within=LOGARITHMS),
            stored.numbers("lag", (n, centre.segments, k), within=LOGARITHMS),
            stored.numbers("total_residual", (n,), within=LOGARITHMS),
        )


def _unbiased(residual: Floats, runs: Runs) -> Floats:
    """Log residuals (n, bins, k) about a context's own mean, for draws of new runs there.

    Spread by √(R/(R−1)), R its number of runs, and shifted so that the mean of the exponentials
    is one.  A single run's residual is as it is.
    """
    n_runs = runs.seen(residual)[runs.context]
    spread = residual * np.sqrt(n_runs / np.maximum(n_runs - 1.0, 1.0))
    excess = np.log(runs.means(np.exp(spread)))[runs.context]
    return np.where(n_runs > 1, spread - excess, residual)


def _standardised(values: Floats) -> Floats:
    """Divided by the standard deviation over all runs and segments, quantity by quantity."""
    deviation = values.std(axis=(0, 1))
    return values / np.where(deviation > 0, deviation, 1.0)
