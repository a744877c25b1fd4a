"""Counts of contexts whose level of a resource was left out, deconvolved without that level.

A sampling interval gives the sum of its counts; all intervals together show where in it they
occurred.  The sampling intervals of all runs of a level end at the same places of the program, if
the level determines the execution time.  At these places the counts of all other contexts were
deconvolved with the runs of that level.  A prediction from such counts is therefore better at a
left-out level than at a new one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from msbgen.engine.generate.deconvolution import trend_of_counts
from msbgen.engine.generate.distribution import ProfileDistribution
from msbgen.engine.generate.measurements import Measurements
from msbgen.engine.generate.runs import Runs

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

# Runs of each context that are deconvolved again: their intervals end at similar places.
_RUNS = 3


@dataclass(frozen=True, eq=False)
class OtherLevels:
    """Runs of the known contexts, to deconvolve them without the runs of a level."""

    distribution: ProfileDistribution
    runs: Runs  # of the contexts with a complete run
    context: Indices  # known contexts of these runs' contexts

    @classmethod
    def of(
        cls, distribution: ProfileDistribution, counts: Floats, used: NDArray[np.bool_]
    ) -> OtherLevels:
        """The first complete runs, `used` (n_known, n_runs), with all counters.

        Of counts (n_known, n_runs, n_times, n_counters).  All of them where some lack a counter.
        """
        centre, rows = distribution.centre, np.flatnonzero(used.any(axis=1))
        some = used[rows]
        lacking = np.isnan(counts[rows, :, 0])[some].any()
        first = np.argsort(~some, axis=1, kind="stable")[:, : None if lacking else _RUNS]
        place = rows[:, None], first
        measurements = Measurements(
            counts[place],
            np.where(used[place], distribution.duration[place], np.nan),
            distribution.contexts[rows],
            distribution.interval,
            centre.clock,
            slowdown=centre.slowdown[place],
        )
        bins = centre.trend.mean.shape[1]
        return cls(distribution, Runs.of(measurements, bins), rows)

    def predicted(self, group: Indices, prior: Floats) -> Floats:
        """Amounts per bin (group, bins, k) of a level's contexts, deconvolved without them.

        The times and the totals of the counts are those of `prior`, the prediction from states
        that were deconvolved with the level.
        """
        kept = np.flatnonzero(~np.isin(self.context, group))
        centre = self.distribution.centre
        deconvolutions = self.distribution.settings.deconvolutions
        trend = trend_of_counts(self.runs.of_contexts(kept), centre.trend, deconvolutions)
        others = centre.of_others(self.context[kept], trend.states, trend)
        contexts = self.distribution.contexts[group]
        counts = others.amounts(contexts, others.log_weights(contexts), slice(1, None))
        total, whole = (amounts.sum(axis=1, keepdims=True) for amounts in (counts, prior[..., 1:]))
        counts *= np.divide(whole, total, out=np.ones_like(total), where=total > 0)
        return np.concatenate([prior[..., :1], counts], axis=2)
