"""Datasets of runs of task graphs on a device: measured or simulated, one row each.

A dataset of runs is a plain :class:`xarray.Dataset` over ``run`` with the variables that
:data:`SCHEMA` declares, and one coordinate for each column of the device: cores and clock of each
cluster, ways of the caches, bandwidth.  Attributes: ``device``, the name of the data sheet;
optional ``order``, which of several ready tasks started first: ``arrival``, ``heft``, or ``keys``
of the user.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from msbgen.core.errors import ArgumentError, ProfileError
from msbgen.data.columns import Table
from msbgen.data.files import path_of
from msbgen.data.schema import resource_names
from msbgen.data.store import load_netcdf
from msbgen.data.tables import shown, with_line, write_table
from msbgen.data.variables import Schema, Variable
from msbgen.systems.graphs.devices import Device, check_contexts

Floats = NDArray[np.float64]

_MOST = 1e25
# No device runs as hot as this [degC]; as kelvins it is colder than any.
_HOTTEST = 250.0
_NEEDED = ("makespan", "energy")
# How files of runs end.
ENDINGS = (".nc", ".csv")
# Which of several ready tasks started first.
ORDERS = ("arrival", "heft", "keys")
_WORDS = ("graph", "family", "order")
# Numbers of tables are rounded: temperatures [K] and shares of times this close are equal.
_ROUNDING = 1e-6
# Energy may be this share off power × time: readings of meters are coarse.
_METER = 0.5
# Mean powers above the maximum of a sheet by this factor, or below its base, are errors.
_UNLIKELY = 10.0


def _number(name: str, unit: str, meaning: str, least: float, optional: bool = True) -> Variable:
    return Variable(name, _OF, "number", unit, meaning, least, _MOST, optional=optional)


def _temperature(name: str, meaning: str, optional: bool = True) -> Variable:
    return Variable(
        name, _OF, "number", "degC", meaning, -100.0, _HOTTEST, remedy="0 °C are 273.15 K",
        optional=optional,
    )  # fmt: skip


def _problems(runs: xr.Dataset) -> Iterator[str]:
    """Sentences about attributes, missing resources and numbers that contradict each other."""
    if not isinstance(runs.attrs.get("device"), str):
        yield f"attribute 'device' is {runs.attrs.get('device')!r}; the name of a sheet is wanted."
    order = runs.attrs.get("order", ORDERS[0])
    if not isinstance(order, str) or order not in ORDERS:
        yield f"attribute 'order' is {order!r}; {', '.join(ORDERS)} are known."
    if not resource_names(runs):
        yield "no resource found; coordinates with the context of each run are wanted."
    yield from _contradictions(runs)


_OF = ("run",)
SCHEMA = Schema(
    "msbgen-graph-runs/1",
    "runs of graphs",
    _OF,
    (
        Variable("graph", _OF, "text", meaning="name of the graph"),
        Variable("family", _OF, "text", meaning="its family; empty where the graph has it"),
        _number("makespan", "s", "time from start to end", 1e-12, optional=False),
        _number("energy", "J", "energy of the device", 1e-15, optional=False),
        _temperature("start_temperature", "temperature at the start", optional=False),
        _number("power", "W", "mean power, where it was measured apart", 1e-9),
        _temperature("peak_temperature", "highest temperature"),
        _temperature("last_temperature", "temperature at the end"),
        _number("throttled", "s", "time with clocks stepped down", 0.0),
        Variable(
            "stretched", _OF, "count",
            meaning="1 where profiles were stretched beyond their clocks", least=0, most=1,
            optional=True, dtype="int8",
        ),
        Variable("", _OF, coordinate=True, role="resource"),
    ),
    check=_problems,
    compression=0,
)  # fmt: skip
# Numbers of a run, by name.
NUMBERS = {v.name: v for v in SCHEMA.variables if v.kind == "number" and v.name}


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
    """Put labels on arrays of one row per run.

    Parameters
    ----------
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
    for key in numbers:
        if key not in NUMBERS:
            raise ArgumentError(f"'{key}' is no number of a run; {', '.join(NUMBERS)} are.")
    values = {"graph": graph, "family": family, "makespan": makespan, "energy": energy, **numbers}
    values |= {"start_temperature": start_temperature, "stretched": stretched}
    for key, array in values.items():
        if array is not None and np.shape(array) != (n,):
            raise ArgumentError(f"{key} has shape {np.shape(array)}; one for {n} runs is wanted.")
    runs = SCHEMA.dataset(values, {"device": device.name, **(attrs or {})})
    resource = SCHEMA["resource"]
    coords = {
        name: resource.entry(table[:, i], **device.labels[name])
        for i, name in enumerate(device.columns)
    }
    try:
        return validate_runs(runs.assign_coords(coords), source="runs")
    except ProfileError as error:
        raise ArgumentError(error.problems[0]) from None


