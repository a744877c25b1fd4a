"""What a dataset of kernel measurements is: how long what ran took, where, at how many watts.

A dataset of kernels (``msbgen-kernels/1``) is a plain :class:`xarray.Dataset` of one dimension:

=======================  ===========  ==============================================================
name                     dims         meaning
=======================  ===========  ==============================================================
``kind``                 measurement  what ran: ``conv2d``, ``matmul``, the name of a program; what
                                      stands before a ``/`` is its family
one variable a           measurement  what it was given, as rows and columns; ``role="parameter"``,
parameter                             ``units``; NaN where the kind has none of it
one coordinate a         measurement  what the machine was set to, as in profiles:
resource                              ``role="resource"``, ``units``, ``levels`` (every value that
                                      the platform can set)
one variable a counter   measurement  optional: events or shares of the run; ``role="counter"``;
                                      NaN where they were not counted
``node``                 measurement  which of several like machines it ran on
``run``                  measurement  session or repetition, a whole number
``runtime``              measurement  time of one run [s]
``power``                measurement  optional: mean power while it ran [W]; NaN where no meter was
                                      read
=======================  ===========  ==============================================================

A *kernel* is a kind with its parameters, a *configuration* one value of each resource.  A whole
network, or a whole program, is a kernel too: one that was not taken apart.  What a network
launches is a workload (:mod:`msbgen.kernels.workloads`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from msbgen.core.errors import ArgumentError, ProfileError
from msbgen.data.schema import counter_names, other_unit, resource_names, role
from msbgen.data.store import load_netcdf, packing, save_netcdf

KERNELS_SCHEMA = "msbgen-kernels/1"
# What parameters, resources and counters cannot be called.
RESERVED = frozenset(
    {"measurement", "kind", "node", "run", "runtime", "power", "energy"}
    | {"launch", "workload", "count", "extrapolated", "program"}
)

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
# No kernel takes less or longer [s], and no machine that runs one takes more [W].
_SHORTEST, _LONGEST, _MOST_POWER = 1e-12, 1e12, 1e9
_MEASURED = {
    "runtime": ("s", "time of one run"),
    "power": ("W", "mean power while it ran"),
}


def make(
    kind: Sequence[str],
    runtime: ArrayLike,
    *,
    resources: Mapping[str, ArrayLike],
    parameters: Mapping[str, ArrayLike] | None = None,
    counters: Mapping[str, ArrayLike] | None = None,
    power: ArrayLike | None = None,
    node: Sequence[str] | None = None,
    run: ArrayLike | None = None,
    units: Mapping[str, str] | None = None,
    levels: Mapping[str, Sequence[float]] | None = None,
    attrs: Mapping[str, Any] | None = None,
) -> xr.Dataset:
    """Put labels on arrays.

    Parameters
    ----------
    kind : sequence of str, (n,)
    runtime : array_like, (n,)
        [s]
    resources, parameters, counters : mapping of name to array_like, (n,) each
    power : array_like, (n,)
        [W], NaN where no meter was read.
    node : sequence of str, (n,)
        Empty words where not given.
    run : array_like of int, (n,)
        0 where not given.
    units : mapping of name to str
        Of resources, parameters and counters; ``"1"`` where not given.
    levels : mapping of name to sequence of float
        What the platform can set of a resource; the values measured where not given.
    attrs : mapping
        Global attributes beyond ``schema``.

    Returns
    -------
    xarray.Dataset
        Not validated: see :func:`validate`.

    Raises
    ------
    ArgumentError
        A name that has a meaning of its own, or that is given twice.

    Examples
    --------
    >>> runs = make(
    ...     ["gemm", "gemm"], [2e-3, 1e-3], power=[10.0, 15.0],
    ...     parameters={"rows": [64, 64]}, resources={"clock": [500, 1000]},
    ...     units={"clock": "MHz"},
    ... )
    >>> energies_of(runs)
    array([0.02 , 0.015])
    """
    unit = dict(units or {})
    names = [*resources, *(parameters or {}), *(counters or {})]
    for name in names:
        if name in RESERVED or names.count(name) > 1:
            why = "has a meaning of its own" if name in RESERVED else "is given twice"
            raise ArgumentError(f"name is {name!r}, which {why}; another one is wanted.")
    n = len(kind)
    variables: dict[str, Any] = {
        "kind": ("measurement", np.array(list(map(str, kind)), dtype=str)),
        "node": ("measurement", np.array([""] * n if node is None else [*map(str, node)])),
        "run": ("measurement", np.zeros(n, np.int32) if run is None else np.asarray(run, np.int32)),
    }
    for name, given in (("runtime", runtime), ("power", power)):
        if given is not None:
            said = dict(zip(("units", "long_name"), _MEASURED[name]))
            variables[name] = ("measurement", np.array(given, dtype=float), said)
    for title, columns in (("parameter", parameters), ("counter", counters)):
        for name, given in (columns or {}).items():
            said = {"role": title, "units": unit.get(name, "1")}
            variables[name] = ("measurement", np.array(given, dtype=float), said)
    coords: dict[str, Any] = {}
    for name, given in resources.items():
        values = np.asarray(given, dtype=float)
        own = (levels or {}).get(name, np.unique(values[np.isfinite(values)]))
        said = {"role": "resource", "units": unit.get(name, "1")}
        coords[name] = ("measurement", values, {**said, "levels": np.asarray(own, float).tolist()})
    return xr.Dataset(variables, coords, {"schema": KERNELS_SCHEMA, **(attrs or {})})


def validate(dataset: xr.Dataset, *, source: str = "dataset") -> xr.Dataset:
    """Return the dataset if it obeys the contract.

    Raises
    ------
    ProfileError
        With one sentence for every problem.
    """
    problems = list(_layout_problems(dataset)) or list(_value_problems(dataset))
    if problems:
        raise ProfileError(*(f"{source}: {problem}" for problem in problems))
    return dataset


def describe(dataset: xr.Dataset) -> str:
    """What a valid dataset holds, in a few lines for a person."""
    kernels, times = kernels_of(dataset), runtimes_of(dataset)
    shown: dict[str, int] = {}
    for word in kernels.kind:
        shown[str(word)] = shown.get(str(word), 0) + 1
    listed = ", ".join(f"{n} of {word}" for word, n in list(shown.items())[:8])
    more = f", … ({len(shown)} kinds)" if len(shown) > 8 else ""
    lines = [
        f"measurements  {len(times)}, from {times.min():.4g} to {times.max():.4g} s",
        f"kernels       {len(kernels.kind)}: {listed}{more}",
    ]
    for name in resource_names(dataset):
        values = np.unique(dataset[name].values)
        lines.append(
            f"resource      {name} [{dataset[name].attrs['units']}]: {values[0]:g} to "
            f"{values[-1]:g}, {len(values)} values of {np.size(dataset[name].attrs['levels'])}"
        )
    if has_power(dataset):
        watts = powers_of(dataset)
        seen = watts[np.isfinite(watts)]
        lines.append(
            f"power         {len(seen)} readings, from {seen.min():.4g} to {seen.max():.4g} W"
        )
    if counter_names(dataset):
        lines.append(f"counters      {len(counter_names(dataset))}")
    nodes = np.unique(dataset["node"].values.astype(str))
    if len(nodes) > 1:
        lines.append(f"nodes         {len(nodes)}: {', '.join(nodes)}")
    return "\n".join(lines)


def read(path: str | os.PathLike[str]) -> xr.Dataset:
    """Read and validate a file of kernel measurements; everything is loaded.

    Raises
    ------
    ProfileError
        The file cannot be read whole, or what it holds breaks the contract.
    """
    return validate(load_netcdf(path), source=Path(path).name)


def write(dataset: xr.Dataset, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Validate and write a file of kernel measurements, whole or not at all.

    Raises
    ------
    ProfileError
        The dataset breaks the contract; nothing is written.
    FileExistsError
        `path` exists and `overwrite` is False.
    """
    validate(dataset, source=Path(path).name)
    save_netcdf(dataset, path, overwrite=overwrite, encoding=packing(dataset))


