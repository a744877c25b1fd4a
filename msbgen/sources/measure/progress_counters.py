"""Comparison of counters as measures of progress: spread of their totals, evenness of counting."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from msbgen.core.errors import MeasurementError
from msbgen.data.groups import counts_interruptions
from msbgen.data.profiles import Profiles

# Share of the progress that a counter should resolve.
STEP = 0.01
# A counter that does not advance by a step for a longer share of a run is too coarse.
_TOO_COARSE = 0.1
# Number of runs for the median resolution, evenly chosen from all.
_N_RUNS = 300
# Another counter is recommended if its error is less than this share of the present one's; so noise
# does not recommend one counter in one file, and another in the next.
_CLEARLY = 0.5
# A counter with single runs is recommended in the place of time if its totals differ by less.
_ALIKE = 0.05
# Errors that differ by less are regarded as equal; then the resolution decides.
_EQUAL = 0.002


@dataclass(frozen=True)
class ProgressCounter:
    """Quality of one counter as a measure of progress.

    `spread` is the range of the totals of one context's runs, relative to their mean, in the median
    context [1]; NaN where each was measured once.  `spread_across_contexts` is the range of the
    contexts' mean totals, relative to their mean [1]: small, as the amount of work does not depend
    on the context.  `resolution` is the longest share of a run's time in which the counter advances
    by less than 1 %, in the median run [1].
    """

    name: str
    spread: float
    spread_across_contexts: float
    resolution: float

    @property
    def error(self) -> float:
        """The larger of the two spreads that are known.

        The totals of single runs vary across contexts by both: a small range is of a good counter.
        """
        return float(np.fmax(self.spread, self.spread_across_contexts))


def compare_progress_counters(profiles: Profiles) -> list[ProgressCounter]:
    """Quality of every counter as a measure of progress, in the order of the profiles.

    MeasurementError: there is only one run.
    """
    counts, duration = profiles.counts, profiles.duration
    whole = np.isfinite(profiles.ended)  # the total of a cut run is unknown
    if whole.sum() < 2:
        raise MeasurementError(
            "there is one complete run or none; progress counters are compared over two or more."
        )
    is_counted = profiles.held
    counters = []
    for j, name in enumerate(profiles.counters):
        present = whole & is_counted[..., j]
        there, several = present.any(axis=1), present.sum(axis=1) > 1
        totals = np.where(present, np.nansum(counts[..., j], axis=2), np.nan)
        means = np.full(len(totals), np.nan)
        means[there] = np.nanmean(totals[there], axis=1)
        if there.sum() < 2 and not several.any():
            continue  # it was counted once
        if not (means[there] > 0).all():
            continue  # it counted nothing in a context
        ranges = np.nanmax(totals[several], axis=1) - np.nanmin(totals[several], axis=1)
        counted_runs = np.argwhere(present & (totals > 0))
        shares = [
            _longest_stop(counts[c, r, :, j], float(duration[c, r]), profiles.interval)
            for c, r in counted_runs[:: -(-len(counted_runs) // _N_RUNS)]
        ]
        counters.append(
            ProgressCounter(
                name,
                float(np.median(ranges / means[several])) if several.any() else float("nan"),
                float(np.ptp(means[there]) / means[there].mean()),
                float(np.median(shares)),
            )
        )
    return counters


def suggest_progress_counter(counters: list[ProgressCounter]) -> ProgressCounter:
    """The counter with the smallest error among those with a fine resolution.

    Among counters with equal errors, ``instructions`` come first, then the finest resolution.  If
    no counter is fine enough, the one with the finest resolution is taken.  Perf's software events,
    except for CPU time, come last: they count interruptions, not work.  MeasurementError: none.
    """
    if not counters:
        raise MeasurementError("no counter counts in every context; time measures progress.")
    counters = [c for c in counters if not counts_interruptions(c.name)] or counters
    fine = [counter for counter in counters if counter.resolution <= _TOO_COARSE]
    if not fine:
        return min(counters, key=lambda counter: counter.resolution)
    least = min(counter.error for counter in fine)
    equal = [counter for counter in fine if counter.error <= least + _EQUAL]
    return min(equal, key=lambda c: (not c.name.startswith("instructions"), c.resolution))


def describe_progress_counters(profiles: Profiles) -> list[str]:
    """A line per counter that can be compared, and one with the best; none if generated."""
    if profiles.replicate != "run" or profiles.is_generated:
        return []
    used = profiles.clock_name
    several = np.isfinite(profiles.ended).sum() > 1
    counters = compare_progress_counters(profiles) if several else []
    if not counters:
        return [f"progress  {used}"]
    lines = []
    for counter in counters:
        own = f"of one context spread by {counter.spread:.1%}, contexts"
        once = "spread over contexts"
        lines.append(
            f"clock     {counter.name}: totals {once if np.isnan(counter.spread) else own} "
            f"by {counter.spread_across_contexts:.1%}; advances by 1 % in {counter.resolution:.1%} "
            f"of a run at most"
        )
    best = suggest_progress_counter(counters)
    present = {counter.name: counter for counter in counters}.get(used)
    if present is None:  # time, of which a counter that stops is no improvement
        unlike = np.isnan(best.spread) and best.error > _ALIKE  # its noise is not known
        kept = best.resolution > _TOO_COARSE or unlike
    else:
        close = _CLEARLY * present.error <= best.error + _EQUAL
        kept = best.name == used or (present.resolution <= _TOO_COARSE and close)
    better = f"; {best.name} measures it better (import --clock, or attribute 'progress')"
    return [*lines, f"progress  {used}{'' if kept else better}"]


def _longest_stop(counts: NDArray[np.float64], duration: float, interval: float) -> float:
    """The longest share of a run in which the counter advances by less than a step.

    Counts grow linearly within an interval: the longest time begins or ends at an interval's end.
    """
    counts = counts[~np.isnan(counts)]
    progress = np.append(0.0, np.cumsum(counts) / counts.sum())
    time = np.append(0.0, np.minimum(interval * np.arange(1, len(counts) + 1), duration))
    ahead = _time_ahead(progress, time)
    back = _time_ahead(progress[-1] - progress[::-1], time[-1] - time[::-1])
    return min(max(ahead, back) / duration, 1.0)


def _time_ahead(done: NDArray[np.float64], time: NDArray[np.float64]) -> float:
    """The longest time from the end of an interval until one step later."""
    wanted = done + STEP
    j = np.searchsorted(done, wanted, side="right")
    inside = j < len(done)
    k = np.minimum(j, len(done) - 1)
    rise = np.where(inside, done[k] - done[k - 1], 1.0)
    part = (wanted - done[k - 1]) / rise
    later = np.where(inside, time[k - 1] + part * (time[k] - time[k - 1]), time[-1])
    return float((later - time).max())
