"""Bounds of made-up tasks over a grid of ways, bandwidth and clock."""

import itertools

import numpy as np
import xarray as xr

UNITS = {"cache_ways": "1", "bandwidth": "MB s-1", "frequency": "GHz"}


def bounds_on_grid(rng, levels, task="made", untested=0.0):
    """Bounds that mostly fall with every resource, as `bounds` of a model returns them."""
    contexts = np.array(list(itertools.product(*levels.values())))
    unit = contexts / contexts.max(axis=0)
    seconds = (rng.uniform(0.1, 1, len(levels)) / unit).sum(axis=1)
    seconds *= rng.uniform(0.9, 1.1, len(seconds))
    flag = (rng.random(len(seconds)) < untested).astype(np.int8)
    return xr.Dataset(
        {
            "duration_bound": ("context", seconds, {"units": "s"}),
            "extrapolated": ("context", flag),
            "beyond": ("context", flag),
        },
        coords={
            name: ("context", column, {"role": "resource", "units": UNITS[name]})
            for name, column in zip(levels, contexts.T)
        },
        attrs={"task": task, "miscoverage": 0.05},
    )
