"""Which counter tells the progress of a run: how far its totals spread, how evenly it moves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from msbgen.core.errors import MeasurementError
from msbgen.data.partial import held_counters
from msbgen.data.schema import (
    complete_array,
    count_array,
    counter_names,
    duration_array,
    sampling_interval,
)

# A stretch of progress that a clock should tell from the next one.
STRETCH = 0.01
# A clock that stands still for a larger share of a run tells too little of it.
_TOO_COARSE = 0.1
# Runs, spread over all, that a resolution is the median of.
_TRIED = 300
# Spreads that differ by less are alike: the finer clock is better.
_ALIKE = 0.002


@dataclass(frozen=True)
class ProgressCounter:
    """One counter as a clock.

    Attributes
    ----------
    name : str
        The counter.
    spread : float
        Largest less smallest total of the runs of one context, over their mean, in the median
        context [1]: what one piece of work is counted as, again and again.
    across : float
        The same of the contexts' means [1]: a clock must not run with the context.
    resolution : float
        The longest share of a run's time in which the clock moves by less than a hundredth of the
        run, in the median run [1].
    """

    name: str
    spread: float
    across: float
    resolution: float

    @property
    def error(self) -> float:
        """The larger of the two spreads."""
        return max(self.spread, self.across)


def compare_progress_counters(dataset: xr.Dataset) -> list[ProgressCounter]:
    """Every counter of a dataset as a clock, in the order of the dataset.

    Raises
    ------
    MeasurementError
        No context was measured more than once.
    """
    counts, duration = count_array(dataset), duration_array(dataset)
    whole = np.isfinite(duration) & complete_array(dataset)  # of a cut run no total is known
    if not (whole.sum(axis=1) > 1).any():
        raise MeasurementError(
            "every context was measured once; clocks are compared over two runs or more."
        )
    held = held_counters(dataset)
    clocks = []
    for j, name in enumerate(counter_names(dataset)):
        present = whole & held[..., j]
        there, several = present.any(axis=1), present.sum(axis=1) > 1
        own = np.where(present, np.nansum(counts[..., j], axis=2), np.nan)
        means = np.full(len(own), np.nan)
        means[there] = np.nanmean(own[there], axis=1)
        if not several.any() or not (means[there] > 0).all():
            continue  # a clock that stands still in a context is none
        ranges = np.nanmax(own[several], axis=1) - np.nanmin(own[several], axis=1)
        some = np.argwhere(present & (own > 0))
        shares = [
            _longest_stop(counts[c, r, :, j], float(duration[c, r]), sampling_interval(dataset))
            for c, r in some[:: -(-len(some) // _TRIED)]
        ]
        clocks.append(
            ProgressCounter(
                name,
                float(np.median(ranges / means[several])),
                float(np.ptp(means[there]) / means[there].mean()),
                float(np.median(shares)),
            )
        )
    return clocks


def suggest_progress_counter(clocks: list[ProgressCounter]) -> ProgressCounter:
    """The clock whose totals spread least, of those that never stand still for long.

    Of clocks that are alike, instructions where they were counted, else the one that moves most
    evenly.  Where none moves all the time, the one that does so most evenly, too.

    Raises
    ------
    MeasurementError
        There are no clocks.
    """
    if not clocks:
        raise MeasurementError("no counter moves in every context; time alone tells the progress.")
    fine = [clock for clock in clocks if clock.resolution <= _TOO_COARSE]
    if not fine:
        return min(clocks, key=lambda clock: clock.resolution)
    least = min(clock.error for clock in fine)
    alike = [clock for clock in fine if clock.error <= least + _ALIKE]
    return min(alike, key=lambda c: (not c.name.startswith("instructions"), c.resolution))


def describe_progress_counters(dataset: xr.Dataset) -> list[str]:
    """A line a counter as a clock, and one that suggests; none where nothing was repeated."""
    runs = np.isfinite(duration_array(dataset)).sum(axis=1)
    if "run" not in dataset.dims or "kind" in dataset.attrs or (runs < 2).all():
        return []
    clocks = compare_progress_counters(dataset)
    if not clocks:
        return []
    lines = [
        f"clock     {clock.name}: totals of one context spread by {clock.spread:.1%}, contexts by "
        f"{clock.across:.1%}; moves by 1 % in {clock.resolution:.1%} of a run at most"
        for clock in clocks
    ]
    best = suggest_progress_counter(clocks).name
    default = "instructions" if "instructions" in counter_names(dataset) else "time"
    used = str(dataset.attrs.get("progress", default))
    better = "" if best == used else f"; {best} tells it better (attribute 'progress')"
    return [*lines, f"progress  {used}{better}"]


def _longest_stop(counts: NDArray[np.float64], duration: float, interval: float) -> float:
    """The longest share of a run in which its clock moves by less than a stretch.

    Progress is linear in each interval: such a time begins or ends where an interval does.
    """
    counts = counts[~np.isnan(counts)]
    progress = np.append(0.0, np.cumsum(counts) / counts.sum())
    time = np.append(0.0, np.minimum(interval * np.arange(1, len(counts) + 1), duration))
    ahead = _time_ahead(progress, time)
    back = _time_ahead(progress[-1] - progress[::-1], time[-1] - time[::-1])
    return min(max(ahead, back) / duration, 1.0)


def _time_ahead(done: NDArray[np.float64], time: NDArray[np.float64]) -> float:
    """The longest time from an end of an interval until a stretch later."""
    wanted = done + STRETCH
    j = np.searchsorted(done, wanted, side="right")
    inside = j < len(done)
    k = np.minimum(j, len(done) - 1)
    rise = np.where(inside, done[k] - done[k - 1], 1.0)
    part = (wanted - done[k - 1]) / rise
    later = np.where(inside, time[k - 1] + part * (time[k] - time[k - 1]), time[-1])
    return float((later - time).max())
