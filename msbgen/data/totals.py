"""Totals of runs, figures of their contexts, and what makes one of them outlying."""

from collections.abc import Callable
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from msbgen.data import schema
from msbgen.data.partial import held_counters

Floats = NDArray[np.float64]

# A figure beyond both is outlying: multiples of the median distance, and a share of the median.
APART, FAR, NORMAL = 5.0, 0.1, 1.4826
# Of fewer figures, none is outlying.
FEW = 5


def run_totals(dataset: xr.Dataset) -> Floats:
    """Events of each run, (context, run, counter), NaN where it was not held until its end."""
    totals = np.nansum(schema.count_array(dataset), axis=2)
    known = held_counters(dataset) & np.isfinite(schema.ended_durations(dataset))[..., None]
    return np.where(known, totals, np.nan)


def by_context(reduce: Callable[..., Any], values: Floats) -> Floats:
    """A figure of the runs of each context, NaN where there is none."""
    if values.size and np.isfinite(values).all():
        return np.asarray(reduce(values, axis=1))
    rows = [row[np.isfinite(row)] for row in values]
    return np.array([reduce(row) if len(row) else np.nan for row in rows])
