"""What runs of task graphs on a device are: measured or simulated, a row each.

A dataset of runs (``msbgen-graph-runs/1``) is a plain :class:`xarray.Dataset` over ``run``:

======================  ==================================================================
name                    meaning
======================  ==================================================================
``graph``               name of the graph
``family``              its family: what is held back as a whole; empty where the graph says it
a coordinate a column   what the run was given: cores and clock of each cluster, ways of
of the device           the caches, bandwidth; ``role="resource"``
``makespan``            from its start to its end [s]
``energy``              of all of the device in that time [J]
``start_temperature``   [degC]
``power``               optional: mean power, where it was measured apart [W]
``peak_temperature``    optional [degC]
``last_temperature``    optional [degC]
``throttled``           optional: time with clocks stepped down [s]
``stretched``           optional: 1 where profiles were stretched beyond their clocks
======================  ==================================================================

Attributes: ``device``, the name of the sheet; optional ``order``, which of several ready tasks
started first: ``arrival``, ``heft``, or ``keys`` of somebody's own.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from msbgen.core.errors import ArgumentError, ProfileError
from msbgen.data.store import load_netcdf, save_netcdf
from msbgen.data.tables import read_lines, shown, with_line, write_table
from msbgen.graphs.devices import Device, check_contexts

RUNS_SCHEMA = "msbgen-graph-runs/1"

Floats = NDArray[np.float64]

_MOST = 1e25
# No board runs as hot as this [°C]; as kelvins it is colder than any.
_HOTTEST = 250.0
# Numbers of a run: units, what they mean, the least and the most; the first two are always there.
NUMBERS = {
    "makespan": ("s", "time from start to end", 1e-12, _MOST),
    "energy": ("J", "energy of the device", 1e-15, _MOST),
    "start_temperature": ("degC", "temperature at the start", -100.0, _HOTTEST),
    "power": ("W", "mean power", 1e-9, _MOST),
    "peak_temperature": ("degC", "highest temperature", -100.0, _HOTTEST),
    "last_temperature": ("degC", "temperature at the end", -100.0, _HOTTEST),
    "throttled": ("s", "time with clocks stepped down", 0.0, _MOST),
}
_NEEDED = ("makespan", "energy")
# How files of runs end.
ENDINGS = (".nc", ".csv")
# What of several ready tasks started first.
ORDERS = ("arrival", "heft", "keys")
_WORDS = ("graph", "family", "order")
# Numbers of tables are rounded: temperatures [K] and shares of times this close are equal.
_ROUNDING = 1e-6
# Energy may be this share off power × time: readings of meters are coarse.
_METER = 0.5
# Mean powers this many times above the most that a sheet can draw, or below its base, are none.
_UNLIKELY = 10.0


def make_runs(
    device: Device,
    contexts: ArrayLike,
    *,
    graph: Sequence[str],
    family: Sequence[str],
    makespan: ArrayLike,
    energy: ArrayLike,
    start_temperature: ArrayLike | None = None,
    stretched: ArrayLike | None = None,
    attrs: Mapping[str, Any] | None = None,
    **numbers: ArrayLike | None,
) -> xr.Dataset:
    """Put labels on arrays of one row a run.

    Parameters
    ----------
    device : Device
    contexts : array_like, (n, n_columns)
        Columns as ``device.columns``.
    graph, family : sequence of str, (n,)
    makespan, energy : array_like, (n,)
        [s], [J]
    start_temperature : array_like, (n,)
        Ambient where not given [°C].
    stretched : array_like of bool, (n,)
    attrs : mapping
        ``order``, say.
    **numbers : array_like, (n,) each
        Any other of :data:`NUMBERS`; None counts as not given.

    Raises
    ------
    ArgumentError
        An unknown name of numbers, or what :func:`validate_runs` would refuse.
    """
    table = check_contexts(device, contexts)
    n = len(table)
    if start_temperature is None:
        start_temperature = np.full(n, device.ambient)
    given = {"makespan": makespan, "energy": energy, "start_temperature": start_temperature}
    given |= {key: values for key, values in numbers.items() if values is not None}
    variables: dict[str, Any] = {
        "graph": ("run", np.array(list(map(str, graph)), dtype=str)),
        "family": ("run", np.array(list(map(str, family)), dtype=str)),
    }
    for key, values in given.items():
        if key not in NUMBERS:
            raise ArgumentError(f"'{key}' is no number of a run; {', '.join(NUMBERS)} are.")
        label = {"units": NUMBERS[key][0], "long_name": NUMBERS[key][1]}
        variables[key] = "run", np.asarray(values, dtype=float), label
    if stretched is not None:
        label = {"units": "1", "long_name": "profiles were stretched beyond their clocks"}
        variables["stretched"] = "run", np.asarray(stretched).astype(np.int8), label
    coords = {
        name: ("run", table[:, i], {**device.labels[name], "role": "resource"})
        for i, name in enumerate(device.columns)
    }
    for key, (_, values, *_) in variables.items():
        if np.shape(values) != (n,):
            raise ArgumentError(f"{key} has shape {np.shape(values)}; one for {n} runs is wanted.")
    header = {"schema": RUNS_SCHEMA, "device": device.name, **(attrs or {})}
    try:
        return validate_runs(xr.Dataset(variables, coords, header), source="runs")
    except ProfileError as error:
        raise ArgumentError(error.problems[0]) from None


def validate_runs(
    runs: xr.Dataset, device: Device | None = None, *, source: str = "runs"
) -> xr.Dataset:
    """Return the dataset if it obeys the contract, and is of the device where one is given.

    Raises
    ------
    ProfileError
        With one sentence for every problem.
    """
    problems = list(_layout_problems(runs)) or list(_value_problems(runs))
    if not problems and device is not None:
        problems = list(_device_problems(runs, device))
    if problems:
        raise ProfileError(*(f"{source}: {problem}" for problem in problems))
    return runs


def run_contexts(runs: xr.Dataset, device: Device) -> Floats:
    """Contexts of runs, (n, n_columns), in the order of the device's columns."""
    return np.stack([runs[name].values.astype(float) for name in device.columns], axis=1)


