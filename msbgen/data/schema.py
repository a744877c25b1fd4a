"""What a profile dataset is: its names and arrays, and how it is built.

A profile dataset (``msbgen-profile/1``) is a plain :class:`xarray.Dataset`:

========================  ======================  ==================================================
name                      dims                    meaning
========================  ======================  ==================================================
``time`` (coordinate)     time                    end of each sampling interval [s], equally spaced,
                                                  the first one interval after the start
one coordinate a          context                 what the core was given; ``role="resource"``,
resource                                          ``units``, ``long_name``, ``levels`` (every value
                                                  that the platform can set)
one variable a counter    context[, run], time    events in the interval that ends at ``time`` [1];
                                                  ``role="counter"``; NaN once the run has ended
``duration``              context[, run]          execution time of the run [s]
========================  ======================  ==================================================

``run`` is a repetition; generated samples name the dimension ``sample``; maximum-likelihood
and mean profiles have neither.  A missing run is NaN throughout.  Names of resources and
counters are free: every function of the package asks the dataset for them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from msbgen.errors import ProfileError

SCHEMA = "msbgen-profile/1"
REPLICATES = ("run", "sample")


def resource_names(dataset: xr.Dataset) -> list[str]:
    """Names of the resources, in the order of the dataset's coordinates."""
    return [str(n) for n, c in dataset.coords.items() if c.attrs.get("role") == "resource"]


def counter_names(dataset: xr.Dataset) -> list[str]:
    """Names of the counters, in the order of the dataset's variables."""
    return [str(n) for n, v in dataset.data_vars.items() if v.attrs.get("role") == "counter"]


def replicate_dim(dataset: xr.Dataset) -> str | None:
    """Return ``"run"``, ``"sample"`` or, for one profile a context, None."""
    return next((d for d in REPLICATES if d in dataset.dims), None)


def context_table(dataset: xr.Dataset) -> NDArray[np.float64]:
    """Contexts of the dataset, (n_contexts, n_resources), each column in its resource's unit."""
    columns = [np.asarray(dataset[name].values, dtype=float) for name in resource_names(dataset)]
    return np.stack(columns, axis=1)


def all_contexts(dataset: xr.Dataset) -> NDArray[np.float64]:
    """Every context of the platform: the product of all ``levels``, (n_contexts, n_resources).

    Raises
    ------
    ProfileError
        A resource does not list its levels.
    """
    levels = []
    for name in resource_names(dataset):
        if "levels" not in dataset[name].attrs:
            raise ProfileError(
                f"Resource '{name}' has no attribute 'levels', so 'all contexts' is not known: "
                f"list the contexts wanted, or give it the levels that the platform can set."
            )
        levels.append(np.unique(np.asarray(dataset[name].attrs["levels"], dtype=float)))
    return np.array(list(product(*levels)), dtype=float)


def count_array(dataset: xr.Dataset) -> NDArray[np.float64]:
    """Counts of every counter, (n_contexts, n_runs, n_times, n_counters), NaN after the end.

    A dataset without a replicate dimension counts as one run a context.
    """
    dim = replicate_dim(dataset)
    order = ("context", dim, "time") if dim else ("context", "time")
    arrays = [dataset[name].transpose(*order).values for name in counter_names(dataset)]
    counts = np.stack(arrays, axis=-1).astype(float)
    return counts if dim else counts[:, None]


def duration_array(dataset: xr.Dataset) -> NDArray[np.float64]:
    """Execution times [s], (n_contexts, n_runs), NaN where a run is missing."""
    dim = replicate_dim(dataset)
    duration = dataset["duration"].transpose("context", *([dim] if dim else [])).values
    return np.asarray(duration, dtype=float).reshape(dataset.sizes["context"], -1)


def mean_duration(dataset: xr.Dataset) -> NDArray[np.float64]:
    """Mean execution time of each context [s], (n_contexts,), NaN where there is no run."""
    duration = duration_array(dataset)
    present = np.isfinite(duration)
    with np.errstate(invalid="ignore"):
        return np.nan_to_num(duration).sum(axis=1) / present.sum(axis=1)


