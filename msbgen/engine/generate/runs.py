"""Measured runs by progress."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from msbgen.core.errors import MeasurementError
from msbgen.engine.generate.measurements import Measurements
from msbgen.engine.generate.partial import expected_totals
from msbgen.engine.generate.progress import (
    deconvolve,
    lost_counts,
    progress_amounts,
    to_progress,
    uniform_knots,
)
from msbgen.engine.trend.fit import Trend

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

# Corrections of the prior by the ratio that all runs share, before each refit of the trend.
_SHARED_STEPS = 6
# Width by which untimed stretches are widened at either end, as a share of the work.
_MARGIN = 0.04
# Least share of the contexts that choose the trend: those whose time is known throughout.
_ENOUGH = 0.5


@dataclass(frozen=True, eq=False)
class Runs:
    """Measured runs that a distribution is fitted to, one after another, context by context."""

    contexts: Floats  # (n_known, n_resources)
    context: Indices  # (n,): known context of each run, not decreasing
    counts: Floats  # (n, times, n_counters): events per interval, NaN once a run has ended
    duration: Floats  # (n,) [s]
    interval: Floats  # () or (n,): sampling interval [s], of all runs or of each
    clock: int  # 0 for wall time, 1 + k for counter k
    # (n, bins, k): amounts per bin of progress, spread evenly within the sampling intervals; NaN
    # where a run holds no such counter, and from where it was cut
    state: Floats
    # (n_known, n_runs): of the progress counter, expected where a run was cut; NaN for runs that
    # are missing or lost counts
    total: Floats
    reliability: Floats  # (n_known,): weight of one run of each context in a trend, at most 1
    expected: Floats  # (n,): expected total of the progress counter in cut runs; NaN for the others
    untimed: Floats  # (n, 2): begin and end of the progress whose time is not used; equal without

    @classmethod
    def of(cls, measurements: Measurements, bins: int) -> Runs:
        """Runs by progress; those that lost counts of the progress counter are left out.

        The total of a run with lost samples is not known yet, so that such runs are kept.
        MeasurementError where the progress counter counted nothing in every run of a context, or no
        run went on to its end.
        """
        m, interval = measurements, np.asarray(measurements.intervals, dtype=float)
        expected = expected_totals(m.counts, m.duration, m.contexts, m.clock, m.is_complete)
        measured = to_progress(
            m.counts,
            m.duration,
            interval,
            knots=uniform_knots(bins),
            clock=m.clock,
            expected=expected,
        )
        comparable = m.is_complete & ~m.is_lost.any(axis=(2, 3))
        used = usable_runs(np.where(comparable, measured.total, np.nan), m.clock)
        used |= ~comparable & (measured.total > 0)
        if not used.any(axis=1).all():
            row = int(np.argmin(used.any(axis=1)))
            raise MeasurementError(
                f"the progress counter counted nothing in every run of context {row}, "
                f"{m.contexts[row].tolist()}: measure it again, drop it, or choose another counter "
                f"(attribute 'progress')."
            )
        # contiguous: kernels are compiled once for each layout
        context, run = map(np.ascontiguousarray, np.nonzero(used))
        runs = cls(
            m.contexts,
            context,
            m.counts[context, run],
            m.duration[context, run],
            interval[context, run] if interval.ndim else interval,
            m.clock,
            measured.state[context, run],
            np.where(used, measured.total, np.nan),
            np.broadcast_to(np.asarray(m.reliability, dtype=float), (len(m.contexts),)),
            expected[context, run],
            m.untimed_stretches[context, run],
        )
        return runs._without_times() if runs.is_untimed.any() else runs

    def _without_times(self) -> Runs:
        """The runs without the times of their untimed stretches, widened to whole intervals.

        A stretch is widened by `_MARGIN` first, as its ends are known to a segment only.
        """
        untimed, position = self.untimed.copy(), self.intervals[0]
        for r in np.flatnonzero(self.is_untimed):
            begin, end = untimed[r] + np.array([-_MARGIN, _MARGIN])
            edges = position[r]
            untimed[r] = (
                edges[max(np.searchsorted(edges, begin, side="right") - 1, 0)],
                edges[min(np.searchsorted(edges, end), len(edges) - 1)],
            )
        runs = replace(self, untimed=untimed)
        return replace(runs, state=runs.timed(self.state))

    def of_contexts(self, rows: Indices) -> Runs:
        """The runs of some contexts, in rising order."""
        kept = np.isin(self.context, rows)
        names = ("counts", "duration", "state", "expected", "untimed")
        per_run = {name: getattr(self, name)[kept] for name in names}
        return replace(
            self,
            contexts=self.contexts[rows],
            context=np.searchsorted(rows, self.context[kept]),
            interval=self.interval[kept] if self.interval.ndim else self.interval,
            total=self.total[rows],
            reliability=self.reliability[rows],
            **per_run,
        )

    @cached_property
    def n_runs(self) -> Indices:
        """Number of runs of each known context, (n_known,)."""
        return np.bincount(self.context)

    @property
    def weight(self) -> Floats:
        """Weight of each known context in a trend, (n_known,)."""
        return self.n_runs * self.reliability

    @property
    def run_total(self) -> Floats:
        """Total of the progress counter in each run that is used, (n,)."""
        return self.total[np.isfinite(self.total)]

    @cached_property
    def intervals(self) -> tuple[Floats, Floats]:
        """Progress at all edges (n, times + 1), and amounts of the intervals (n, times, k).

        Time comes first where it is not the clock; amounts after the end of a run, or its cut, are
        zero.
        """
        return progress_amounts(
            self.counts, self.duration, self.interval, clock=self.clock, expected=self.expected
        )

    @property
    def is_untimed(self) -> NDArray[np.bool_]:
        """Runs with an untimed stretch, (n,)."""
        return self.untimed[:, 1] > self.untimed[:, 0]

    def timed(self, state: Floats) -> Floats:
        """States (n, bins, k) with NaN for the time of bins in untimed stretches."""
        if not self.is_untimed.any():
            return state
        state = state.copy()
        state[self._untimed_bins(state.shape[1]), 0] = np.nan
        return state

    def _untimed_bins(self, bins: int) -> NDArray[np.bool_]:
        """Bins of progress that overlap an untimed stretch, (n, bins)."""
        knots, (begin, end) = uniform_knots(bins), self.untimed.T[..., None]
        return self.is_untimed[:, None] & (knots[1:] > begin) & (knots[:-1] < end)

    @property
    def timed_contexts(self) -> Indices:
        """Contexts in which some run has a time wherever any run has; all, if these are few."""
        lacking = np.isnan(self.means(self.state)[..., 0])
        untimed = self._sums(self._untimed_bins(self.state.shape[1]), np.int64) > 0
        rows = np.flatnonzero(~np.asarray((lacking & untimed).any(axis=1)))
        n, m = self.contexts.shape
        return rows if len(rows) >= max(m + 3, _ENOUGH * n) else np.arange(n)

    @cached_property
    def time_scale(self) -> Floats:
        """Factor that scales the times of each run to the mean run of its context, (n,).

        The mean is over the runs that went on to their end; without any, over all until their cuts.
        Untimed stretches are not compared.
        """
        ended = np.isnan(self.expected) & ~self.is_untimed
        n_ended = np.bincount(self.context, ended)
        sums = np.bincount(self.context, np.where(ended, self.duration, 0.0))
        factor = (sums / np.maximum(n_ended, 1))[self.context] / self.duration
        if not ended.all():
            cut, time = np.flatnonzero(~ended), self.state[..., :1]
            reference = (ended | (n_ended == 0)[self.context])[:, None, None]
            usual = self.means(np.where(reference, time, np.nan))[self.context[cut], :, 0]
            measured = time[cut, :, 0]
            usual_time, run_time = np.where(np.isfinite(measured), [usual, measured], 0.0).sum(2)
            factor[cut] = np.divide(
                usual_time, run_time, out=np.ones_like(run_time), where=run_time > 0
            )
        return factor

    def means(self, state: Floats) -> Floats:
        """Mean over the runs of each context, (n, bins, k) -> (n_known, bins, k).

        Over the runs whose state is finite there; NaN where there is none.
        """
        finite = np.isfinite(state)
        if finite.all():
            return self._sums(state) / self.n_runs[:, None, None]
        sums, count = self._sums(np.where(finite, state, 0.0)), self._sums(finite, np.int64)
        return np.divide(sums, count, out=np.full(sums.shape, np.nan), where=count > 0)

    def amounts(self, state: Floats, *, time_resolved: bool = True) -> Floats:
        """Means of states (n, bins, k) that a trend is fitted to, (n_known, bins, k).

        A counter that some runs lack is taken as its rate in the runs that hold it, times the mean
        time of all runs.  Where a resource caps the rate, counts and time vary together from run to
        run.  Bin by bin where time was deconvolved within the sampling intervals, else over the
        whole run.
        """
        means = self.means(state)
        for k, factor in self.time_factors(state, time_resolved=time_resolved).items():
            means[..., k] *= factor
        return means

    def time_factors(self, state: Floats, *, time_resolved: bool) -> dict[int, Floats]:
        """Mean time of all runs over that of the runs that hold a counter, where some lack it.

        By counter, (n_known, bins), or (n_known, 1) of the whole runs; 1 where there is no time.
        """
        factors: dict[int, Floats] = {}
        lacking = (self.n_measured < self.n_runs[:, None]).any(axis=0) & self._timed
        for k in np.flatnonzero(lacking):
            held = np.where(np.isfinite(state[..., k]), state[..., 0], np.nan)
            times = np.stack([self.means(t[..., None])[..., 0] for t in (state[..., 0], held)])
            if not time_resolved:
                finite = np.isfinite(times).all(axis=0)
                times = np.where(finite, times, 0.0).sum(axis=2, keepdims=True)
            with np.errstate(invalid="ignore", divide="ignore"):
                factor = times[0] / times[1]
            factors[int(k)] = np.where(np.isfinite(factor), factor, 1.0)
        return factors

    @property
    def _timed(self) -> NDArray[np.bool_]:
        """Quantities that have a time beside them, (k,)."""
        k = self.state.shape[2]
        return (np.arange(k) > 0) & (self.clock != 0)

    def _sums(self, values: NDArray, dtype: type | None = None) -> NDArray:
        """Sums over the runs of each context, (n, …) -> (n_known, …)."""
        first = np.searchsorted(self.context, np.arange(len(self.contexts)))
        return np.add.reduceat(values, first, axis=0, dtype=dtype)

    def n_finite(self, state: Floats) -> Indices:
        """Number of runs of each context with a finite state (n, bins, k), (n_known, bins, k)."""
        return self._sums(np.isfinite(state), np.int64)

    @cached_property
    def n_measured(self) -> Indices:
        """Number of runs of each known context that hold each quantity, (n_known, k)."""
        return self._sums(np.asarray(np.isfinite(self.state).any(axis=1)), np.int64)

    def deconvolved(self, trend: Trend, *, shared_steps: int = _SHARED_STEPS) -> Floats:
        """Amounts per bin of progress, deconvolved with a trend as the prior, (n, bins, k).

        The prior is corrected `shared_steps` times by the ratio that all runs share
        (:func:`msbgen.engine.generate.progress.deconvolve`).
        """
        prior = trend.predict(self.contexts)[self.context]
        clocked = deconvolve(
            self.counts,
            self.duration,
            self.interval,
            prior,
            knots=uniform_knots(prior.shape[1]),
            clock=self.clock,
            shared_steps=shared_steps,
            expected=self.expected,
        )
        return self.timed(clocked.state)


def usable_runs(total: Floats, clock: int) -> NDArray[np.bool_]:
    """Runs that a distribution is fitted to, (n_known, n_runs): all without lost counts.

    Where the totals of all runs of a context depart together, the context causes it, not a lost
    count.
    """
    present = total > 0  # False for NaN
    if clock == 0:
        return present
    bad = lost_counts(total)
    return present & ~(bad & (present & ~bad).any(axis=1, keepdims=True))