def join_runs(parts: Sequence[xr.Dataset]) -> xr.Dataset:
    """Runs of one device from several datasets, in their order; numbers that all of them have.

    Raises
    ------
    ArgumentError
        None, or of several devices, or whose tasks started in several orders.
    """
    if not parts:
        raise ArgumentError("runs are none; those of one graph or more are wanted.")
    devices = sorted({str(part.attrs["device"]) for part in parts})
    if len(devices) > 1:
        raise ArgumentError(f"runs are of {' and '.join(devices)}; those of one device are wanted.")
    orders = sorted({str(part.attrs["order"]) for part in parts if "order" in part.attrs})
    if len(orders) > 1:
        raise ArgumentError(
            f"tasks of runs started in the orders {' and '.join(orders)}; those of one order are "
            f"wanted: give each a model of its own."
        )
    kept = [name for name in parts[0].data_vars if all(name in part for part in parts)]
    joined = xr.concat([part[kept] for part in parts], "run", combine_attrs="override")
    return joined.assign_attrs(order=orders[0]) if orders else joined


def runs_families(runs: xr.Dataset, graphs: Mapping[str, xr.Dataset]) -> list[str]:
    """The family of each run: what it says, else what its graph says, else one of its own.

    Parameters
    ----------
    runs : xarray.Dataset
    graphs : mapping of str to xarray.Dataset
        The graph of each run, by name.

    Raises
    ------
    ProfileError
        A run that says another family than its graph, or than another run of it.
    """
    told = {
        name: (str(graph.attrs["family"]), "its graph")
        for name, graph in graphs.items()
        if graph.attrs.get("family")
    }
    called = [str(name) for name in runs["graph"].values]
    for row, (name, family) in enumerate(zip(called, map(str, runs["family"].values))):
        if not family:
            continue
        known, where = told.setdefault(name, (family, f"run {row}"))
        if family != known:
            raise ProfileError(
                f"family of the graph '{name}' is '{family}' in run {row} and '{known}' in "
                f"{where}; one of them is wanted."
            )
    return [told.get(name, (name, ""))[0] for name in called]


