"""Profile datasets from arrays, and from blocks of contexts (:mod:`msbgen.data.schema`)."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import ArrayLike

from msbgen.core.errors import ArgumentError
from msbgen.data.schema import CLIFF, COMPLETE, RESERVED, SCHEMA


def array_variable(
    dims: str | tuple[str, ...], values: ArrayLike, attrs: Mapping[str, Any] | None = None
) -> xr.Variable:
    """Variable of an array, which xarray does not convert.

    Its conversion imports dask where that is installed, which takes longer than an answer of a
    saved model.
    """
    return xr.Variable(dims, np.asarray(values), attrs, fastpath=True)


def make_profiles(
    counts: ArrayLike | None = None,
    durations: ArrayLike | None = None,
    contexts: ArrayLike | None = None,
    *,
    resources: Mapping[str, Mapping[str, Any]],
    interval: float | None = None,
    counters: Mapping[str, Mapping[str, Any]] = {},
    replicate: str = "run",
    attrs: Mapping[str, Any] | None = None,
    extrapolated: ArrayLike | None = None,
    cliff: ArrayLike | None = None,
    complete: ArrayLike | None = None,
) -> xr.Dataset:
    """Put labels on arrays: the one place where a profile dataset is built.

    Durations are enough: ``make_profiles(durations=..., contexts=..., resources=...)``.

    Parameters
    ----------
    counts : array_like, (n_contexts[, n_runs], n_times, n_counters), optional
        Events per interval [1], or energy [J], NaN once a run has ended.  Without an `interval`
        they are totals of each run, (n_contexts[, n_runs], n_counters).
    durations : array_like, (n_contexts[, n_runs])
        Execution times [s].
    contexts : array_like, (n_contexts, n_resources)
        One row per context, in the order of `resources`.
    resources, counters : mapping of str to attributes
        Names, with at least ``units`` for resources; the roles are added, and ``units="1"`` for
        counters that have none.
    interval : float, optional
        Sampling interval [s] of counts over time.
    replicate : {"run", "sample"}
        What the second dimension of `durations` is called, where it has one.
    attrs : mapping
        Global attributes beyond ``schema`` and ``interval``.
    extrapolated : array_like of bool, (n_contexts,)
        Which contexts lie outside the hull of the measured ones, for generated profiles.
    cliff : array_like of bool, (n_contexts,)
        Which contexts lie between levels where a count may change suddenly, for generated ones.
    complete : array_like of bool, (n_contexts, n_runs)
        Which runs went on to their end, where some were cut.

    Returns
    -------
    xarray.Dataset
        Not validated: see :func:`msbgen.data.check.validate_profiles`.

    Raises
    ------
    ArgumentError
        Arrays of other shapes, or a name that is the package's own.
    """
    if durations is None or contexts is None:
        missing = "durations" if durations is None else "contexts"
        raise ArgumentError(f"{missing} is None; an array is wanted.")
    seconds, table = np.asarray(durations, dtype=float), np.asarray(contexts, dtype=float)
    timed = interval is not None
    events = np.empty((*seconds.shape, 0)) if counts is None else np.asarray(counts)
    taken = sorted(RESERVED.intersection((*resources, *counters)))
    if taken:
        raise ArgumentError(f"'{taken[0]}' is a name of msbgen's own; another one is wanted.")
    if events.ndim - timed not in (2, 3):
        wanted = "contexts × runs × times × counters" if timed else "contexts × runs × counters"
        raise ArgumentError(f"counts have shape {events.shape}; {wanted} are wanted.")
    if events.shape[-1] != len(counters) or table.ndim != 2 or table.shape[1] != len(resources):
        raise ArgumentError(
            f"counts have {events.shape[-1]} counters for {len(counters)} names, contexts "
            f"{table.shape[-1]} resources for {len(resources)}; one name each is wanted."
        )
    of_runs = ("context", replicate) if events.ndim - timed == 3 else ("context",)
    dims = (*of_runs, "time") if timed else of_runs
    coords: dict[str, Any] = {
        name: array_variable("context", table[:, i], {**given, "role": "resource"})
        for i, (name, given) in enumerate(resources.items())
    }
    header: dict[str, Any] = {"schema": SCHEMA}
    if interval is not None:
        time_attrs = {"units": "s", "long_name": "end of the sampling interval"}
        times = pd.Index(
            interval * np.arange(1, np.size(events, axis=-2) + 1)
        )  # see array_variable
        coords["time"] = ("time", times, time_attrs)
        header["interval"] = float(interval)
    variables: dict[str, Any] = {}
    for i, (name, given) in enumerate(counters.items()):
        column = events[..., i].astype(np.float32 if timed else float)
        variables[name] = array_variable(dims, column, {"units": "1", **given, "role": "counter"})
    label = {"units": "s", "long_name": "execution time"}
    variables["duration"] = array_variable(of_runs, seconds, label)
    if extrapolated is not None:
        label = {"long_name": "context lies outside the hull of the measured ones", "units": "1"}
        outside = np.asarray(extrapolated, dtype=np.int8)
        variables["extrapolated"] = array_variable("context", outside, label)
    if cliff is not None:
        label = {"long_name": "a count may change suddenly between the levels around", "units": "1"}
        variables[CLIFF] = array_variable("context", np.asarray(cliff, dtype=np.int8), label)
    if complete is not None:
        label = {"long_name": "run went on to its end", "units": "1"}
        variables[COMPLETE] = array_variable(of_runs, np.asarray(complete, dtype=np.int8), label)
    return xr.Dataset(variables, coords=coords, attrs={**header, **(attrs or {})})


def join_profiles(blocks: Sequence[xr.Dataset]) -> xr.Dataset:
    """Blocks of contexts of one kind as one dataset, of the most times and runs of a block."""
    if len(blocks) == 1:
        return blocks[0]
    longest = max(blocks, key=lambda block: block.sizes.get("time", 0))
    stops = np.cumsum([block.sizes["context"] for block in blocks]).tolist()
    sizes = {dim: max(block.sizes[dim] for block in blocks) for dim in longest.sizes}
    sizes["context"] = stops[-1]

    def joined(name: Any, model: xr.Variable) -> Any:
        if "context" not in model.dims:
            return model
        ended = np.nan if model.dtype.kind == "f" else 0
        values = np.full([sizes[dim] for dim in model.dims], ended, dtype=model.dtype)
        for stop, block in zip(stops, blocks):
            rows = {dim: slice(block.sizes[dim]) for dim in model.dims}
            rows["context"] = slice(stop - block.sizes["context"], stop)
            part = block[name].transpose(*model.dims).values
            values[tuple(rows[dim] for dim in model.dims)] = part
        return model.dims, values, model.attrs

    variables = {name: joined(name, model) for name, model in longest.variables.items()}
    coords = {name: variables.pop(name) for name in longest.coords}
    return xr.Dataset(variables, coords=coords, attrs=blocks[0].attrs)
