"""The time of a run that its counts predict; a fault shows in the residual.

Per context, the time t of a run that counted q_1 … q_k is close to a sum of terms without sign,

    t ≈ Σ_{a ∈ {1, q_1, …, q_k}} Σ_{g ∈ {1, 1/level_1, …, 1/level_m}} c_{ag} · a · g,   c ≥ 0:

cycles over the clock, misses times their latency, misses over the bandwidth.  The fit is robust,
so that a context that was slowed down hardly changes it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from msbgen.engine.trend.coordinates import Coordinates, default_names

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

# Runs are taken to differ by at least this share.
LEAST_SPREAD = 0.005
# A context that was not fitted may have a level of 0: no level is below this share of the least.
_SMALLEST = 1e-6
# Steps of reweighting; residuals beyond so many deviations get less weight.
_STEPS, _LARGE = 12, 2.0
# Rounds of fitting a function of the levels to a rate.
_ROUNDS = 3
# Standard deviation of a normal variable over its median absolute deviation.
_NORMAL = 1.4826
# A counter grows with time where its rate deviates from a function of the levels by less than this
# share of the deviation of the counter.  Of eleven programs no counter of events is below 0.9.
_GROWS_WITH_TIME = 0.5


def median(values: Floats) -> Floats:
    """Medians of rows of a few finite numbers, (..., n) -> (...); faster than numpy's."""
    ordered, (half, odd) = np.sort(values), divmod(values.shape[-1], 2)
    return ordered[..., half] if odd else 0.5 * (ordered[..., half - 1] + ordered[..., half])


@dataclass(frozen=True, eq=False)
class TimeRegression:
    """Robust non-negative regressions of time on counts and reciprocal levels, of one or several.

    Several, such as those of bins of progress, share the contexts; their axes come first.
    """

    size: Floats  # (..., k): usual amounts of the counts
    least: Floats  # (m,): least level of each resource; NaN where no varying reciprocal exists
    table: Floats  # (..., 1 + k, 1 + resources): coefficients [s], not negative

    @classmethod
    def fit(
        cls,
        contexts: Floats,
        time: Floats,
        counts: Floats,
        *,
        excess: ArrayLike = 0.0,
        weight: ArrayLike = 1.0,
    ) -> TimeRegression:
        """Fit to contexts (n, m), positive times (..., n) [s] and counts (..., n, k).

        `excess` [s] is the part of each time that has other causes; `weight`, above 0, is that of
        each time.
        """
        from scipy.optimize import nnls  # imported here, as saved models do not need it

        varies = (contexts.min(axis=0) > 0) & (np.ptp(contexts, axis=0) > 0)
        least = np.where(varies, contexts.min(axis=0), np.nan)
        size = np.maximum(counts.mean(axis=-2), 1e-300)
        empty = cls(size, least, np.empty(0))
        amounts, levels = empty._amounts(counts), empty._levels(contexts)
        terms = (amounts[..., None] * levels[:, None]).reshape(*time.shape, -1)
        root, other = np.sqrt(weight) * np.ones(time.shape), np.asarray(excess, dtype=float)
        robust, coefficients = root, np.zeros((*time.shape[:-1], terms.shape[-1]))
        target = np.maximum(time - other, 0.0)
        for _ in range(_STEPS):
            scale = robust / time
            scaled, scaled_target = terms * scale[..., None], target * scale
            for one in np.ndindex(time.shape[:-1]):
                coefficients[one] = nnls(scaled[one], scaled_target[one])[0]
            predicted = (terms @ coefficients[..., None])[..., 0] + other
            residual = np.log(time / np.maximum(predicted, 1e-300))
            usual = _NORMAL * median(np.abs(residual)) + LEAST_SPREAD
            robust = root / np.sqrt(1.0 + (residual / (_LARGE * usual[..., None])) ** 2)
        shape = (*time.shape[:-1], amounts.shape[-1], levels.shape[-1])
        return cls(size, least, coefficients.reshape(shape))

    def _amounts(self, counts: Floats) -> Floats:
        """1 and the counts (..., n, k) over their usual amounts, (..., n, 1 + k)."""
        shares = counts / self.size[..., None, :]
        return np.concatenate([np.ones((*counts.shape[:-1], 1)), shares], axis=-1)

    def _levels(self, contexts: Floats) -> Floats:
        """1 and the reciprocals of the levels, (n, 1 + resources)."""
        varies = np.isfinite(self.least)
        least = self.least[varies]
        reciprocals = least / np.maximum(contexts[:, varies], _SMALLEST * least)
        return np.concatenate([np.ones((len(contexts), 1)), reciprocals], axis=1)

    def predict(self, contexts: Floats, counts: Floats) -> Floats:
        """Time [s] of counts (..., n, k) of contexts (n, m), (..., n)."""
        rates = self._levels(contexts) @ np.swapaxes(self.table, -1, -2)
        return np.maximum((rates * self._amounts(counts)).sum(axis=-1), 1e-300)

    def predict_every_pair(self, contexts: Floats, counts: Floats) -> Floats:
        """Time [s] of counts (..., n, k) (columns) at levels of contexts (rows), (..., n, n)."""
        rates = self._levels(contexts) @ np.swapaxes(self.table, -1, -2)
        return np.maximum(rates @ np.swapaxes(self._amounts(counts), -1, -2), 1e-300)


def grows_with_time(contexts: Floats, counts: Floats, rates: Floats) -> Bools:
    """Which counters grow because time passes, as cycles at a fixed clock do, (k,).

    Such a counter predicts every time, also that of a slowed run, and so hides the fault.  It is
    recognised by its rate, which is a simple function of the levels where the counter itself is
    not.  Counts are (n, k), rates (n, k) counts per second.
    """
    z = Coordinates.of(default_names(contexts), contexts).scaled(contexts)
    design = np.column_stack([np.ones(len(z)), z])

    def deviation(values: Floats) -> float:
        """Robust deviation from a linear function of the scaled levels."""
        residual, usual = np.zeros(len(values)), np.inf
        for _ in range(_ROUNDS):
            near = np.abs(residual) <= 3.0 * usual + 1e-12
            line = np.linalg.lstsq(design[near], values[near], rcond=None)[0]
            residual = values - design @ line
            usual = float(_NORMAL * median(np.abs(residual)))
        return usual

    def grows(count: Floats, rate: Floats) -> bool:
        if count.min() <= 0.0:
            return False
        counted = deviation(np.log(count))
        return counted > LEAST_SPREAD and deviation(np.log(rate)) < _GROWS_WITH_TIME * counted

    return np.array([grows(*one) for one in zip(counts.T, rates.T)], dtype=bool)