def join(datasets: Sequence[xr.Dataset]) -> xr.Dataset:
    """Measurements of several datasets as one; a parameter that one lacks is NaN there.

    Raises
    ------
    ArgumentError
        No datasets; other resources, or other units of one name; levels are united.
    """
    if not datasets:
        raise ArgumentError("datasets holds none; one at least is wanted.")
    first = datasets[0]
    resources = resource_names(first)
    columns: dict[str, tuple[str, str]] = {}
    for dataset in datasets:
        check_same_units(dataset, units_of(first) | {n: u for n, (_, u) in columns.items()})
        if set(resource_names(dataset)) != set(resources):
            raise ArgumentError(
                f"resources are {', '.join(resource_names(dataset))}; {', '.join(resources)}, as "
                f"in the first dataset, are wanted."
            )
        for title in ("parameter", "counter"):
            for name in names_of(dataset, title):
                columns.setdefault(name, (title, str(dataset[name].attrs["units"])))

    def joined(name: str) -> Floats:
        parts = [
            d[name].values.astype(float) if name in d else np.full(d.sizes["measurement"], np.nan)
            for d in datasets
        ]
        return np.concatenate(parts)

    def united(name: str) -> list[float]:
        levels = [np.atleast_1d(np.asarray(d[name].attrs["levels"], float)) for d in datasets]
        return np.unique(np.concatenate(levels)).tolist()

    same = {k: v for k, v in first.attrs.items() if all(d.attrs.get(k) == v for d in datasets)}
    return make(
        [str(word) for d in datasets for word in d["kind"].values],
        joined("runtime"),
        resources={name: joined(name) for name in resources},
        parameters={n: joined(n) for n, (title, _) in columns.items() if title == "parameter"},
        counters={n: joined(n) for n, (title, _) in columns.items() if title == "counter"},
        power=joined("power") if any("power" in d for d in datasets) else None,
        node=[str(word) for d in datasets for word in d["node"].values],
        run=joined("run"),
        units=units_of(first) | {n: u for n, (_, u) in columns.items()},
        levels={name: united(name) for name in resources},
        attrs={str(k): v for k, v in same.items() if k != "schema"},
    )


