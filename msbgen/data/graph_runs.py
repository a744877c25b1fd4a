"""What measured runs of task graphs on a device are, and how they are read.

Runs of graphs (``msbgen-graph-runs/1``) are a plain :class:`xarray.Dataset` of one device:

=====================  ====  ====================================================================
name                   dims  meaning
=====================  ====  ====================================================================
``graph``              run   name of the graph that ran
columns of a context   run   what the device's sheet calls cores and clock of each cluster, ways of
                             the caches, bandwidth (:mod:`msbgen.data.devices`)
``temperature``        run   at the start [degC]
``time``               run   from the start of the first task to the end of the last [s]
``energy``             run   of the whole device in that time [J]
=====================  ====  ====================================================================

Attribute ``device``: the sheet's name.  As a table: ``graph,cores_…,clock_…,cache_ways,bandwidth,
temperature [degC],time [s],energy [J]``; without a temperature runs start at the ambient one.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from msbgen.data.devices import Device, check_contexts
from msbgen.data.store import load_netcdf, save_netcdf
from msbgen.data.tables import read_lines, shown
from msbgen.errors import ArgumentError, ProfileError

GRAPH_RUNS_SCHEMA = "msbgen-graph-runs/1"

Floats = NDArray[np.float64]

# Measured numbers of a run: units, meaning, the least and the most.
MEASURED = {
    "temperature": ("degC", "temperature at the start", -100.0, 300.0),
    "time": ("s", "time of the run", 1e-9, 1e9),
    "energy": ("J", "energy of the device", 1e-12, 1e12),
}
# Mean powers this many times beyond what a sheet can explain are no powers of that device.
_UNLIKE = 10.0


def make_graph_runs(
    graph: Sequence[str],
    contexts: ArrayLike,
    time: ArrayLike,
    energy: ArrayLike,
    device: Device,
    *,
    temperature: ArrayLike | None = None,
) -> xr.Dataset:
    """Put labels on runs.

    Parameters
    ----------
    graph : sequence of str, (n,)
    contexts : array_like, (n, n_columns)
        Columns as ``device.columns``.
    time, energy : array_like, (n,)
        [s], [J]
    device : Device
    temperature : array_like, (n,)
        At the start [°C]; the ambient one where not given.

    Returns
    -------
    xarray.Dataset
        Valid.

    Raises
    ------
    ArgumentError
        Arrays of other lengths, what is no context, or what :func:`validate_graph_runs` refuses.

    Examples
    --------
    >>> from msbgen.data.devices import shipped_device
    >>> tx2 = shipped_device("tx2")
    >>> runs = make_graph_runs(["lu"], [tx2.largest], [1.5], [15.0], tx2)
    >>> runs.sizes["run"], str(runs.attrs["device"])
    (1, 'tx2')
    """
    n = len(graph)
    table = check_contexts(device, contexts)
    start = np.full(n, device.ambient) if temperature is None else temperature
    numbers = {"temperature": start, "time": time, "energy": energy}
    arrays = {name: np.asarray(values, dtype=float) for name, values in numbers.items()}
    for name, array in {**arrays, "contexts": table[:, 0]}.items():
        if array.shape != (n,):
            raise ArgumentError(f"{name} is of {len(array)} runs; one for each of {n} is wanted.")
    variables: dict[str, Any] = {"graph": ("run", np.array(list(map(str, graph)), dtype=str))}
    for column, values in zip(device.columns, table.T):
        label = {k: v for k, v in device.labels[column].items() if k != "levels"}
        variables[column] = "run", values, label
    for name, values in arrays.items():
        units, label, _, _ = MEASURED[name]
        variables[name] = "run", values, {"units": units, "long_name": label}
    attrs = {"schema": GRAPH_RUNS_SCHEMA, "device": device.name}
    try:
        return validate_graph_runs(xr.Dataset(variables, attrs=attrs), device, source="runs")
    except ProfileError as error:
        raise ArgumentError(error.problems[0]) from None


def run_contexts(runs: xr.Dataset, device: Device) -> Floats:
    """Contexts of the runs, (n, n_columns), columns as ``device.columns``."""
    return np.stack([runs[column].values.astype(float) for column in device.columns], axis=1)


def validate_graph_runs(runs: xr.Dataset, device: Device, *, source: str = "runs") -> xr.Dataset:
    """Return the dataset if it obeys the contract and can be of the device.

    Raises
    ------
    ProfileError
        With one sentence for every problem.
    """
    problems = list(_layout_problems(runs, device)) or list(_value_problems(runs, device))
    if problems:
        raise ProfileError(*(f"{source}: {problem}" for problem in problems))
    return runs


def read_graph_runs(path: str | os.PathLike[str], device: Device) -> xr.Dataset:
    """Read and validate runs of graphs on a device, from netCDF or from a table (.csv).

    Raises
    ------
    ProfileError
        The file cannot be read whole, or what it holds breaks the contract.
    """
    if Path(path).suffix == ".csv":
        return _read_table(path, device)
    return validate_graph_runs(load_netcdf(path), device, source=Path(path).name)


def write_graph_runs(
    runs: xr.Dataset, path: str | os.PathLike[str], device: Device, *, overwrite: bool = False
) -> None:
    """Validate and write runs as netCDF, whole or not at all.

    Raises
    ------
    ProfileError
        The dataset breaks the contract; nothing is written.
    FileExistsError
        `path` exists and `overwrite` is False.
    """
    validate_graph_runs(runs, device, source=Path(path).name)
    save_netcdf(runs, path, overwrite=overwrite)


def graph_run_rows(runs: xr.Dataset, device: Device) -> Iterator[list[Any]]:
    """Rows of a table of runs, the header first."""
    yield ["graph", *device.columns, *(f"{n} [{u}]" for n, (u, *_) in MEASURED.items())]
    contexts = run_contexts(runs, device)
    numbers = np.stack([runs[name].values for name in MEASURED], axis=1)
    for name, context, measured in zip(runs["graph"].values, contexts, numbers):
        yield [str(name), *(f"{v:.15g}" for v in context), *(f"{v:.9g}" for v in measured)]


def _read_table(path: str | os.PathLike[str], device: Device) -> xr.Dataset:
    where, lines = Path(path).name, read_lines(path)
    units = {f"{name} [{unit}]": name for name, (unit, *_) in MEASURED.items()}
    known = {"graph": "graph", **{c: c for c in device.columns}, **units}
    header = lines[0][1] if lines else []
    for column in header:
        if column not in known:
            near = difflib.get_close_matches(column, known, 1)
            hint = f"did you mean '{near[0]}'?" if near else f"one of {', '.join(known)} is wanted."
            raise ProfileError(f"{where}, line 1: column '{column}' is unknown; {hint}")
    if len(set(header)) < len(header):
        raise ProfileError(f"{where}, line 1: a column stands twice; each once is wanted.")
    for column in known:
        if column not in header and known[column] != "temperature":
            raise ProfileError(f"{where}, line 1: column '{column}' is missing; add it.")
    graphs, numbers = [], []
    for line, cells in lines[1:]:
        if len(cells) != len(header):
            raise ProfileError(
                f"{where}, line {line}: {shown(cells)} has {len(cells)} cells; {len(header)} are "
                f"wanted."
            )
        row = {}
        for column, cell in zip(header, cells):
            if column == "graph":
                graphs.append(cell)
                continue
            try:
                row[known[column]] = float(cell)
            except ValueError:
                raise ProfileError(
                    f"{where}, line {line}: {column} is {cell!r}; a number is wanted."
                ) from None
        numbers.append(row)
    if not numbers:
        raise ProfileError(f"{where}: there are no runs; a row for each is wanted.")
    columns = {name: np.array([row[name] for row in numbers]) for name in numbers[0]}
    contexts = np.stack([columns[name] for name in device.columns], axis=1)
    try:
        return make_graph_runs(
            graphs,
            contexts,
            columns["time"],
            columns["energy"],
            device,
            temperature=columns.get("temperature"),
        )
    except ArgumentError as error:
        raise ProfileError(f"{where}: {error}") from None


def _layout_problems(ds: xr.Dataset, device: Device) -> Iterator[str]:
    schema = ds.attrs.get("schema")
    if not isinstance(schema, str) or schema != GRAPH_RUNS_SCHEMA:
        yield f"attribute 'schema' is {schema!r}; runs of graphs say '{GRAPH_RUNS_SCHEMA}'."
        return
    if ds.attrs.get("device") != device.name:
        yield f"runs are of device {ds.attrs.get('device')!r}; the sheet is of '{device.name}'."
        return
    if ds.sizes.get("run", 0) == 0:
        yield "dimension 'run' is missing or empty; at least one run is wanted."
        return
    for name in ("graph", *device.columns, *MEASURED):
        kinds = "OUT" if name == "graph" else "fiu"
        if name not in ds:
            yield f"variable '{name}' is missing; make the runs with make_graph_runs."
        elif ds[name].dims != ("run",):
            yield f"variable '{name}' has dimensions {list(ds[name].dims)}; ['run'] is wanted."
        elif ds[name].dtype.kind not in kinds:
            wanted = "names" if name == "graph" else "numbers"
            yield f"variable '{name}' holds {ds[name].dtype}; {wanted} are wanted."
        elif name in MEASURED and ds[name].attrs.get("units") != MEASURED[name][0]:
            got = ds[name].attrs.get("units")
            yield f"variable '{name}' has units {got!r}; units '{MEASURED[name][0]}' are wanted."


def _value_problems(ds: xr.Dataset, device: Device) -> Iterator[str]:
    for name, (units, _, least, most) in MEASURED.items():
        values = ds[name].values.astype(float)
        bad = ~((values >= least) & (values <= most))
        if bad.any():
            row = int(np.argmax(bad))
            got = "missing" if np.isnan(values[row]) else f"{values[row]:g} {units}"
            yield f"'{name}' of run {row} is {got}; {least:g} to {most:g} {units} is wanted."
            return
    try:
        check_contexts(device, run_contexts(ds, device))
    except ArgumentError as error:
        yield str(error)
        return
    power = ds["energy"].values / ds["time"].values
    most = device.base_power + sum(
        c.on_power + c.cores * (c.power + c.idle_power) for c in device.clusters
    )
    least = device.base_power or min(c.idle_power for c in device.clusters)
    bad = (power > _UNLIKE * most) | (power < least / _UNLIKE)
    if bad.any():
        row = int(np.argmax(bad))
        energy, time = (float(ds[name].values[row]) for name in ("energy", "time"))
        yield (
            f"energy of run {row} is {energy:g} J in {time:g} s, {power[row]:.3g} W, and "
            f"{device.name} takes {least:.3g} to {most:.3g} W; mend the unit of one "
            f"('energy' in J, 'time' in s)."
        )
