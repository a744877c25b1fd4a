"""Datasets of relative performance: how long runs of programs took on several machines.

A dataset of relative performance is a plain :class:`xarray.Dataset` with the variables that
:data:`SCHEMA` declares.  A run is one program with one input at one scale in one configuration,
whichever machines it ran on.  The attribute ``work`` may name the counter that says how much a run
does: instructions.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from msbgen.core.errors import ArgumentError, printable
from msbgen.data.variables import Schema, Variable

RELATIVE_SCHEMA = "msbgen-relative/1"
# Words that describe a run.
LABELS = ("program", "input", "scale", "configuration")

Floats = NDArray[np.float64]
# No program takes less or longer [s], and none counts more.
SHORTEST, LONGEST, MOST = 1e-15, 1e25, 1e30


def _problems(dataset: xr.Dataset) -> Iterator[str]:
    """Sentences about runs without a machine, reserved names and the attribute ``work``."""
    idle = np.isnan(runtimes_of(dataset)).all(axis=1)
    if idle.any():
        yield f"run {int(np.argmax(idle))} ran on no machine; drop it."
    reserved = {"fastest", "slowest"} & set(machines_of(dataset))
    if reserved:
        yield f"machine '{min(reserved)}' has a reserved name; rename it."
    work, names = dataset.attrs.get("work"), counter_names_of(dataset)
    if work is not None and not (isinstance(work, str) and work in names):
        wanted = f"the name of a counter is wanted: {names[0]}, say" if names else "drop it"
        yield f"attribute 'work' is {work!r}; {wanted}."


_OF_COUNTER: dict[str, Any] = {"coordinate": True, "needed_with": "counters"}
SCHEMA = Schema(
    RELATIVE_SCHEMA,
    "runs on several machines",
    ("run", "machine"),
    (
        Variable("machine", ("machine",), "text", distinct=True, coordinate=True),
        Variable(
            "runtime", ("run", "machine"), unit="s", meaning="time of the run on the machine",
            least=SHORTEST, most=LONGEST, missing="it did not run", remedy="measure it again",
            any_order=True,
        ),
        Variable("program", ("run",), "text", meaning="what evaluation leaves out as a whole"),
        Variable("input", ("run",), "text", meaning="input of the program"),
        Variable("scale", ("run",), "text", meaning="size of the problem or of the allocation"),
        Variable(
            "configuration", ("run",), "text",
            meaning="how the program was built or run, known beforehand",
        ),
        Variable(
            "nodes", ("run",), "whole", meaning="nodes that the run took", least=1, dtype="int32"
        ),
        Variable(
            "counters", ("run", "machine", "counter"), meaning="events of the run",
            least=0, most=MOST, missing="it was not counted",
            optional=True, optional_dim="machine", any_order=True,
        ),
        Variable(
            "counter", ("counter",), "text", meaning="names", distinct=True, **_OF_COUNTER
        ),
        Variable("units", ("counter",), "text", meaning="unit of each counter", **_OF_COUNTER),
        Variable(
            "group", ("counter",), "text", **_OF_COUNTER,
            meaning="counters of one group, such as loads, are summed as one kind",
        ),
    ),
    check=_problems,
)  # fmt: skip


def make(
    runtime: ArrayLike,
    machines: Sequence[str],
    *,
    program: Sequence[str],
    input: Sequence[str] | None = None,
    scale: Sequence[str] | None = None,
    configuration: Sequence[str] | None = None,
    nodes: ArrayLike | None = None,
    counters: Mapping[str, ArrayLike] | None = None,
    units: Mapping[str, str] | None = None,
    groups: Mapping[str, str] | None = None,
    work: str | None = None,
    attrs: Mapping[str, Any] | None = None,
) -> xr.Dataset:
    """Put labels on arrays.

    Parameters
    ----------
    runtime : array_like, (n, n_machines)
        [s], NaN where the run did not run.
    machines : sequence of str
    program, input, scale, configuration : sequence of str, (n,)
        Empty words where not given.
    nodes : array_like of int, (n,)
        One where not given.
    counters : mapping of name to array_like, (n,) or (n, n_machines) each
    units, groups : mapping of name to str
        Of each counter; ``"1"`` and its own name where not given.
    work : str
        The counter that says how much a run does.
    attrs : mapping
        Global attributes beyond ``schema`` and ``work``.

    Returns
    -------
    xarray.Dataset
        Not validated: see :func:`validate`.

    Examples
    --------
    >>> runs = make([[2.0, 1.0], [3.0, 6.0]], ["old", "new"], program=["a", "b"])
    >>> relative_times(runs, "old")
    array([[1. , 0.5],
           [1. , 2. ]])
    """
    n, n_machines = np.shape(runtime)
    blank = [""] * n
    values: dict[str, Any] = {
        "machine": machines,
        "runtime": runtime,
        "program": program,
        "input": blank if input is None else input,
        "scale": blank if scale is None else scale,
        "configuration": blank if configuration is None else configuration,
        "nodes": np.ones(n) if nodes is None else nodes,
    }
    if counters:
        arrays = [np.asarray(counts, dtype=float) for counts in counters.values()]
        if any(array.ndim == 2 for array in arrays):
            arrays = [a if a.ndim == 2 else np.repeat(a[:, None], n_machines, 1) for a in arrays]
        values |= {
            "counters": np.stack(arrays, axis=-1),
            "counter": list(counters),
            "units": [(units or {}).get(name, "1") for name in counters],
            "group": [(groups or {}).get(name, name) for name in counters],
        }
    return SCHEMA.dataset(values, {**({} if work is None else {"work": work}), **(attrs or {})})


def validate(dataset: xr.Dataset, *, source: str = "dataset") -> xr.Dataset:
    """Return the dataset if it obeys :data:`SCHEMA`; :class:`ProfileError` names every problem."""
    return SCHEMA.validate(dataset, source)


def describe(dataset: xr.Dataset) -> str:
    """A summary of a valid dataset, in a few lines."""
    times, machines = runtimes_of(dataset), machines_of(dataset)
    ran = np.isfinite(times)
    lines = [
        f"runs       {len(times)} of {len(np.unique(dataset['program'].values))} programs, "
        f"{ran.all(axis=1).sum()} of them on all of {len(machines)} machines"
    ]
    for m, name in enumerate(machines):
        seconds = times[ran[:, m], m]
        lines.append(
            f"           {name}: {len(seconds)} runs, from {seconds.min():.4g} to "
            f"{seconds.max():.4g} s"
        )
    for name in ("scale", "configuration"):
        words = np.unique(dataset[name].values.astype(str))
        if len(words) > 1:
            lines.append(
                f"{name + 's':<10} {len(words)}: {', '.join(w or '(none)' for w in words)}"
            )
    if "counters" in dataset:
        each = " of each machine" if "machine" in dataset["counters"].dims else ""
        lines.append(f"counters   {dataset.sizes['counter']}{each}")
    return "\n".join(map(printable, lines))


def read(path: str | os.PathLike[str]) -> xr.Dataset:
    """Read and validate a file of runs, whole; errors as :meth:`Schema.read`."""
    return SCHEMA.read(path)


def write(dataset: xr.Dataset, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Validate and write a file of runs, whole or not at all; errors as :meth:`Schema.write`."""
    SCHEMA.write(dataset, path, overwrite=overwrite)