# --------------------------------------------------------------------------- what it says


@dataclass(frozen=True, eq=False)
class Kernels:
    """The different kernels of a dataset, and which of them each measurement is of.

    Attributes
    ----------
    kind : ndarray of str, (n,)
    parameters : ndarray, (n, n_parameters)
        NaN where the kind has none of it; columns as :func:`parameter_names` of the dataset.
    of : ndarray of int, (n_measurements,)
    """

    kind: NDArray[np.str_]
    parameters: Floats
    of: Indices


def parameter_names(dataset: xr.Dataset) -> list[str]:
    """Names of the parameters, in the order of the dataset's variables."""
    return names_of(dataset, "parameter")


def names_of(dataset: xr.Dataset, title: str) -> list[str]:
    """Names of the variables of a role."""
    return [str(name) for name, data in dataset.data_vars.items() if role(data) == title]


def units_of(dataset: xr.Dataset) -> dict[str, str]:
    """Units of every parameter, counter and resource by name."""
    names = [*resource_names(dataset), *parameter_names(dataset), *counter_names(dataset)]
    return {name: str(dataset[name].attrs["units"]) for name in names}


def check_same_units(dataset: xr.Dataset, units: Mapping[str, str]) -> None:
    """Raise :class:`ArgumentError` where a variable of the dataset is in another unit."""
    for name, unit in units_of(dataset).items():
        if units.get(name, unit) != unit:
            raise ArgumentError(f"'{name}' is in {unit}; {units[name]} is wanted, as elsewhere.")


def parameter_table(dataset: xr.Dataset) -> Floats:
    """Parameters of every measurement or launch, (n, n_parameters), NaN where it has none."""
    columns = [dataset[name].values.astype(float) for name in parameter_names(dataset)]
    n = dataset["kind"].size
    return np.stack(columns, axis=1) if columns else np.empty((n, 0))