def read_runs(path: str | os.PathLike[str], device: Device) -> xr.Dataset:
    """Read runs from netCDF, or from a table: a CSV file with a row a run.

    A table's header names ``graph``, ``makespan [s]``, ``energy [J]``, every column of the device
    and, if wanted, ``family``, ``order``, ``stretched``, and other numbers with their units, as
    ``power [W]``.

    Raises
    ------
    ProfileError
        The file cannot be read, breaks the contract, or is of another device; the message names
        the line of a table.
    """
    path = Path(path)
    if path.suffix.lower() == ".nc":
        return validate_runs(load_netcdf(path), device, source=path.name)
    lines = read_lines(path)
    if not lines:
        raise ProfileError(f"{path.name}: is empty; a header and a row a run are wanted.")
    (_, header), *rest = lines
    titles = {name: f"{name} [{units}]" for name, (units, *_) in NUMBERS.items()}
    known = {**{name: name for name in (*_WORDS, *device.columns, "stretched")}, **titles}
    named = {title: name for name, title in known.items()}
    for title in header:
        if title not in named or header.count(title) > 1:
            state = "named twice" if title in named else "no column of runs"
            raise ProfileError(
                f"{path.name}: column {shown([title])} is {state}; {', '.join(named)} are."
            )
    for name in ("graph", *_NEEDED, *device.columns):
        if known[name] not in header:
            raise ProfileError(f"{path.name}: column '{known[name]}' is missing; add it.")
    if not rest:
        raise ProfileError(f"{path.name}: there are no runs below the header; list some.")
    columns: dict[str, list[Any]] = {named[title]: [] for title in header}
    for line, cells in rest:
        if len(cells) != len(header):
            raise ProfileError(
                f"{path.name}: line {line} has {len(cells)} cells; {len(header)} are wanted."
            )
        for title, cell in zip(header, cells):
            name = named[title]
            columns[name].append(cell if name in _WORDS else _number(cell, title, line, path.name))
    n = len(rest)
    lines_of = [line for line, _ in rest]
    table = np.array([columns.pop(name) for name in device.columns]).T
    words_of = {"graph": columns.pop("graph"), "family": columns.pop("family", [""] * n)}
    attrs = _one_order(columns.pop("order", []), lines_of, path.name)
    numbers: dict[str, Any] = {name: np.array(values) for name, values in columns.items()}
    try:
        runs = make_runs(device, table, **words_of, **numbers, attrs=attrs)
        return validate_runs(runs, device)
    except ArgumentError as error:
        raise ProfileError(f"{path.name}: {with_line(str(error), lines_of)}") from None
    except ProfileError as error:
        sentence = error.problems[0].removeprefix("runs: ")
        raise ProfileError(f"{path.name}: {with_line(sentence, lines_of)}") from None