def machines_of(dataset: xr.Dataset) -> list[str]:
    """Names of the machines."""
    return [str(name) for name in dataset["machine"].values]


def runtimes_of(dataset: xr.Dataset) -> Floats:
    """Time of every run on every machine [s], (n, n_machines), NaN where it did not run."""
    return dataset.variables["runtime"].transpose("run", "machine").values.astype(float)


def words_of(dataset: xr.Dataset, name: str) -> NDArray[np.str_]:
    """A word for every run, as its program, (n,)."""
    return dataset[name].values.astype(str)


def counters_of(dataset: xr.Dataset, source: str) -> Floats:
    """Counters of every run, as counted on a machine, (n, n_counters); none of them is (n, 0)."""
    if "counters" not in dataset:
        return np.empty((dataset.sizes["run"], 0))
    counters = dataset.variables["counters"]  # without labels, which take longer
    if "machine" in counters.dims:
        counters = counters.isel(machine=machines_of(dataset).index(source))
    return counters.transpose("run", "counter").values.astype(float)


def counter_units_of(dataset: xr.Dataset) -> dict[str, str]:
    """Unit of each counter, by its name."""
    names = counter_names_of(dataset)
    return dict(zip(names, map(str, dataset["units"].values))) if names else {}


def counter_names_of(dataset: xr.Dataset) -> list[str]:
    """Names of the counters."""
    return [str(name) for name in dataset["counter"].values] if "counters" in dataset else []


def relative_times(dataset: xr.Dataset, to: str) -> Floats:
    """Time of each run on every machine over that on one, (n, n_machines): below 1 is faster.

    Parameters
    ----------
    to : str
        A machine, or ``"fastest"`` or ``"slowest"`` for that of each run.

    Returns
    -------
    ndarray, (n, n_machines)
        NaN where a run did not run on one of the two; relative to the fastest and slowest of
        those that it ran on.

    Raises
    ------
    ArgumentError
        No such machine.
    """
    times, machines = runtimes_of(dataset), machines_of(dataset)
    if to in ("fastest", "slowest"):
        off = np.inf if to == "fastest" else -np.inf
        filled = np.where(np.isfinite(times), times, off)
        base = filled.min(axis=1) if to == "fastest" else filled.max(axis=1)
    elif to in machines:
        base = times[:, machines.index(to)]
    else:
        raise ArgumentError(f"to is {to!r}; fastest, slowest or {', '.join(machines)} is wanted.")
    return times / base[:, None]
