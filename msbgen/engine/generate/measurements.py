"""Measurements of one task as arrays, with what is known about their quality."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Measurements:
    """Runs of a task in known contexts: the input of the fit and of the detection of faults.

    Fields with a default are broadcast: `complete` and `slowdown` to (n_known, n_runs),
    `reliability` and `time_imputed` to (n_known,), `lost` to the shape of the counts, `untimed` to
    (n_known, n_runs, 2).
    """

    # (n_known, n_runs, n_times, n_counters): events per interval.  NaN after a run has ended or was
    # cut, and throughout for a counter that the run does not hold; every run holds the progress
    # counter.
    counts: Floats
    # (n_known, n_runs) [s], until the cut of a run that was cut; NaN where a run is missing
    duration: Floats
    contexts: Floats  # (n_known, n_resources)
    interval: float  # sampling interval [s]
    clock: int  # quantity that measures progress: 0 for wall time, 1 + k for counter k
    complete: ArrayLike = True  # runs that went on to their end
    # measured time of each run over `duration`; 1 unless a fault was corrected
    slowdown: ArrayLike = 1.0
    reliability: ArrayLike = 1.0  # weight of one run of each context in a trend, at most 1
    # contexts whose time was scaled to what the other contexts predict
    time_imputed: ArrayLike = False
    lost: ArrayLike = False  # samples that were lost, and interpolated in `counts`
    # begin and end of the work of each run whose time is wrong, as shares; equal where none is
    untimed: ArrayLike = 0.0

    @property
    def is_complete(self) -> NDArray[np.bool_]:
        """`complete` of every run, (n_known, n_runs)."""
        return np.broadcast_to(np.asarray(self.complete, dtype=bool), self.duration.shape)

    @property
    def slowdowns(self) -> Floats:
        """`slowdown` of every run, (n_known, n_runs)."""
        return np.broadcast_to(np.asarray(self.slowdown, dtype=float), self.duration.shape)

    @property
    def intervals(self) -> float | Floats:
        """Sampling interval [s], or that of each run where times were corrected, (n_known, n_runs).

        In a run that took f times as long, corrected time makes the intervals f times shorter.
        """
        slowdowns = self.slowdowns
        return self.interval / slowdowns if (slowdowns != 1.0).any() else self.interval

    @property
    def is_lost(self) -> NDArray[np.bool_]:
        """`lost` of every sample, (n_known, n_runs, n_times, n_counters)."""
        return np.broadcast_to(np.asarray(self.lost, dtype=bool), self.counts.shape)

    @property
    def untimed_stretches(self) -> Floats:
        """`untimed` of every run, (n_known, n_runs, 2)."""
        return np.broadcast_to(np.asarray(self.untimed, dtype=float), (*self.duration.shape, 2))

    @property
    def is_timed(self) -> NDArray[np.bool_]:
        """Runs that went on to their end, and whose time is known throughout, (n_known, n_runs)."""
        return self.is_complete & (self.untimed_stretches[..., 1] <= self.untimed_stretches[..., 0])
