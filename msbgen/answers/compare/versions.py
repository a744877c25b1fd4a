"""Runs of one version of a program: their work, and how a longer sampling interval shows them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from msbgen.data.profiles import Profiles
from msbgen.engine.generate.progress import to_progress
from msbgen.engine.generate.runs import usable_runs

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Indices = NDArray[np.int64]

# The most intervals of one version that are joined to compare it with another's interval.
_MOST_INTERVALS = 4


def amounts_of(version: Profiles, knots: Floats) -> Floats:
    """Amounts between knots of progress of every quantity but the clock, (n, runs, bins, k)."""
    clock = version.clock
    runs = to_progress(version.counts, version.duration, version.interval, knots=knots, clock=clock)
    return np.where(usable_runs(runs.total, clock)[..., None, None], runs.state, np.nan)


def sampled_every(version: Profiles, interval: float) -> Profiles:
    """The same runs, without gaps, as a longer sampling interval [s] shows them.

    Work that both versions share is spread out alike only in equal intervals.
    """
    if np.isclose(interval, version.interval):
        return version
    duration = version.duration
    used = np.isfinite(duration)
    n_times = int(np.ceil(duration[used].max(initial=interval) / interval - 1e-9))
    counts = np.full((*duration.shape, n_times, len(version.counters)), np.nan)
    for place in zip(*np.nonzero(used)):
        whole, counted = duration[place], version.counts[place]
        ends = np.minimum(interval * np.arange(1, n_times + 1), whole)
        ends = ends[: int(np.ceil(whole / interval - 1e-9))]
        for k, column in enumerate(counted.T):
            held = np.isfinite(column)
            if held.any():
                n = int(np.flatnonzero(held)[-1]) + 1
                edges = np.append(version.interval * np.arange(n), whole)
                parts = np.diff(np.interp(ends, edges, _sums(column[:n])), prepend=0.0)
                lost = np.diff(np.interp(ends, edges, _sums(~held[:n])), prepend=0.0)
                counts[*place, : len(ends), k] = np.where(lost > 0, np.nan, parts)
    return replace(version.with_counts(counts), interval=interval)


def in_columns(version: Profiles, runs: Indices) -> Profiles:
    """Runs (n, columns) of each context in new columns; −1 for a missing one."""
    rows = np.arange(len(runs))[:, None]
    names = ("duration", "complete", "started")
    parts = {name: getattr(version, name)[rows, runs] for name in names}
    samples = tuple(each[rows, runs] for each in version.samples)
    return replace(version, **parts, samples=samples, run_details={}).of_runs(runs >= 0)


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