def sampling_interval(dataset: xr.Dataset) -> float:
    """Sampling interval [s]."""
    time = np.asarray(dataset["time"].values, dtype=float)
    return float(dataset.attrs.get("interval", time[0]))


def describe_context(dataset: xr.Dataset, index: int) -> str:
    """Return a context in words: ``context 3 (cache_ways=2, bandwidth=70 MB s-1)``."""
    parts = []
    for name in resource_names(dataset):
        units = str(dataset[name].attrs.get("units", ""))
        suffix = "" if units in ("", "1") else f" {units}"
        parts.append(f"{name}={float(dataset[name].values[index]):g}{suffix}")
    return f"context {index} ({', '.join(parts)})"


def describe_profiles(dataset: xr.Dataset) -> str:
    """What a valid dataset holds, in a few lines for a person."""
    dim = replicate_dim(dataset)
    duration = duration_array(dataset)
    runs = np.isfinite(duration).sum(axis=1)
    lines = [
        f"task      {dataset.attrs.get('task', '(not named)')}",
        f"contexts  {dataset.sizes['context']}, "
        + (f"{_span(runs)} {dim}s each" if dim else "one profile each"),
        f"duration  {_span(duration[np.isfinite(duration)])} s, "
        f"sampled every {sampling_interval(dataset):g} s",
    ]
    for name in resource_names(dataset):
        values = np.unique(dataset[name].values)
        levels = dataset[name].attrs.get("levels")
        of = f" of {np.size(levels)} levels" if levels is not None else ""
        units = dataset[name].attrs["units"]
        lines.append(f"resource  {name} [{units}]: {_span(values)}, {len(values)} values{of}")
    for name in counter_names(dataset):
        total = dataset[name].sum("time", dtype=float).transpose("context", ...).values
        total = total.reshape(duration.shape)[np.isfinite(duration)]
        lines.append(f"counter   {name}: {_span(total)} events a run")
    return "\n".join(lines)


def _span(values: NDArray[Any]) -> str:
    low, high = float(np.min(values)), float(np.max(values))
    return f"{low:.6g}" if low == high else f"{low:.6g} to {high:.6g}"


def resource_attrs(dataset: xr.Dataset) -> dict[str, dict[str, Any]]:
    """Attributes of every resource by name, as :func:`make_profiles` takes them."""
    return {name: dict(dataset[name].attrs) for name in resource_names(dataset)}


def counter_attrs(dataset: xr.Dataset) -> dict[str, dict[str, Any]]:
    """Attributes of every counter by name, as :func:`make_profiles` takes them."""
    return {name: dict(dataset[name].attrs) for name in counter_names(dataset)}


def inherited_attrs(dataset: xr.Dataset) -> dict[str, Any]:
    """Global attributes that what is made from a dataset keeps."""
    return {name: v for name, v in dataset.attrs.items() if name in ("task", "platform")}


def checked_contexts(contexts: ArrayLike, resources: Sequence[str]) -> NDArray[np.float64]:
    """Contexts as an array (n_contexts, n_resources) of finite numbers, at least one.

    Raises
    ------
    ValueError
        Another shape, or a value that is not finite.
    """
    table = np.asarray(contexts, dtype=float)
    if table.ndim != 2 or table.shape[1] != len(resources) or len(table) == 0:
        raise ValueError(
            f"contexts have shape {table.shape}; rows × {len(resources)} columns "
            f"({', '.join(resources)}) are wanted."
        )
    if not np.all(np.isfinite(table)):
        row = int(np.argmin(np.isfinite(table).all(axis=1)))
        raise ValueError(f"contexts are not finite at row {row}: {table[row].tolist()}.")
    return table


