"""The runs of a profile file, one by one, as the writers of this wing take them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from msbgen.core.errors import MeasurementError
from msbgen.data.schema import (
    ENERGY_UNITS,
    counter_dims,
    counter_names,
    duration_array,
    labels_of,
    level_text,
    replicate_dim,
    resource_names,
    sampling_interval,
    started_array,
)

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


def runs_of(dataset: xr.Dataset) -> Iterator[RunSeries]:
    """All runs of a valid profile dataset, context by context; missing runs are left out."""
    dims, names = counter_dims(dataset), counter_names(dataset)
    seconds, started = duration_array(dataset), started_array(dataset)
    shape = (*seconds.shape, dataset.sizes["time"])
    arrays = {name: dataset[name].transpose(*dims).values.reshape(shape) for name in names}
    step, numbered = sampling_interval(dataset), replicate_dim(dataset) is not None
    resources = resource_names(dataset)
    labels = [labels_of(dataset[name].attrs) for name in resources]
    for c, row in enumerate(zip(*(dataset[name].values.tolist() for name in resources))):
        context = {n: level_text(x, words) for n, x, words in zip(resources, row, labels)}
        for r in np.flatnonzero(np.isfinite(seconds[c])).tolist():
            duration = float(seconds[c, r])
            held = np.any([np.isfinite(array[c, r]) for array in arrays.values()], axis=0)
            n = int(np.flatnonzero(held)[-1]) + 1 if held.any() else 0
            ends = step * np.arange(1, n + 1, dtype=np.float64)
            if n and ends[-1] - step < duration < ends[-1]:  # not so for the mean of several runs
                ends[-1] = duration
            counts = {name: array[c, r, :n].astype(float) for name, array in arrays.items()}
            yield RunSeries(
                context, r if numbered else None, duration, float(started[c, r]), ends, counts
            )


def check_time(name: str, seconds: float) -> float:
    """The time of a sample [s]; MeasurementError where no trace holds it in nanoseconds."""
    if not abs(seconds) < LATEST:
        raise MeasurementError(
            f"{name}: a sample is at {seconds:.3g} s; times up to {LATEST:.2g} s can be exported: "
            f"correct the interval, the durations or the start."
        )
    return seconds


def is_energy(dataset: xr.Dataset, counter: str) -> bool:
    """Whether a counter is in joules."""
    return str(dataset[counter].attrs.get("units")) == ENERGY_UNITS
