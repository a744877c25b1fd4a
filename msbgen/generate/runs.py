"""Measured runs on their progress clock."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from msbgen.core.errors import MeasurementError
from msbgen.generate.clock import (
    lost_counts,
    progress_amounts,
    sharpen,
    to_progress,
    uniform_knots,
)
from msbgen.generate.partial import expected_totals
from msbgen.trend.fit import Trend

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

# Corrections of the prior by what all runs have in common, before each refit of the trend.
_SHARED_STEPS = 6


@dataclass(frozen=True, eq=False)
class Runs:
    """Measured runs that a law learns from, one after another, context by context.

    Attributes
    ----------
    contexts : ndarray, (n_known, n_resources)
    context : ndarray of int, (n,)
        Known context of each run, not decreasing.
    counts : ndarray, (n, times, n_counters)
        Events per interval, NaN once a run has ended.
    duration : ndarray, (n,)
        [s]
    interval : ndarray, () or (n,)
        [s]; shorter than it was where a run's time is scaled back.
    clock : int
        0 for wall time, 1 + k for counter k.
    state : ndarray, (n, bins, k)
        Amounts per bin of progress, spread evenly within the sampling intervals; NaN where a run
        holds no such counter, and from where it was cut.
    total : ndarray, (n_known, n_runs)
        What the clock counted in each run, or would have counted in one that was cut; NaN for runs
        that are missing or lost counts.
    worth : ndarray, (n_known,)
        What a run of each context counts in a trend, at most 1.
    expected : ndarray, (n,)
        What the clock would have counted in runs that were cut; NaN for the others.
    """

    contexts: Floats
    context: Indices
    counts: Floats
    duration: Floats
    interval: Floats
    clock: int
    state: Floats
    total: Floats
    worth: Floats
    expected: Floats

    @classmethod
    def of(
        cls,
        counts: Floats,
        duration: Floats,
        contexts: Floats,
        interval: ArrayLike,
        clock: int,
        bins: int,
        worth: ArrayLike = 1.0,
        complete: ArrayLike = True,
        guessed: ArrayLike = False,
    ) -> Runs:
        """Runs on their progress clock; those that lost counts are left out.

        Parameters
        ----------
        counts : ndarray, (n_known, n_runs, n_times, n_counters)
        duration : ndarray, (n_known, n_runs)
            [s], NaN where a run is missing.
        contexts : ndarray, (n_known, n_resources)
        interval : float or array_like, (n_known, n_runs)
            [s]
        clock : int
        bins : int
            Bins of progress.
        worth : array_like, broadcastable to (n_known,)
            What a run of each context counts in a trend, at most 1.
        complete : array_like of bool, broadcastable to (n_known, n_runs)
            Which runs went on to their end.
        guessed : array_like of bool, broadcastable to (n_known, n_runs)
            Runs that nobody knows the total of yet: they are not left out for it.

        Raises
        ------
        MeasurementError
            The clock counted nothing in every run of a context; no run went on to its end.
        """
        knots, steps = uniform_knots(bins), np.asarray(interval, dtype=float)
        whole = np.broadcast_to(np.asarray(complete, dtype=bool), duration.shape)
        expected = expected_totals(counts, duration, contexts, clock, whole)
        measured = to_progress(
            counts, duration, interval, knots=knots, clock=clock, expected=expected
        )
        judged = whole & ~np.asarray(guessed, dtype=bool)
        used = usable_runs(np.where(judged, measured.total, np.nan), clock)
        used |= ~judged & (measured.total > 0)
        if not used.any(axis=1).all():
            row = int(np.argmin(used.any(axis=1)))
            raise MeasurementError(
                f"the clock counted nothing in every run of context {row}, "
                f"{contexts[row].tolist()}: measure it again, drop it, or choose another clock "
                f"(attribute 'progress')."
            )
        context, run = np.nonzero(used)
        return cls(
            contexts,
            context,
            counts[context, run],
            duration[context, run],
            steps[context, run] if steps.ndim else steps,
            clock,
            measured.state[context, run],
            np.where(used, measured.total, np.nan),
            np.broadcast_to(np.asarray(worth, dtype=float), (len(contexts),)),
            expected[context, run],
        )

    @cached_property
    def n_runs(self) -> Indices:
        """Runs of each known context, (n_known,)."""
        return np.bincount(self.context)

    @property
    def weight(self) -> Floats:
        """What each known context counts in a trend, (n_known,)."""
        return self.n_runs * self.worth

    @property
    def run_total(self) -> Floats:
        """What the clock counted in each run that is used, (n,)."""
        return self.total[np.isfinite(self.total)]

    @cached_property
    def intervals(self) -> tuple[Floats, Floats]:
        """Progress at all edges (n, times + 1), and what the intervals hold (n, times, k).

        Time first where it is not the clock; nothing after the end of a run, or its cut.
        """
        return progress_amounts(
            self.counts, self.duration, self.interval, clock=self.clock, expected=self.expected
        )

    @cached_property
    def evened(self) -> Floats:
        """What times of each run are multiplied by, to be those of a mean run there, (n,).

        Of the runs of its context that went on to their end; without any, of all until their cuts.
        """
        ended = np.isnan(self.expected)
        many = np.bincount(self.context, ended)
        mean = np.bincount(self.context, np.where(ended, self.duration, 0.0)) / np.maximum(many, 1)
        factor = mean[self.context] / self.duration
        if not ended.all():
            cut, time = np.flatnonzero(~ended), self.state[..., :1]
            some = np.where((ended | (many == 0)[self.context])[:, None, None], time, np.nan)
            usual = self.means(some)[self.context[cut], :, 0]
            own = time[cut, :, 0]
            wanted, took = np.where(np.isfinite(own), [usual, own], 0.0).sum(axis=2)
            factor[cut] = np.divide(wanted, took, out=np.ones_like(took), where=took > 0)
        return factor

    def means(self, state: Floats) -> Floats:
        """Mean over the runs of each context, (n, bins, k) -> (n_known, bins, k).

        Over those that were seen there, of which each is a number; NaN where none was.
        """
        first = np.searchsorted(self.context, np.arange(len(self.contexts)))
        seen = np.isfinite(state)
        if seen.all():
            return np.add.reduceat(state, first, axis=0) / self.n_runs[:, None, None]
        sums = np.add.reduceat(np.where(seen, state, 0.0), first, axis=0)
        many = np.add.reduceat(seen, first, axis=0, dtype=np.int64)
        return np.divide(sums, many, out=np.full(sums.shape, np.nan), where=many > 0)

    def amounts(self, state: Floats, *, placed: bool = True) -> Floats:
        """What a trend is fitted to: the means of states (n, bins, k), (n_known, bins, k).

        A counter that some runs lack is taken per time of the runs that hold it, at the mean time
        of all: where a resource caps its rate both go together, from run to run as well.  Bin by
        bin where time was placed within the sampling intervals, else in the run as a whole.
        """
        means = self.means(state)
        lacking = (self.holders < self.n_runs[:, None]).any(axis=0) & self._timed
        for k in np.flatnonzero(lacking):
            held = np.where(np.isfinite(state[..., k]), state[..., 0], np.nan)
            times = np.stack([means[..., 0], self.means(held[..., None])[..., 0]])
            if not placed:
                known = np.isfinite(times).all(axis=0)
                times = np.where(known, times, 0.0).sum(axis=2, keepdims=True)
            with np.errstate(invalid="ignore", divide="ignore"):
                factor = times[0] / times[1]
            means[..., k] *= np.where(np.isfinite(factor), factor, 1.0)
        return means

    @property
    def _timed(self) -> NDArray[np.bool_]:
        """Quantities that have a time beside them, (k,)."""
        k = self.state.shape[2]
        return (np.arange(k) > 0) & (self.clock != 0)

    def seen(self, state: Floats) -> Indices:
        """Runs of each context of which a state (n, bins, k) is a number, (n_known, bins, k)."""
        first = np.searchsorted(self.context, np.arange(len(self.contexts)))
        return np.add.reduceat(np.isfinite(state), first, axis=0, dtype=np.int64)

    @cached_property
    def holders(self) -> Indices:
        """Runs of each known context that hold each quantity, (n_known, k)."""
        return self.seen(self.state[:, :1])[:, 0]

    def sharpened(self, trend: Trend, *, shared_steps: int = _SHARED_STEPS) -> Floats:
        """Amounts per bin of progress, placed in the intervals by a trend, (n, bins, k).

        The trend is corrected by what all runs have in common, so many times.
        """
        prior = trend.predict(self.contexts)[self.context]
        return sharpen(
            self.counts,
            self.duration,
            self.interval,
            prior,
            knots=uniform_knots(prior.shape[1]),
            clock=self.clock,
            shared_steps=shared_steps,
            expected=self.expected,
        ).state


def usable_runs(total: Floats, clock: int) -> NDArray[np.bool_]:
    """Runs to learn from, (n_known, n_runs): present, and none that lost counts of the clock.

    Where all runs of a context depart together it is the context that does, not the counting.
    """
    present = total > 0  # False for NaN
    if clock == 0:
        return present
    bad = lost_counts(total)
    return present & ~(bad & (present & ~bad).any(axis=1, keepdims=True))