def make_profiles(
    counts: ArrayLike,
    duration: ArrayLike,
    contexts: ArrayLike,
    *,
    interval: float,
    resources: Mapping[str, Mapping[str, Any]],
    counters: Mapping[str, Mapping[str, Any]],
    replicate: str = "run",
    attrs: Mapping[str, Any] | None = None,
    extrapolated: ArrayLike | None = None,
) -> xr.Dataset:
    """Put labels on arrays: the one place where a profile dataset is built.

    Parameters
    ----------
    counts : array_like, (n_contexts[, n_runs], n_times, n_counters)
        Events per interval, NaN once a run has ended [1].
    duration : array_like, (n_contexts[, n_runs])
        Execution times [s].
    contexts : array_like, (n_contexts, n_resources)
        One row a context, in the order of `resources`.
    interval : float
        Sampling interval [s].
    resources, counters : mapping of str to attributes
        Names, with at least ``units`` for resources; the roles are added.
    replicate : {"run", "sample"}
        What the second dimension of `counts` is called, where it has one.
    attrs : mapping
        Global attributes beyond ``schema`` and ``interval``.
    extrapolated : array_like of bool, (n_contexts,)
        Which contexts lie outside the hull of the measured ones, for generated profiles.

    Returns
    -------
    xarray.Dataset
        Not validated: see :func:`validate_profiles`.
    """
    counts = np.asarray(counts)
    table = np.asarray(contexts, dtype=float)
    if counts.shape[-1] != len(counters) or table.ndim != 2 or table.shape[1] != len(resources):
        raise ValueError(
            f"counts have {counts.shape[-1]} counters for {len(counters)} names, contexts "
            f"{table.shape[-1]} resources for {len(resources)}; one name each is wanted."
        )
    dims = ("context", replicate, "time") if counts.ndim == 4 else ("context", "time")
    time_attrs = {"units": "s", "long_name": "end of the sampling interval"}
    coords: dict[str, Any] = {
        name: ("context", table[:, i], {**given, "role": "resource"})
        for i, (name, given) in enumerate(resources.items())
    }
    coords["time"] = ("time", interval * np.arange(1, counts.shape[-2] + 1), time_attrs)
    variables: dict[str, Any] = {
        name: (
            dims,
            counts[..., i].astype(np.float32),
            {"units": "1", **given, "role": "counter"},
        )
        for i, (name, given) in enumerate(counters.items())
    }
    variables["duration"] = (
        dims[:-1],
        np.asarray(duration, dtype=float),
        {"units": "s", "long_name": "execution time"},
    )
    if extrapolated is not None:
        label = {"long_name": "context lies outside the hull of the measured ones", "units": "1"}
        variables["extrapolated"] = "context", np.asarray(extrapolated, dtype=np.int8), label
    header = {"schema": SCHEMA, "interval": float(interval)}
    return xr.Dataset(variables, coords=coords, attrs={**header, **(attrs or {})})


def join_profiles(blocks: Sequence[xr.Dataset]) -> xr.Dataset:
    """Blocks of contexts of one kind as one dataset, as long as the longest of them."""
    if len(blocks) == 1:
        return blocks[0]
    longest = max(blocks, key=lambda block: block.sizes["time"])
    stops = np.cumsum([block.sizes["context"] for block in blocks])
    variables = {}
    for name, model in longest.variables.items():
        if "context" not in model.dims:
            variables[name] = model
            continue
        shape = [stops[-1] if dim == "context" else n for dim, n in zip(model.dims, model.shape)]
        filler = np.nan if model.dtype.kind == "f" else 0
        values = np.full(shape, filler, dtype=model.dtype)
        for stop, block in zip(stops, blocks):
            part = block[name].transpose(*model.dims).values
            start = {"context": stop - block.sizes["context"]}
            at = [start.get(str(dim), 0) for dim in model.dims]
            values[tuple(slice(i, i + n) for i, n in zip(at, part.shape))] = part
        variables[name] = model.dims, values, model.attrs
    coords = {name: variables.pop(name) for name in longest.coords}
    return xr.Dataset(variables, coords=coords, attrs=blocks[0].attrs)