def validate_runs(
    runs: xr.Dataset, device: Device | None = None, *, source: str = "runs"
) -> xr.Dataset:
    """Return the dataset if it obeys the contract, and is of the device where one is given.

    :class:`ProfileError` has one sentence for every problem.
    """
    SCHEMA.validate(runs, source)
    problems = [] if device is None else list(_device_problems(runs, device))
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
    ProfileError
        A dataset breaks the contract.
    """
    if not parts:
        raise ArgumentError("runs are none; those of one graph or more are wanted.")
    for part in parts:
        validate_runs(part)
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
    """Family of each run: that of its row, else that of its graph, else one of its own.

    A row with another family than the graph, or than another row of the graph, raises
    :class:`ProfileError`.
    """
    families = {
        name: (str(graph.attrs["family"]), "its graph")
        for name, graph in graphs.items()
        if graph.attrs.get("family")
    }
    called = [str(name) for name in runs["graph"].values]
    for row, (name, family) in enumerate(zip(called, map(str, runs["family"].values))):
        if not family:
            continue
        known, where = families.setdefault(name, (family, f"run {row}"))
        if family != known:
            raise ProfileError(
                f"family of the graph '{name}' is '{family}' in run {row} and '{known}' in "
                f"{where}; one of them is wanted."
            )
    return [families.get(name, (name, ""))[0] for name in called]


def read_runs(path: str | os.PathLike[str], device: Device) -> xr.Dataset:
    """Read runs from netCDF, or from a table: a CSV file with a row per run.

    A table's header names ``graph``, ``makespan [s]``, ``energy [J]``, every column of the device
    and, if wanted, ``family``, ``order``, ``stretched``, and other numbers with their units, as
    ``power [W]``.

    Raises
    ------
    ProfileError
        The file cannot be read, breaks the contract, or is of another device; the message names
        the line of a table.
    """
    path = path_of(path)
    if path.suffix.lower() == ".nc":
        return validate_runs(load_netcdf(path), device, source=path.name)
    needed = ("graph", *_NEEDED, *device.columns)
    known = (*_WORDS, *device.columns, *NUMBERS, "stretched")
    table = Table(path, needed=needed, known=known)
    for name, variable in NUMBERS.items():
        if name in table.names and table.unit(name) != variable.unit:
            raise ProfileError(
                f"{path.name}: column '{name}' is in '{table.unit(name)}'; "
                f"'{name} [{variable.unit}]' is wanted."
            )
    values = {name: table.numbers(name) for name in table.names if name not in _WORDS}
    contexts = np.array([values.pop(name) for name in device.columns]).T
    texts = {"graph": table.texts("graph"), "family": table.texts("family")}
    attrs = _one_order(table.texts("order"), table.lines, path.name)
    try:
        runs = make_runs(device, contexts, **texts, **values, attrs=attrs)  # pyright: ignore[reportArgumentType]
        return validate_runs(runs, device)
    except ArgumentError as error:
        raise ProfileError(f"{path.name}: {with_line(str(error), table.lines)}") from None
    except ProfileError as error:
        sentence = error.problems[0].removeprefix("runs: ")
        raise ProfileError(f"{path.name}: {with_line(sentence, table.lines)}") from None


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
    if path_of(path).suffix.lower() == ".csv":
        SCHEMA.validate(runs, path_of(path).name)
        write_table(run_rows(runs), path, overwrite=overwrite)
    else:
        SCHEMA.write(runs, path, overwrite=overwrite)


def check_ending(path: str | os.PathLike[str]) -> None:
    """Refuse a name that no file of runs has."""
    if path_of(path).suffix.lower() not in ENDINGS:
        raise ArgumentError(f"{path}: ends like no runs; {' or '.join(ENDINGS)} is wanted.")


def run_rows(runs: xr.Dataset) -> Iterator[list[Any]]:
    """Rows of a table, as :func:`read_runs` reads it, the header first."""
    columns = [str(name) for name in runs.coords if name != "run"]
    numbers = [name for name in NUMBERS if name in runs]
    flags = [name for name in ("stretched",) if name in runs]
    order = [str(runs.attrs["order"])] if "order" in runs.attrs else []
    titles = [f"{name} [{NUMBERS[name].unit}]" for name in numbers]
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
    if "power" in ds:
        energy, power, time = (ds[name].values for name in ("energy", "power", "makespan"))
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            ratio = energy / (power * time)
        bad = ~(np.abs(np.log(np.clip(ratio, 1e-300, 1e300))) < np.log1p(_METER))
        if bad.any():
            row = int(np.argmax(bad))
            yield (
                f"'energy' is {energy[row]:g} J in run {row}, {ratio[row]:.3g} times power × time "
                f"({power[row]:g} W × {time[row]:g} s); one of them is in another unit: correct it."
            )


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
            f"another unit: correct it."
        )
