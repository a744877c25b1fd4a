"""What a dataset of runs on several machines is: which program took how long on which machine.

A dataset of relative performance (``msbgen-relative/1``) is a plain :class:`xarray.Dataset`:

=================  ======================  ====================================================
name               dims                    meaning
=================  ======================  ====================================================
``machine``        machine                 names (coordinate)
``runtime``        run, machine            time of the run on the machine [s]; NaN where it did
                                           not run
``program``        run                     what is held back as a whole
``input``          run                     what the program was given
``scale``          run                     size of the problem or of the allocation
``configuration``  run                     how the program was built or run, known beforehand
``nodes``          run                     nodes that the run took
``counters``       run[, machine], counter optional: events of the run, NaN where they were not
                                           counted
``counter``        counter                 names (coordinate)
``units``          counter                 of each counter (coordinate)
``group``          counter                 counters of one group are summed where instructions
                                           are told by kind, as loads (coordinate)
=================  ======================  ====================================================

A run is one program with one input at one scale in one configuration, whichever machines it ran
on.  The attribute ``work`` may name the counter that says how much a run does: instructions.
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

RELATIVE_SCHEMA = "msbgen-relative/1"
# Words that describe a run.
LABELS = ("program", "input", "scale", "configuration")

Floats = NDArray[np.float64]
# No program takes less or longer [s], and none counts more.
SHORTEST, LONGEST, MOST = 1e-15, 1e25, 1e30


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
    times = np.asarray(runtime, dtype=float)
    n = len(times)
    words = dict(zip(LABELS, (program, input, scale, configuration)))
    variables: dict[str, Any] = {
        "runtime": (
            ("run", "machine"),
            times,
            {"units": "s", "long_name": "time of the run on the machine"},
        ),
        **{
            name: ("run", np.array([""] * n if given is None else list(map(str, given)), dtype=str))
            for name, given in words.items()
        },
        "nodes": (
            "run",
            np.ones(n, dtype=np.int32) if nodes is None else np.asarray(nodes, dtype=np.int32),
            {"long_name": "nodes that the run took"},
        ),
    }
    coords: dict[str, Any] = {"machine": list(machines)}
    if counters:
        arrays = [np.asarray(values, dtype=float) for values in counters.values()]
        if any(array.ndim == 2 for array in arrays):
            arrays = [
                a if a.ndim == 2 else np.repeat(a[:, None], times.shape[1], 1) for a in arrays
            ]
        dims = ("run", "machine", "counter")[: arrays[0].ndim] if arrays[0].ndim == 2 else ("run",)
        variables["counters"] = ((*dims, "counter"), np.stack(arrays, axis=-1))
        names = list(counters)
        coords["counter"] = names
        coords["units"] = ("counter", [(units or {}).get(name, "1") for name in names])
        coords["group"] = ("counter", [(groups or {}).get(name, name) for name in names])
    said = {"schema": RELATIVE_SCHEMA, **({} if work is None else {"work": work}), **(attrs or {})}
    return xr.Dataset(variables, coords, said)


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
    times, machines = runtimes_of(dataset), machines_of(dataset)
    ran = np.isfinite(times)
    lines = [
        f"runs       {len(times)} of {len(np.unique(dataset['program'].values))} programs, "
        f"{ran.all(axis=1).sum()} of them on all of {len(machines)} machines"
    ]
    for m, name in enumerate(machines):
        own = times[ran[:, m], m]
        lines.append(
            f"           {name}: {len(own)} runs, from {own.min():.4g} to {own.max():.4g} s"
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
    return "\n".join(lines)


def read(path: str | os.PathLike[str]) -> xr.Dataset:
    """Read and validate a file of runs on several machines; everything is loaded.

    Raises
    ------
    ProfileError
        The file cannot be read whole, or what it holds breaks the contract.
    """
    return validate(load_netcdf(path), source=Path(path).name)


def write(dataset: xr.Dataset, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Validate and write a file of runs on several machines, whole or not at all.

    Raises
    ------
    ProfileError
        The dataset breaks the contract; nothing is written.
    FileExistsError
        `path` exists and `overwrite` is False.
    """
    validate(dataset, source=Path(path).name)
    packed = {"zlib": True, "complevel": 6, "shuffle": True}
    encoding = {str(n): packed for n, v in dataset.data_vars.items() if v.dtype.kind in "fi"}
    save_netcdf(dataset, path, overwrite=overwrite, encoding=encoding)


# --------------------------------------------------------------------------- what it says


def machines_of(dataset: xr.Dataset) -> list[str]:
    """Names of the machines."""
    return [str(name) for name in dataset["machine"].values]


def runtimes_of(dataset: xr.Dataset) -> Floats:
    """Time of every run on every machine [s], (n, n_machines), NaN where it did not run."""
    return dataset["runtime"].transpose("run", "machine").values.astype(float)


def words_of(dataset: xr.Dataset, name: str) -> NDArray[np.str_]:
    """A word for every run, as its program, (n,)."""
    return dataset[name].values.astype(str)


