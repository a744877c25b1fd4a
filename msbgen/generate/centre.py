"""Where the profiles of a context lie: a trend over contexts, and what the known ones depart.

The centre of a context is the trend times the exponential of the local mean of the departures,
log(mean of a known context's runs / trend), smoothed by a kernel over the contexts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from msbgen.trend.fit import Trend

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Centre:
    """Amounts per bin of progress that the runs of a context vary about.

    Attributes
    ----------
    clock : int
        What tells progress: 0 for wall time, 1 + k for counter k.
    segments : int
        Segments of progress, of equally many bins each.
    total : ndarray, (n_known, n_runs)
        What the clock counted in each run; NaN for runs that are missing or lost counts.
    trend : Trend
        Amounts per bin at any context; the first quantity is time where it is not the clock.
    total_trend : Trend
        What the clock counts at any context.
    departure : ndarray, (n_known, bins, k)
        Log of each context's mean measured amounts over the fitted ones.
    trust : ndarray, (n_known, k)
        How much of a departure the local mean takes: 1, or of a single run, which may be noise,
        the share that its neighbours confirm.
    """

    clock: int
    segments: int
    total: Floats
    trend: Trend
    total_trend: Trend
    departure: Floats
    trust: Floats

    def known_states(self) -> Floats:
        """Mean measured amounts per bin of each known context, (n_known, bins, k)."""
        return self.trend.predict(self.trend.contexts) * np.exp(self.departure)


@dataclass(frozen=True, eq=False)
class Residuals:
    """How the measured runs depart from the centre.

    Attributes
    ----------
    run_context : ndarray of int, (n,)
        Known context of each run that is used, not decreasing.
    residual : ndarray, (n, bins, k)
        Log of a run's amounts over its context's mean, with an unbiased variance; over the local
        mean of what surrounds it where the context has no other run.
    lag : ndarray, (n, k)
        The same of the whole run's amounts.
    total_residual : ndarray, (n,)
        Log of measured over fitted total of the clock.
    """

    run_context: Indices
    residual: Floats
    lag: Floats
    total_residual: Floats
