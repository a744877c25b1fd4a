"""The time that caps add to the time that counts predict.

A bin of progress takes the time u that its counts predict (:mod:`msbgen.engine.faults.regression`),
unless a counter q would exceed the rate R of a cap.  Then it takes E max(u, X q / (R · level)), X
the unevenness of the counter within the bin (:func:`msbgen.engine.trend.caps.throttled`).  A sum of
terms cannot follow that corner, and its residual would look like a fault.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from msbgen.engine.faults.regression import LEAST_SPREAD, TimeRegression
from msbgen.engine.trend.caps import Rate, throttled

Floats = NDArray[np.float64]

# A bin near the rate of a cap says little about its time without the cap.  Its weight falls from 1
# at the first of these shares of the rate to the least weight at the second.
_NEAR_CAP, _LEAST_WEIGHT = (0.4, 0.85), 1e-4
# Widths of the knee that are tried.
_WIDTHS = (0.03, 0.1, 0.2, 0.4)
# Relative error of the time that caps add.
_UNCERTAINTY = 0.1


@dataclass(frozen=True)
class NoCaps:
    """Time of bins that no cap slows down: caps add none."""

    def excess(self, contexts: Floats, state: Floats) -> Floats:
        """Time [s] that caps add to each bin of contexts, (n, bins)."""
        return np.zeros(state.shape[:2])

    def excess_of_every_pair(self, contexts: Floats, state: Floats) -> Floats:
        """Added time [s] of measurements (columns) at the levels of contexts (rows), (n, n)."""
        return np.zeros((len(contexts), len(contexts)))

    def variance(self, contexts: Floats, state: Floats) -> Floats:
        """Variance of the logarithm of each context's time, by the uncertainty of caps, (n,)."""
        return np.zeros(len(contexts))


@dataclass(frozen=True, eq=False)
class Roofline:
    """Time of bins under caps, as of :class:`NoCaps`."""

    rates: Sequence[Rate]  # counter, resource and rate per level of each cap
    model: TimeRegression  # of the bins without caps
    width: float  # of the knee

    def excess(self, contexts: Floats, state: Floats) -> Floats:
        """Time [s] that caps add to each bin of contexts, (n, bins)."""
        return self._added(self._free(contexts, state), _least_time(self.rates, contexts, state))

    def excess_of_every_pair(self, contexts: Floats, state: Floats) -> Floats:
        """Added time [s] of measurements (columns) at the levels of contexts (rows), (n, n)."""
        counts = np.ascontiguousarray(np.swapaxes(state[..., 1:], 0, 1))
        rows = []
        for level in contexts:  # one at a time: arrays of all pairs are larger than the caches
            free = self.model.predict_every_pair(level[None], counts)[:, 0].T
            rows.append(self._added(free, _least_time(self.rates, level, state)).sum(axis=1))
        return np.array(rows)

    def variance(self, contexts: Floats, state: Floats) -> Floats:
        """Variance of the logarithm of each context's time, by the uncertainty of caps, (n,)."""
        share = self.excess(contexts, state).sum(axis=1) / self.whole(contexts, state)
        # contexts may differ in the width of the knee
        knees = [Roofline(self.rates, self.model, width) for width in _WIDTHS]
        times = np.log([knee.whole(contexts, state) for knee in knees])
        return times.var(axis=0) + (_UNCERTAINTY * share) ** 2

    def whole(self, contexts: Floats, state: Floats) -> Floats:
        """Time [s] of each context under caps, (n,)."""
        least = _least_time(self.rates, contexts, state)
        return throttled(self._free(contexts, state), least, self.width)[0].sum(axis=1)

    def _added(self, free: Floats, least: Floats) -> Floats:
        """Time [s] that caps with these least times add to the time without them."""
        return np.maximum(throttled(free, least, self.width)[0] - free, 0.0)

    def _free(self, contexts: Floats, state: Floats) -> Floats:
        """Time [s] of each bin without caps, (n, bins)."""
        return self.model.predict(contexts, np.swapaxes(state[..., 1:], 0, 1)).T


def fit_roofline(rates: Sequence[Rate], contexts: Floats, state: Floats) -> Roofline | NoCaps:
    """Time under caps of contexts (n, m) and amounts (n, bins, 1 + k) in bins of equal work.

    Time comes first.  The width of the knee is that which predicts the times of whole contexts
    best.
    """
    if not rates:
        return NoCaps()
    time = state[..., 0]
    near = _least_time(rates, contexts, state) / time
    weight = np.clip((_NEAR_CAP[1] - near) / (_NEAR_CAP[1] - _NEAR_CAP[0]), _LEAST_WEIGHT, 1.0)
    bins = np.ascontiguousarray(np.swapaxes(state, 0, 1))
    times, counts = bins[..., 0], bins[..., 1:]
    floor = LEAST_SPREAD * times.mean(axis=1, keepdims=True)
    model = TimeRegression.fit(contexts, times + floor, counts, weight=weight.T)
    candidates = [Roofline(rates, model, width) for width in _WIDTHS]
    whole = time.sum(axis=1)
    errors = [np.abs(np.log(one.whole(contexts, state) / whole)).sum() for one in candidates]
    return candidates[int(np.argmin(errors))]


def _least_time(rates: Sequence[Rate], contexts: Floats, state: Floats) -> Floats:
    """Least time [s] under caps of bins (..., bins, 1 + k) at contexts (..., m), (..., bins)."""
    needed = [
        state[..., counter] / (rate * contexts[..., resource, None])
        for counter, resource, rate in rates
    ]
    return np.max(needed, axis=0)
