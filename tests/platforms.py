"""Small platforms for schedulers: phase tables and truths straight from arrays."""

import numpy as np
import xarray as xr

from msbgen.systems.phases.grid import Grid, Resource
from msbgen.systems.realtime.truth import Truth

UNITS = {"ways": "1", "bandwidth": "MB s-1", "clock": "GHz"}


def make_table(speed, ends, levels, task="task", work=1e9):
    """Phase table of speeds (phases, levels…), as :func:`phase_table` would make it."""
    names = list(levels)
    attrs = {"schema": "msbgen-phases/1", "task": task, "progress": "instructions", "work": work}
    coords = {
        name: (name, np.array(values), {"units": UNITS[name], "role": "resource"})
        for name, values in levels.items()
    }
    coords["end"] = ("phase", np.array(ends))
    label = {"units": "s-1"}
    return xr.Dataset(
        {"speed": (("phase", *names), np.asarray(speed, dtype=np.float32), label)},
        coords=coords,
        attrs=attrs,
    )


def make_truth(seconds, levels, power=1.0):
    """Truth of seconds (runs, contexts, stretches) by name."""
    grid = Grid(tuple(Resource(n, UNITS[n], n, tuple(values)) for n, values in levels.items()))
    parts = []
    for name, values in seconds.items():
        values = np.asarray(values, dtype=np.float32)
        spent = np.full((1, *values.shape[1:]), power, dtype=np.float32)
        parts.append(Truth((name,), grid, values[None], spent))
    return Truth.join(parts)


def rising_speeds(rng, n_phases, levels):
    """Speeds that rise with every level, no two gains alike."""
    shape = (n_phases, *(len(values) for values in levels.values()))
    speed = rng.random(shape) ** 3 + 0.01
    for axis in range(1, len(shape)):
        speed = np.cumsum(speed, axis=axis)
    return speed
