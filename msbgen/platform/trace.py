"""What a trace dataset is: one run of a real program, summarised for replay.

A trace (``msbgen-trace/1``) is a plain :class:`xarray.Dataset`:

======================  =====================================  =================================
variable                dims                                   meaning
======================  =====================================  =================================
``instructions``        interval                               instructions executed [1]
``core_cycles``         interval                               core cycles without any cost
                                                               beyond the private caches [1]
``fixed_time``          interval                               time that no clock and no cache
                                                               changes: system calls, page
                                                               faults [ns]
``distance_histogram``  depth, interval, colouring, stream     last-level requests by LRU stack
                                                               distance [1]
======================  =====================================  =================================

A request at depth d hits when more than d ways are given, so the misses with w ways are the sum
of the histogram over depths >= w (Mattson et al., 1970); the last depth never hits.  A colouring
is one random assignment of physical pages, which decides the cache sets; ``stream`` tells demand
misses of the private caches from those that a hardware prefetcher would have fetched in time.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from msbgen.core.errors import ProfileError
from msbgen.data.store import load_netcdf, save_netcdf

TRACE_SCHEMA = "msbgen-trace/1"
STREAMS = ("demand", "prefetched")

_DIMS = {
    "instructions": ("interval",),
    "core_cycles": ("interval",),
    "fixed_time": ("interval",),
    "distance_histogram": ("depth", "interval", "colouring", "stream"),
}
# The types that a trace is kept in; counts are whole.
_TYPES = {
    "instructions": np.uint32,
    "core_cycles": np.float32,
    "fixed_time": np.float32,
    "distance_histogram": np.uint32,
}
_UNITS = {"instructions": "1", "core_cycles": "1", "fixed_time": "ns", "distance_histogram": "1"}
_LONG_NAMES = {
    "instructions": "instructions executed in the interval",
    "core_cycles": "core cycles without any cost beyond the private caches",
    "fixed_time": "time that no clock and no cache changes (system calls, page faults)",
    "distance_histogram": (
        "last-level requests by LRU stack distance: depth w is hit with more than w ways; "
        "the last depth never hits"
    ),
}


class TraceError(ProfileError):
    """A trace that breaks the contract; the message names the place and the remedy."""


def make_trace(
    instructions: ArrayLike,
    core_cycles: ArrayLike,
    fixed_time: ArrayLike,
    distance_histogram: ArrayLike,
    *,
    attrs: Mapping[str, str],
) -> xr.Dataset:
    """Put labels on the arrays of a trace.

    Parameters
    ----------
    instructions, core_cycles : array_like, (n_intervals,)
        Events per interval [1].
    fixed_time : array_like, (n_intervals,)
        Time that neither clock nor cache changes [ns].
    distance_histogram : array_like, (n_depths, n_intervals, n_colourings, 2)
        Requests by stack distance, demand before prefetched [1].
    attrs : mapping of str to str
        What was recorded: ``program``, ``platform`` and whatever helps to record it again.

    Returns
    -------
    xarray.Dataset
        Validated.

    Raises
    ------
    TraceError
        The arrays do not make a trace.
    """
    given = (instructions, core_cycles, fixed_time, distance_histogram)
    variables = {}
    for (name, dims), value in zip(_DIMS.items(), given):
        array = _numbers(value, name)
        if array.ndim != len(dims):
            raise TraceError(
                f"variable '{name}' has shape {array.shape}; {len(dims)} dimensions, "
                f"{', '.join(dims)}, are wanted."
            )
        variables[name] = dims, array, {"units": _UNITS[name], "long_name": _LONG_NAMES[name]}
    sizes = {
        name: array.shape[dims.index("interval")] for name, (dims, array, _) in variables.items()
    }
    if len(set(sizes.values())) > 1:
        raise TraceError(f"variables have {sizes} intervals; one number of them is wanted.")
    n_streams = variables["distance_histogram"][1].shape[-1]
    if n_streams != len(STREAMS):
        raise TraceError(f"dimension 'stream' has {n_streams} entries; {list(STREAMS)} is wanted.")
    trace = xr.Dataset(
        variables,
        coords={"stream": ("stream", list(STREAMS))},
        attrs={"schema": TRACE_SCHEMA, **attrs},
    )
    # the values are looked at before a narrower type could wrap them
    validate_trace(trace)
    return trace.assign(
        {name: trace[name].astype(kind, keep_attrs=True) for name, kind in _TYPES.items()}
    )


def _numbers(values: ArrayLike, name: str) -> NDArray[np.float64]:
    try:
        return np.array(values, dtype=float)
    except (TypeError, ValueError):
        raise TraceError(f"variable '{name}' holds other things than numbers.") from None


def validate_trace(trace: xr.Dataset, *, source: str = "trace") -> xr.Dataset:
    """Return the trace if it obeys the contract.

    Raises
    ------
    TraceError
        With one sentence for every problem.
    """
    problems = list(_layout_problems(trace)) or list(_value_problems(trace))
    if problems:
        raise TraceError(*(f"{source}: {text}" for text in problems))
    return trace


def _layout_problems(trace: xr.Dataset) -> Iterator[str]:
    schema = _plain(trace.attrs.get("schema"))
    if schema != TRACE_SCHEMA:
        remedy = "record or download a trace" if schema is None else "this is another kind of file"
        yield f"attribute 'schema' is {schema!r}; a trace says '{TRACE_SCHEMA}': {remedy}."
    for name, dims in _DIMS.items():
        if name not in trace:
            yield f"variable '{name}' is missing: record the trace again."
        elif set(trace[name].dims) != set(dims):
            got = list(map(str, trace[name].dims))
            yield f"variable '{name}' has dimensions {got}; {list(dims)} are wanted."
        elif trace[name].dtype.kind not in "iuf":
            yield f"variable '{name}' holds {trace[name].dtype}; numbers are wanted."
        elif _plain(trace[name].attrs.get("units")) != _UNITS[name]:
            got = _plain(trace[name].attrs.get("units"))
            yield f"variable '{name}' has units {got!r}; '{_UNITS[name]}' is wanted."
        elif trace[name].size == 0:
            yield f"variable '{name}' is empty: the program executed nothing."
    if trace.sizes.get("depth", 2) < 2:
        yield "dimension 'depth' has one entry; at least one way and the misses are wanted."
    known = "stream" in trace.coords and trace["stream"].dims == ("stream",)
    streams = trace["stream"].values.tolist() if known else []
    if streams != list(STREAMS):
        yield f"coordinate 'stream' is {streams}; {list(STREAMS)} is wanted."


def _plain(attribute: object) -> object:
    """What a file says, arrays as lists, so that it can be compared and shown."""
    return attribute.tolist() if isinstance(attribute, (np.ndarray, np.generic)) else attribute


def _value_problems(trace: xr.Dataset) -> Iterator[str]:
    whole = True
    for name, kind in _TYPES.items():
        # in the order of _DIMS but for the interval, which comes first
        order = ("interval", *(dim for dim in _DIMS[name] if dim != "interval"))
        values = trace[name].transpose(*order).values.astype(float)
        least = 1 if name == "instructions" else 0
        good = np.isfinite(values) & (values >= least)
        wanted = f"a finite number ≥ {least}"
        if kind == np.uint32:
            most = np.iinfo(np.uint32).max
            good &= (values <= most) & (values == np.floor(values))
            wanted = f"a whole number from {least} to {most}"
        elif name == "core_cycles":
            good &= values > 0
            wanted = "a finite number above 0"
        if not good.all():
            whole = False
            index = np.unravel_index(int(np.argmin(good)), good.shape)
            yield (
                f"variable '{name}' is {values[index]} in interval {index[0]}; {wanted} is wanted."
            )
    if not whole:
        return
    requests = trace["distance_histogram"].astype(np.int64).sum("depth")
    differ = (requests != requests.isel(colouring=0)).any(["colouring", "stream"]).values
    if differ.any():
        yield (
            f"the requests of interval {int(np.argmax(differ))} differ between colourings, which "
            f"only move requests between depths: record the trace again."
        )


def read_trace(path: str | os.PathLike[str]) -> xr.Dataset:
    """Read and validate a trace; everything is loaded.

    Raises
    ------
    ProfileError
        The file cannot be read whole, or is no trace (:class:`TraceError`).
    """
    return validate_trace(load_netcdf(path), source=Path(path).name)


def write_trace(
    trace: xr.Dataset, path: str | os.PathLike[str], *, overwrite: bool = False
) -> None:
    """Validate and write a trace, whole or not at all.

    Raises
    ------
    TraceError
        The dataset is no trace; nothing is written.
    FileExistsError
        `path` exists and `overwrite` is False.
    """
    validate_trace(trace, source=Path(path).name)
    packed = {"zlib": True, "complevel": 9, "shuffle": True}
    save_netcdf(trace, path, overwrite=overwrite, encoding={name: packed for name in _DIMS})