def counters_of(dataset: xr.Dataset, source: str) -> Floats:
    """Counters of every run, as counted on a machine, (n, n_counters); none of them is (n, 0)."""
    if "counters" not in dataset:
        return np.empty((dataset.sizes["run"], 0))
    counters = dataset["counters"]
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
    dataset : xarray.Dataset
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
        held = np.where(np.isfinite(times), times, off)
        base = held.min(axis=1) if to == "fastest" else held.max(axis=1)
    elif to in machines:
        base = times[:, machines.index(to)]
    else:
        raise ArgumentError(f"to is {to!r}; fastest, slowest or {', '.join(machines)} is wanted.")
    return times / base[:, None]


# --------------------------------------------------------------------------- problems


def _layout_problems(ds: xr.Dataset) -> Iterator[str]:
    schema = ds.attrs.get("schema")
    if not isinstance(schema, str) or schema != RELATIVE_SCHEMA:
        yield f"attribute 'schema' is {schema!r}; runs on several machines say '{RELATIVE_SCHEMA}'."
        return
    for dim in ("run", "machine"):
        if ds.sizes.get(dim, 0) == 0:
            yield f"dimension '{dim}' is missing or empty; at least one entry is wanted."
    if "counters" in ds and ds.sizes.get("counter", 0) == 0:
        yield "dimension 'counter' is missing or empty; drop 'counters' where there are none."
    for name in ("machine", *(("counter", "units", "group") if "counters" in ds else ())):
        dim = "machine" if name == "machine" else "counter"
        if name not in ds.coords or ds[name].dtype.kind not in "OUT" or ds[name].dims != (dim,):
            yield f"coordinate '{name}' is missing or no text; a word for each {dim} is wanted."
    for name in (*LABELS, "nodes", "runtime"):
        dims = ("run", "machine") if name == "runtime" else ("run",)
        kinds = {"runtime": "f", "nodes": "iu"}.get(name, "OUT")
        if name not in ds.data_vars:
            yield f"variable '{name}' is missing."
        elif set(ds[name].dims) != set(dims) or ds[name].ndim != len(dims):
            yield f"variable '{name}' has dimensions {list(ds[name].dims)}; {list(dims)} is wanted."
        elif ds[name].dtype.kind not in kinds:
            wanted = "words" if kinds == "OUT" else "numbers"
            yield f"variable '{name}' holds {ds[name].dtype}; {wanted} are wanted."
    if "counters" in ds:
        dims = set(ds["counters"].dims)
        if dims not in ({"run", "counter"}, {"run", "machine", "counter"}):
            yield (
                f"variable 'counters' has dimensions {list(ds['counters'].dims)}; run and counter, "
                f"or run, machine and counter, are wanted."
            )
        elif ds["counters"].dtype.kind not in "fiu":
            yield f"variable 'counters' holds {ds['counters'].dtype}; numbers are wanted."
    if "runtime" in ds and not (
        isinstance(ds["runtime"].attrs.get("units"), str) and ds["runtime"].attrs["units"] == "s"
    ):
        got = ds["runtime"].attrs.get("units")
        yield f"variable 'runtime' has units {got!r}; seconds are wanted, units 's'."


def _value_problems(ds: xr.Dataset) -> Iterator[str]:
    times, machines = runtimes_of(ds), machines_of(ds)
    bad = ~np.isnan(times) & ~((times > SHORTEST) & (times < LONGEST))
    if bad.any():
        row, m = map(int, np.argwhere(bad)[0])
        yield (
            f"variable 'runtime' is {times[row, m]} s at run {row} on machine '{machines[m]}'; a "
            f"positive number is wanted, from {SHORTEST:g} to {LONGEST:g} s: measure it again, or "
            f"NaN where it did not run."
        )
    idle = np.isnan(times).all(axis=1)
    if idle.any():
        yield f"run {int(np.argmax(idle))} ran on no machine; drop it."
    for dim in ("machine", *(("counter",) if "counters" in ds else ())):
        names, counts = np.unique(ds[dim].values.astype(str), return_counts=True)
        if counts.max() > 1:
            yield f"{dim} '{names[counts.argmax()]}' is named twice; one entry each is wanted."
    reserved = {"fastest", "slowest"} & set(machines)
    if reserved:
        yield f"machine '{min(reserved)}' has a name with a meaning of its own; rename it."
    if (ds["nodes"].values < 1).any():
        row = int(np.argmax(ds["nodes"].values < 1))
        yield f"variable 'nodes' is {int(ds['nodes'].values[row])} at run {row}; 1 or more wanted."
    if "counters" in ds:
        yield from _counter_problems(ds, machines)
    work, names = ds.attrs.get("work"), counter_names_of(ds)
    if work is not None and not (isinstance(work, str) and work in names):
        wanted = f"the name of a counter is wanted: {names[0]}, say" if names else "drop it"
        yield f"attribute 'work' is {work!r}; {wanted}."


def _counter_problems(ds: xr.Dataset, machines: list[str]) -> Iterator[str]:
    names = counter_names_of(ds)
    each = machines if "machine" in ds["counters"].dims else machines[:1]
    for machine in each:
        values = counters_of(ds, machine)
        bad = (values > MOST) | (values < 0)
        if bad.any():
            row, k = map(int, np.argwhere(bad)[0])
            yield (
                f"counter '{names[k]}' is {values[row, k]} at run {row}; a number from 0 to "
                f"{MOST:g} is wanted, or NaN where it was not counted."
            )
            return
