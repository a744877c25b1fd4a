"""The runs of one version of a program, and how a longer sampling interval shows them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from msbgen.engine.generate.progress import to_progress
from msbgen.engine.generate.runs import usable_runs

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Indices = NDArray[np.int64]

# The most intervals of one version that are joined to compare it with another's interval.
_MOST_INTERVALS = 4


@dataclass(frozen=True, eq=False)
class VersionRuns:
    """Runs of one version in the shared contexts.

    Attributes
    ----------
    counts : (n, runs, times, k)
        Events per sampling interval of the shared counters.
    duration : (n, runs)
        Execution times [s]; NaN for runs that are missing, faulty or cut.
    interval : float
        Sampling interval [s].
    total : (n, runs, k)
        Events of whole runs.
    stretched : int
        Number of runs that were left out because a part of them was slowed down.
    """

    counts: Floats
    duration: Floats
    interval: float
    total: Floats
    stretched: int

    def without(self, contexts: Bools) -> VersionRuns:
        """The runs with those of some contexts (n,) missing."""
        return replace(self, duration=np.where(contexts[:, None], np.nan, self.duration))

    def amounts(self, knots: Floats, clock: int) -> Floats:
        """Amounts between knots of progress of every quantity but the clock, (n, runs, bins, k)."""
        used = np.isfinite(self.duration)
        counts = np.where(used[..., None, None], self.counts, np.nan)
        runs = to_progress(counts, self.duration, self.interval, knots=knots, clock=clock)
        return np.where(usable_runs(runs.total, clock)[..., None, None], runs.state, np.nan)

    def sampled_every(self, interval: float) -> VersionRuns:
        """The same runs, as a longer sampling interval [s] shows them.

        Work that both versions share is spread out alike only in equal intervals.
        """
        if np.isclose(interval, self.interval):
            return self
        used = np.isfinite(self.duration)
        n_times = int(np.ceil(self.duration[used].max(initial=interval) / interval - 1e-9))
        counts = np.full((*self.duration.shape, n_times, self.counts.shape[3]), np.nan)
        for place in zip(*np.nonzero(used)):
            whole, counted = self.duration[place], self.counts[place]
            ends = np.minimum(interval * np.arange(1, n_times + 1), whole)
            ends = ends[: int(np.ceil(whole / interval - 1e-9))]
            for k, column in enumerate(counted.T):
                held = np.isfinite(column)
                if held.any():
                    n = int(np.flatnonzero(held)[-1]) + 1
                    edges = np.append(self.interval * np.arange(n), whole)
                    parts = np.diff(np.interp(ends, edges, _sums(column[:n])), prepend=0.0)
                    lost = np.diff(np.interp(ends, edges, _sums(~held[:n])), prepend=0.0)
                    counts[*place, : len(ends), k] = np.where(lost > 0, np.nan, parts)
        return replace(self, counts=counts, interval=interval)

    def in_contexts(self, kept: Bools) -> VersionRuns:
        """The runs of some contexts, (n,) of bool."""
        return replace(
            self,
            counts=self.counts[kept],
            duration=self.duration[kept],
            total=self.total[kept],
        )

    def in_columns(self, runs: Indices) -> VersionRuns:
        """Runs (n, columns) of each context in new columns; −1 for a missing one."""
        rows = np.arange(len(runs))[:, None]
        counts, duration, total = (
            part[rows, runs].copy() for part in (self.counts, self.duration, self.total)
        )
        for part in (counts, duration, total):
            part[runs < 0] = np.nan
        return replace(self, counts=counts, duration=duration, total=total)


def common_interval(first: float, second: float) -> float:
    """Least common multiple of both intervals; the longer one where that is much longer."""
    short, long = sorted((first, second))
    for times in range(1, _MOST_INTERVALS + 1):
        parts = times * long / short
        if np.isclose(parts, round(parts), rtol=1e-6):
            return times * long
    return long


def _sums(parts: Floats | Bools) -> Floats:
    """Sums of the first 0 to n of n parts, where missing ones are 0."""
    return np.append(0.0, np.cumsum(np.nan_to_num(parts.astype(float))))