def kernels_of(dataset: xr.Dataset) -> Kernels:
    """The different kernels among the measurements, in the order of their first ones."""
    kind, table = dataset["kind"].values.astype(str), parameter_table(dataset)
    code = np.unique(kind, return_inverse=True)[1]
    keyed = np.column_stack([code.reshape(-1), np.nan_to_num(table, nan=np.inf)])
    _, first, of = np.unique(keyed, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    at = first[order]
    return Kernels(kind[at], table[at], place[of.reshape(-1)].astype(np.int64))


def configurations_of(dataset: xr.Dataset) -> tuple[Floats, Indices]:
    """The different configurations in rising order, (m, n_resources), and that of each row."""
    columns = [dataset[name].values.astype(float) for name in resource_names(dataset)]
    table = np.stack(columns, axis=1)
    found, of = np.unique(table, axis=0, return_inverse=True)
    return found, of.reshape(-1).astype(np.int64)


def family_of(kind: str) -> str:
    """What stands before the first ``/`` of a kind."""
    return str(kind).partition("/")[0]


def runtimes_of(dataset: xr.Dataset) -> Floats:
    """Time of every measurement [s], (n,)."""
    return dataset["runtime"].values.astype(float)


def has_power(dataset: xr.Dataset) -> bool:
    """Whether some measurement has a power."""
    return "power" in dataset and bool(np.isfinite(dataset["power"].values).any())


def powers_of(dataset: xr.Dataset) -> Floats:
    """Power of every measurement [W], (n,), NaN where no meter was read.

    Raises
    ------
    ArgumentError
        Of none of them.
    """
    if not has_power(dataset):
        raise ArgumentError(
            "no measurement has a power, so that nothing is known of energy; measure with a meter, "
            "or ask for runtimes alone."
        )
    return dataset["power"].values.astype(float)


def energies_of(dataset: xr.Dataset) -> Floats:
    """Energy of every measurement [J], (n,): runtime × power; errors as :func:`powers_of`."""
    return runtimes_of(dataset) * powers_of(dataset)


def measured_table(dataset: xr.Dataset, values: Floats) -> Floats:
    """Values of every kernel in every configuration, (n_kernels, n_configurations).

    The median over nodes and runs; NaN where it was not measured.  Rows as :func:`kernels_of`,
    columns as :func:`configurations_of`.
    """
    of, (configurations, at) = kernels_of(dataset).of, configurations_of(dataset)
    cell = of * len(configurations) + at
    known = np.isfinite(values)
    order = np.lexsort((values[known], cell[known]))
    cells, first, count = np.unique(cell[known][order], return_index=True, return_counts=True)
    ranked = values[known][order]
    middle = 0.5 * (ranked[first + (count - 1) // 2] + ranked[first + count // 2])
    table = np.full((int(of.max()) + 1) * len(configurations), np.nan)
    table[cells] = middle
    return table.reshape(-1, len(configurations))


# --------------------------------------------------------------------------- problems


def _layout_problems(ds: xr.Dataset) -> Iterator[str]:
    schema = ds.attrs.get("schema")
    if not isinstance(schema, str) or schema != KERNELS_SCHEMA:
        yield f"attribute 'schema' is {schema!r}; measurements of kernels say '{KERNELS_SCHEMA}'."
        return
    if ds.sizes.get("measurement", 0) == 0:
        yield "dimension 'measurement' is missing or empty; at least one entry is wanted."
    wanted = {"kind": "OUT", "node": "OUT", "run": "iu", "runtime": "f", "power": "f"}
    for name, kinds in wanted.items():
        if name not in ds.data_vars:
            if name != "power":
                yield f"variable '{name}' is missing."
        else:
            yield from _form_problems(ds, name, kinds)
    for name, (unit, _) in _MEASURED.items():
        if name in ds and ds[name].attrs.get("units") != unit:
            got = ds[name].attrs.get("units")
            yield f"variable '{name}' has units {got!r}; '{unit}' is wanted."
    if not resource_names(ds):
        yield "there is no coordinate with role 'resource'; what the machine was set to is wanted."
    for name in (*resource_names(ds), *parameter_names(ds), *counter_names(ds)):
        yield from _form_problems(ds, name, "fiu")
        if name in RESERVED:
            yield f"'{name}' has a meaning of its own; rename the {role(ds[name])}."
        if not isinstance(ds[name].attrs.get("units"), str):
            yield f"{role(ds[name])} '{name}' has no units; give it some, '1' for a number."
    for name in resource_names(ds):
        levels = np.atleast_1d(np.asarray(ds[name].attrs.get("levels", ())))
        if levels.size == 0 or levels.dtype.kind not in "fiu" or not np.isfinite(levels).all():
            yield f"resource '{name}' has no attribute 'levels' of finite numbers; list them."


def _form_problems(ds: xr.Dataset, name: str, kinds: str) -> Iterator[str]:
    if ds[name].dims != ("measurement",):
        yield f"variable '{name}' has dimensions {list(ds[name].dims)}; ['measurement'] is wanted."
    elif ds[name].dtype.kind not in kinds:
        what = "words" if kinds == "OUT" else "numbers"
        yield f"variable '{name}' holds {ds[name].dtype}; {what} are wanted."


def _value_problems(ds: xr.Dataset) -> Iterator[str]:
    kind = ds["kind"].values.astype(str)
    if not all(word.strip() for word in kind):
        row = next(i for i, word in enumerate(kind) if not word.strip())
        yield f"variable 'kind' is empty at measurement {row}; say what ran."
    times = runtimes_of(ds)
    bad = ~((times >= _SHORTEST) & (times <= _LONGEST))
    if bad.any():
        row = int(np.argmax(bad))
        yield (
            f"variable 'runtime' is {times[row]:g} s at measurement {row} ({kind[row]}); a "
            f"positive number is wanted: measure it again or drop it."
        )
    if "power" in ds:
        watts = ds["power"].values.astype(float)
        bad = ~np.isnan(watts) & ~((watts > 0) & (watts <= _MOST_POWER))
        if bad.any():
            row = int(np.argmax(bad))
            yield (
                f"variable 'power' is {watts[row]:g} W at measurement {row} ({kind[row]}); a "
                f"positive number is wanted, or NaN where no meter was read."
            )
    for name in resource_names(ds):
        values = ds[name].values.astype(float)
        if not np.isfinite(values).all():
            row = int(np.argmin(np.isfinite(values)))
            yield f"resource '{name}' is {values[row]} at measurement {row}; a number is wanted."
        else:
            for sentence in other_unit(name, values, ds[name].attrs):
                yield sentence.replace("context", "measurement")
    for name in (*parameter_names(ds), *counter_names(ds)):
        values = ds[name].values.astype(float)
        bad = np.isinf(values) | (values < 0)
        if bad.any():
            row = int(np.argmax(bad))
            yield (
                f"{role(ds[name])} '{name}' is {values[row]:g} at measurement {row} ({kind[row]}); "
                f"a number from 0 on is wanted, or NaN where there is none."
            )
