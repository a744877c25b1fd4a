"""Datasets of kernel measurements: what ran, on what setting of the machine, time and power.

A dataset of kernels is a plain :class:`xarray.Dataset` over ``measurement`` with the variables that
:data:`SCHEMA` declares, and one variable for each

- *parameter* of a kernel, as its rows and columns (``role="parameter"``, ``units``),
- *counter*, events or shares of the run (``role="counter"``, ``units``),
- *resource*, a coordinate with what the machine was set to (``role="resource"``, ``units``,
  ``levels``: every value that the platform can set).

A *kernel* is a kind with its parameters, a *configuration* one value of each resource.  A whole
network or program that was not taken apart is a kernel, too.  The kernels that a network launches
are a workload (:mod:`msbgen.kernels.workloads`).
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from msbgen.core.errors import ArgumentError, printable
from msbgen.data.schema import counter_names, other_unit, resource_names, role
from msbgen.data.variables import Schema, Variable

KERNELS_SCHEMA = "msbgen-kernels/1"
# Names that parameters, resources and counters cannot have.
RESERVED = frozenset(
    {"measurement", "kind", "node", "run", "runtime", "power", "energy"}
    | {"launch", "workload", "count", "extrapolated", "program"}
)

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]


def _problems(dataset: xr.Dataset) -> Iterator[str]:
    """Sentences about reserved names, resources without levels, and values in another unit."""
    resources = resource_names(dataset)
    if not resources:
        yield "there is no coordinate with role 'resource'; what the machine was set to is wanted."
    for name in (*resources, *parameter_names(dataset), *counter_names(dataset)):
        if name in RESERVED:
            yield f"'{name}' is a reserved name; rename the {role(dataset[name])}."
    for name in resources:
        levels = np.atleast_1d(np.asarray(dataset[name].attrs.get("levels", ())))
        if levels.size == 0 or levels.dtype.kind not in "fiu" or not np.isfinite(levels).all():
            yield f"resource '{name}' has no attribute 'levels' of finite numbers; list them."
            continue
        values = dataset[name].values.astype(float)
        for sentence in other_unit(name, values, dataset[name].attrs):
            yield sentence.replace("context", "measurement")


_OF = ("measurement",)


def parameter(dim: str) -> Variable:
    """Declaration of the parameters of kernels; larger products of several would overflow."""
    none = "the kind has none of it"
    return Variable("", (dim,), least=0, most=1e15, missing=none, role="parameter")


SCHEMA = Schema(
    KERNELS_SCHEMA,
    "measurements of kernels",
    _OF,
    (
        Variable(
            "kind", _OF, "text", meaning="what ran, as conv2d; the part before a '/' is its family",
            filled=True, remedy="say what ran",
        ),
        Variable("node", _OF, "text", meaning="which of several equal machines it ran on"),
        Variable("run", _OF, "whole", meaning="session or repetition", dtype="int32"),
        Variable(
            "runtime", _OF, unit="s", meaning="time of one run", least=1e-12, most=1e12,
            remedy="measure it again or drop it",
        ),
        Variable(
            "power", _OF, unit="W", meaning="mean power while it ran", least=1e-12, most=1e9,
            missing="no meter was read", optional=True,
        ),
        parameter("measurement"),
        Variable("", _OF, least=0, most=1e30, missing="it was not counted", role="counter"),
        # logarithms, reciprocals and third powers of levels are computed
        Variable("", _OF, least=1e-15, most=1e15, coordinate=True, role="resource"),
    ),
    check=_problems,
    label="kind",
)  # fmt: skip


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
    """Put labels on arrays; the dataset is not validated (:func:`validate`).

    Parameters
    ----------
    runtime : array_like, (n,)
        [s]
    resources, parameters, counters : mapping of name to array_like, (n,) each
    power : array_like, (n,)
        [W], NaN where no meter was read.
    node, run : sequence of str and array_like of int, (n,)
        Empty words and 0 where not given.
    units : mapping of name to str
        Of resources, parameters and counters; ``"1"`` where not given.
    levels : mapping of name to sequence of float
        What the platform can set of a resource; the values measured where not given.
    attrs : mapping
        Global attributes beyond ``schema``.

    Raises
    ------
    ArgumentError
        A name that is reserved, or that is given twice.

    Examples
    --------
    >>> runs = make(
    ...     ["gemm", "gemm"], [2e-3, 1e-3], power=[10.0, 15.0],
    ...     parameters={"rows": [64, 64]}, resources={"clock": [500, 1000]},
    ...     units={"clock": "MHz"},
    ... )
    >>> runtimes_of(runs) * powers_of(runs)
    array([0.02 , 0.015])
    """
    names = [*resources, *(parameters or {}), *(counters or {})]
    for name, often in Counter(names).items():
        if name in RESERVED or often > 1:
            why = "is reserved" if name in RESERVED else "is given twice"
            raise ArgumentError(f"name is {name!r}, which {why}; another one is wanted.")
    n, unit = len(kind), dict(units or {})
    dataset = SCHEMA.dataset(
        {
            "kind": kind,
            "node": [""] * n if node is None else node,
            "run": np.zeros(n) if run is None else run,
            "runtime": runtime,
            "power": power,
        },
        attrs,
    )
    for title, columns in (("parameter", parameters), ("counter", counters)):
        for name, values in (columns or {}).items():
            dataset[name] = SCHEMA[title].entry(values, units=unit.get(name, "1"))
    coords: dict[str, Any] = {}
    for name, given in resources.items():
        values = np.asarray(given, dtype=float)
        settable = (levels or {}).get(name, np.unique(values[np.isfinite(values)]))
        listed = np.asarray(settable, dtype=float).tolist()
        coords[name] = SCHEMA["resource"].entry(values, units=unit.get(name, "1"), levels=listed)
    return dataset.assign_coords(coords)


def validate(dataset: xr.Dataset, *, source: str = "dataset") -> xr.Dataset:
    """Return the dataset if it obeys :data:`SCHEMA`; :class:`ProfileError` names every problem."""
    return SCHEMA.validate(dataset, source)


def describe(dataset: xr.Dataset) -> str:
    """A summary of a valid dataset, in a few lines."""
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
    return "\n".join(map(printable, lines))


def read(path: str | os.PathLike[str]) -> xr.Dataset:
    """Read and validate a file of measurements, whole; errors as :meth:`Schema.read`."""
    return SCHEMA.read(path)


def write(dataset: xr.Dataset, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Validate and write measurements, whole or not at all; errors as :meth:`Schema.write`."""
    SCHEMA.write(dataset, path, overwrite=overwrite)


def join(datasets: Sequence[xr.Dataset]) -> xr.Dataset:
    """Measurements of several datasets as one; levels are united, and missing parameters are NaN.

    Other resources, or other units of one name, raise :class:`ArgumentError`.
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


@dataclass(frozen=True, eq=False)
class Kernels:
    """The different kernels of a dataset, and which of them each measurement is of.

    There are n kinds and a table (n, n_parameters) of parameters, NaN where the kind has none of
    it; columns as :func:`parameter_names`. `of` (n_measurements,) numbers the kernels.
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

    A dataset without any power raises :class:`ArgumentError`.
    """
    if not has_power(dataset):
        raise ArgumentError(
            "no measurement has a power, so that nothing is known of energy; measure with a meter, "
            "or ask for runtimes alone (kernels choose: --objective time)."
        )
    return dataset["power"].values.astype(float)


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