def write_runs(runs: xr.Dataset, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Validate and write runs, whole or not at all: netCDF, or a table where the name ends so.

    Raises
    ------
    ArgumentError
        `path` ends like neither.
    ProfileError
        The dataset breaks the contract; nothing is written.
    FileExistsError
        `path` exists and `overwrite` is False.
    """
    check_ending(path)
    validate_runs(runs, source=Path(path).name)
    if Path(path).suffix.lower() == ".csv":
        write_table(run_rows(runs), path, overwrite=overwrite)
    else:
        save_netcdf(runs, path, overwrite=overwrite)


def check_ending(path: str | os.PathLike[str]) -> None:
    """Refuse a name that no file of runs has.

    Raises
    ------
    ArgumentError
    """
    if Path(path).suffix.lower() not in ENDINGS:
        raise ArgumentError(f"{path}: ends like no runs; {' or '.join(ENDINGS)} is wanted.")


def run_rows(runs: xr.Dataset) -> Iterator[list[Any]]:
    """Rows of a table, as :func:`read_runs` reads it, the header first."""
    columns = [str(name) for name in runs.coords if name != "run"]
    numbers = [name for name in NUMBERS if name in runs]
    flags = [name for name in ("stretched",) if name in runs]
    order = [str(runs.attrs["order"])] if "order" in runs.attrs else []
    titles = [f"{name} [{NUMBERS[name][0]}]" for name in numbers]
    yield ["graph", "family", *columns, *titles, *flags, *(["order"] if order else [])]
    named = ("graph", "family", *columns, *numbers, *flags)
    for word, family, *values in zip(*(runs[name].values.tolist() for name in named)):
        yield [word, family, *(f"{value:.10g}" for value in values), *order]


def _one_order(cells: Sequence[str], lines: Sequence[int], source: str) -> dict[str, str]:
    """The attribute that a table's column ``order`` says, if it has one."""
    for line, cell in zip(lines, cells):
        if cell != cells[0]:
            raise ProfileError(
                f"{source}: 'order' is {shown([cell])} in line {line} and {shown([cells[0]])} in "
                f"line {lines[0]}; runs of one order are wanted."
            )
    return {"order": cells[0]} if cells and cells[0] else {}


def _number(cell: str, title: str, line: int, source: str) -> float:
    try:
        value = float(cell)
    except ValueError:
        value = float("nan")
    if not np.isfinite(value):
        raise ProfileError(
            f"{source}: line {line}, column '{title}' is {shown([cell])}; a number is wanted."
        )
    return value


# --------------------------------------------------------------------------- problems


def _layout_problems(ds: xr.Dataset) -> Iterator[str]:
    schema = ds.attrs.get("schema")
    if not isinstance(schema, str) or schema != RUNS_SCHEMA:
        yield f"attribute 'schema' is {schema!r}; runs of graphs say '{RUNS_SCHEMA}'."
        return
    if ds.sizes.get("run", 0) == 0:
        yield "dimension 'run' is missing or empty; at least one run is wanted."
    if not isinstance(ds.attrs.get("device"), str):
        yield f"attribute 'device' is {ds.attrs.get('device')!r}; the name of a sheet is wanted."
    order = ds.attrs.get("order", ORDERS[0])
    if not isinstance(order, str) or order not in ORDERS:
        yield f"attribute 'order' is {order!r}; {', '.join(ORDERS)} are known."
    numbers = [*_NEEDED, "start_temperature", *(n for n in NUMBERS if n in ds)]
    for name in dict.fromkeys(("graph", "family", *numbers)):
        kinds = "OUT" if name in ("graph", "family") else "fiu"
        if name not in ds:
            yield f"variable '{name}' is missing."
        elif ds[name].dims != ("run",):
            yield f"variable '{name}' has dimensions {list(ds[name].dims)}; ['run'] is wanted."
        elif ds[name].dtype.kind not in kinds:
            wanted = "words" if kinds == "OUT" else "numbers"
            yield f"variable '{name}' holds {ds[name].dtype}; {wanted} are wanted."
        elif name in NUMBERS and not _is_text(ds[name].attrs.get("units"), NUMBERS[name][0]):
            got, wanted = ds[name].attrs.get("units"), NUMBERS[name][0]
            yield f"variable '{name}' has units {got!r}; units '{wanted}' are wanted."
    if "stretched" in ds and not np.isin(ds["stretched"].values, (0, 1)).all():
        yield "variable 'stretched' is neither 0 nor 1; one of them is wanted."
    given = [str(n) for n, c in ds.coords.items() if _is_text(c.attrs.get("role"), "resource")]
    if not given:
        yield "no resource found; coordinates with what each run was given are wanted."
    for name in given:
        if ds[name].dims != ("run",) or ds[name].dtype.kind not in "fiu":
            yield f"coordinate '{name}' holds {ds[name].dtype}; a number for each run is wanted."


def _is_text(attribute: Any, text: str) -> bool:
    """Whether an attribute, which may be of any type, is this text."""
    return isinstance(attribute, str) and attribute == text


def _value_problems(ds: xr.Dataset) -> Iterator[str]:
    for name, (units, _, least, most) in NUMBERS.items():
        if name not in ds:
            continue
        values = ds[name].values.astype(float)
        bad = ~((values >= least) & (values <= most))
        if bad.any():
            row = int(np.argmax(bad))
            got = "missing" if np.isnan(values[row]) else f"{values[row]:g}"
            wanted = "a positive number" if 0 < least < 1 else f"a number from {least:g} on"
            if units == "degC" and values[row] > most:
                wanted = f"at most {most:g} °C (0 °C are 273.15 K)"
            yield f"'{name}' is {got} in run {row}; {wanted} is wanted."
    yield from _contradictions(ds)
    if "power" in ds:
        energy, power, time = (ds[name].values for name in ("energy", "power", "makespan"))
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            ratio = energy / (power * time)
        bad = ~(np.abs(np.log(np.clip(ratio, 1e-300, 1e300))) < np.log1p(_METER))
        if bad.any():
            row = int(np.argmax(bad))
            yield (
                f"'energy' is {energy[row]:g} J in run {row}, {ratio[row]:.3g} times power × time "
                f"({power[row]:g} W × {time[row]:g} s); one of them is in another unit: mend it."
            )


def _contradictions(ds: xr.Dataset) -> Iterator[str]:
    """Sentences about numbers of one run that cannot all be true."""
    highest = "highest temperature; that of the whole run is wanted"
    limits = [
        ("start_temperature", "peak_temperature", _ROUNDING * _HOTTEST, f"above the {highest}"),
        ("last_temperature", "peak_temperature", _ROUNDING * _HOTTEST, f"above the {highest}"),
        ("throttled", "makespan", 0.0, "longer than the run; seconds of it are wanted"),
    ]
    for name, limit, room, state in limits:
        if name not in ds or limit not in ds:
            continue
        values, most = (ds[n].values.astype(float) for n in (name, limit))
        bad = values > most + room + _ROUNDING * np.abs(most)
        if bad.any():
            row = int(np.argmax(bad))
            yield f"'{name}' is {values[row]:g} in run {row} and '{limit}' {most[row]:g}: {state}."


def _device_problems(runs: xr.Dataset, device: Device) -> Iterator[str]:
    if runs.attrs["device"] != device.name:
        other = runs.attrs["device"]
        yield f"runs are of the device '{other}'; those of '{device.name}' are wanted."
        return
    for name in device.columns:
        if name not in runs.coords or runs[name].dims != ("run",):
            yield f"runs do not say '{name}'; what each was given of it is wanted."
            return
    try:
        check_contexts(device, run_contexts(runs, device))
    except ArgumentError as error:
        yield str(error)
    most = device.base_power + sum(c.on_power + c.cores * c.power for c in device.clusters)
    power = runs["energy"].values / runs["makespan"].values
    bad = (power > _UNLIKELY * most) | (power < device.base_power / _UNLIKELY)
    if bad.any():
        row = int(np.argmax(bad))
        energy, time = runs["energy"].values[row], runs["makespan"].values[row]
        yield (
            f"'energy' of run {row} is {energy:g} J in {time:g} s, which is {power[row]:.3g} W, "
            f"where '{device.name}' draws {device.base_power:g} to {most:.3g} W; one of them is in "
            f"another unit: mend it."
        )
