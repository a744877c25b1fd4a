"""Runs of graphs as both predictors check them: which device, which graphs, in which order."""

import difflib
from collections.abc import Mapping, Sequence

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from msbgen.core.errors import ArgumentError, ProfileError
from msbgen.systems.graphs.boards import Board
from msbgen.systems.graphs.devices import Device
from msbgen.systems.graphs.runs import run_contexts, validate_runs

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]


def devices_of_runs(runs: Sequence[xr.Dataset], devices: Sequence[Device]) -> list[Device]:
    """Device of each dataset of runs.

    :class:`ArgumentError`: no runs.  :class:`ProfileError`: two datasets of one device, or a device
    whose sheet is missing.
    """
    if not runs:
        raise ArgumentError("runs are none; those of one device or more are wanted.")
    names = [str(dataset.attrs.get("device")) for dataset in runs]
    sheets = {device.name: device for device in devices}
    for name in names:
        if names.count(name) > 1:
            raise ProfileError(
                f"runs of '{name}' are in {names.count(name)} parts; one is wanted: join "
                f"them (msbgen.graphs.join_runs, or one file)."
            )
        if name not in sheets:
            listed = ", ".join(sheets) or "none"
            raise ProfileError(
                f"runs are of the device '{name}', whose sheet is not among {listed}; give it."
            )
    return [sheets[name] for name in names]


def arrays_of_runs(
    runs: xr.Dataset, board: Board, graphs: Mapping[str, xr.Dataset], order: str
) -> tuple[list[str], tuple[Indices, Indices, Floats, Floats]]:
    """Names of the graphs that ran, and arrays of the runs.

    Of each run: the number of its graph (n,), the row of its context (n, 1 + 2 n_clusters), the
    temperature at the start [°C] (n,), logarithms of time [s] and energy [J], (n, 2).

    :class:`ProfileError`: runs that break their schema, started in another order, or are of a graph
    that is missing.
    """
    device = board.device
    validate_runs(runs, device)
    started = runs.attrs.get("order", order)
    if started != order:
        raise ProfileError(
            f"tasks of runs of '{device.name}' started in the order {started}, and the "
            f"predictor's is {order}; the same is wanted (of arrival and heft)."
        )
    every = [str(name) for name in runs["graph"].values]
    names = list(dict.fromkeys(every))
    for name in names:
        if name not in graphs:
            near = difflib.get_close_matches(name, graphs, 1)
            hint = f"did you mean '{near[0]}'?" if near else "give it among the graphs."
            raise ProfileError(f"runs of graph '{name}', which is not given; {hint}")
    place = {name: i for i, name in enumerate(names)}
    number = np.array([place[name] for name in every])
    rows = board.rows(run_contexts(runs, device))
    start = runs["start_temperature"].values.astype(float)
    log = np.log(np.stack([runs["makespan"].values, runs["energy"].values], axis=1))
    return names, (number, rows, start, log)
