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
from numpy.typing import ArrayLike

from msbgen.data.store import load_netcdf, save_netcdf
from msbgen.errors import ProfileError

TRACE_SCHEMA = "msbgen-trace/1"
STREAMS = ("demand", "prefetched")

_DIMS = {
    "instructions": ("interval",),
    "core_cycles": ("interval",),
    "fixed_time": ("interval",),
    "distance_histogram": ("depth", "interval", "colouring", "stream"),
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
    arrays = {
        "instructions": np.asarray(instructions).astype(np.uint32),
        "core_cycles": np.asarray(core_cycles).astype(np.float32),
        "fixed_time": np.asarray(fixed_time).astype(np.float32),
        "distance_histogram": np.asarray(distance_histogram).astype(np.uint32),
    }
    trace = xr.Dataset(
        {
            name: (_DIMS[name], values, {"units": _UNITS[name], "long_name": _LONG_NAMES[name]})
            for name, values in arrays.items()
        },
        coords={"stream": ("stream", list(STREAMS))},
        attrs={"schema": TRACE_SCHEMA, **attrs},
    )
    return validate_trace(trace)


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
    schema = trace.attrs.get("schema")
    if schema != TRACE_SCHEMA:
        remedy = "record or download a trace" if schema is None else "this is another kind of file"
        yield f"attribute 'schema' is {schema!r}; a trace says '{TRACE_SCHEMA}': {remedy}."
    for name, dims in _DIMS.items():
        if name not in trace:
            yield f"variable '{name}' is missing: record the trace again."
        elif set(trace[name].dims) != set(dims):
            yield f"variable '{name}' has dimensions {list(trace[name].dims)}; {list(dims)} wanted."
        elif not np.issubdtype(trace[name].dtype, np.number):
            yield f"variable '{name}' holds {trace[name].dtype}, not numbers."
        elif trace[name].attrs.get("units") != _UNITS[name]:
            got = trace[name].attrs.get("units")
            yield f"variable '{name}' has units {got!r}; '{_UNITS[name]}' is wanted."
        elif trace[name].size == 0:
            yield f"variable '{name}' is empty: the program executed nothing."
    if trace.sizes.get("depth", 2) < 2:
        yield "dimension 'depth' has one entry: at least one way and the misses are wanted."
    streams = tuple(np.atleast_1d(trace["stream"].values)) if "stream" in trace.coords else ()
    if streams != STREAMS:
        yield f"coordinate 'stream' is {list(streams)}; {list(STREAMS)} is wanted."


def _value_problems(trace: xr.Dataset) -> Iterator[str]:
    for name in _DIMS:
        values = np.asarray(trace[name].transpose("interval", ...).values, dtype=float)
        bad = ~np.isfinite(values) | (values < 0)
        if name in ("instructions", "core_cycles"):
            bad |= values == 0
        if bad.any():
            index = np.unravel_index(int(np.argmax(bad)), bad.shape)
            yield (
                f"variable '{name}' is {values[index]:g} in interval {index[0]}; a finite number "
                f"above {'0' if values[index] == 0 else 'or equal to 0'} is wanted."
            )
    requests = trace["distance_histogram"].sum("depth", dtype=np.int64)
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
