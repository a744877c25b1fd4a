"""The runs of a profile file, one by one, as the writers of this wing take them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from msbgen.core.errors import MeasurementError
from msbgen.data.durations_only import WHOLE_RUN
from msbgen.data.profiles import Profiles
from msbgen.data.schema import labels_of, level_text

Floats = NDArray[np.float64]

# The latest time [s]: nanoseconds are counted in 63 bits.
LATEST = 9.2e9


@dataclass(frozen=True, eq=False)
class RunSeries:
    """One run, sample or mean profile.

    Attributes
    ----------
    context : dict of str to str
        Level of each resource, words among them.
    number : int or None
        Of the run within its context; None for one profile per context.
    duration, started : float
        [s]; `started` is NaN where the file does not hold it.
    ends : ndarray, (n_times,)
        End of each sampling interval since the start [s]; the last is that of the run.
    counts : dict of str to ndarray, (n_times,)
        Events, or joules, of each interval; NaN where they were not counted.
    """

    context: dict[str, str]
    number: int | None
    duration: float
    started: float
    ends: Floats
    counts: dict[str, Floats]


def runs_of(profiles: Profiles) -> Iterator[RunSeries]:
    """All runs of valid profiles, context by context; missing runs are left out."""
    seconds, step = profiles.duration, profiles.interval
    arrays = {name: each for name, each in zip(profiles.counters, profiles.samples)
              if name != WHOLE_RUN}  # fmt: skip
    labels = [labels_of(attrs) for attrs in profiles.resources.values()]
    for c, row in enumerate(profiles.contexts.tolist()):
        levels = zip(profiles.resources, row, labels)
        context = {name: level_text(level, words) for name, level, words in levels}
        for r in np.flatnonzero(np.isfinite(seconds[c])).tolist():
            duration = float(seconds[c, r])
            held = np.zeros(profiles.n_times, dtype=bool)
            for array in arrays.values():
                held |= np.isfinite(array[c, r])
            n = int(np.flatnonzero(held)[-1]) + 1 if held.any() else 0
            ends = step * np.arange(1, n + 1, dtype=np.float64)
            if n and ends[-1] - step < duration < ends[-1]:  # not so for the mean of several runs
                ends[-1] = duration
            counts = {name: array[c, r, :n].astype(float) for name, array in arrays.items()}
            number, started = r if profiles.replicate else None, float(profiles.started[c, r])
            yield RunSeries(context, number, duration, started, ends, counts)


def check_time(name: str, seconds: float) -> float:
    """The time of a sample [s]; MeasurementError where no trace holds it in nanoseconds."""
    if not abs(seconds) < LATEST:
        raise MeasurementError(
            f"{name}: a sample is at {seconds:.3g} s; times up to {LATEST:.2g} s can be exported: "
            f"correct the interval, the durations or the start."
        )
    return seconds
