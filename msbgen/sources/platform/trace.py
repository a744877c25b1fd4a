"""Trace datasets: one run of a real program, summarised for replay.

A trace is a plain :class:`xarray.Dataset` with the variables that :data:`SCHEMA` declares.

A request at depth d hits when more than d ways are given, so the misses with w ways are the sum
of the histogram over depths >= w (Mattson et al., 1970); the last depth never hits.  A colouring
is one random assignment of physical pages, which decides the cache sets; ``stream`` tells demand
misses of the private caches from those that a hardware prefetcher would have fetched in time.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from msbgen.core.errors import ProfileError
from msbgen.data.variables import POSITIVE, Schema, Variable

TRACE_SCHEMA = "msbgen-trace/1"
STREAMS = ("demand", "prefetched")


class TraceError(ProfileError):
    """A trace that breaks the contract; the message names the place and the remedy."""


def _problems(trace: xr.Dataset) -> Iterator[str]:
    """Sentences about depths, streams and colourings."""
    if trace.sizes["depth"] < 2:
        yield "dimension 'depth' has one entry; at least one way and the misses are wanted."
    known = "stream" in trace.coords and trace["stream"].dims == ("stream",)
    streams = trace["stream"].values.tolist() if known else []
    if streams != list(STREAMS):
        yield f"coordinate 'stream' is {streams}; {list(STREAMS)} is wanted."
        return
    requests = trace["distance_histogram"].astype(np.int64).sum("depth")
    differ = (requests != requests.isel(colouring=0)).any(["colouring", "stream"]).values
    if differ.any():
        yield (
            f"the requests of interval {int(np.argmax(differ))} differ between colourings, which "
            f"only move requests between depths: record the trace again."
        )


_MOST_COUNTS = float(np.iinfo(np.uint32).max)
SCHEMA = Schema(
    TRACE_SCHEMA,
    "a trace: record or download one",
    ("interval", "depth", "colouring", "stream"),
    (
        Variable(
            "instructions", ("interval",), "count", "1", "instructions executed in the interval",
            least=1, most=_MOST_COUNTS, stored="uint32",
        ),
        Variable(
            "core_cycles", ("interval",), "number", "1",
            "core cycles without any cost beyond the private caches",
            least=POSITIVE, stored="float32",
        ),
        Variable(
            "fixed_time", ("interval",), "number", "ns",
            "time that no clock and no cache changes (system calls, page faults)",
            least=0, stored="float32",
        ),
        Variable(
            "distance_histogram", ("depth", "interval", "colouring", "stream"), "count", "1",
            "last-level requests by LRU stack distance: depth w is hit with more than w ways; "
            "the last depth never hits",
            least=0, most=_MOST_COUNTS, any_order=True, stored="uint32",
        ),
    ),
    check=_problems,
    remedy="record the trace again",
    error=TraceError,
)  # fmt: skip


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
        Attributes: ``program``, ``platform`` and others that help to record it again.

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
    arrays = {v.name: _numbers(values, v.name) for v, values in zip(SCHEMA.variables, given)}
    for name, array in arrays.items():
        dims = SCHEMA[name].dims
        if array.ndim != len(dims):
            raise TraceError(
                f"variable '{name}' has shape {array.shape}; {len(dims)} dimensions, "
                f"{', '.join(dims)}, are wanted."
            )
    sizes = {
        name: array.shape[SCHEMA[name].dims.index("interval")] for name, array in arrays.items()
    }
    if len(set(sizes.values())) > 1:
        raise TraceError(f"variables have {sizes} intervals; one number of them is wanted.")
    n_streams = arrays["distance_histogram"].shape[-1]
    if n_streams != len(STREAMS):
        raise TraceError(f"dimension 'stream' has {n_streams} entries; {list(STREAMS)} is wanted.")
    trace = SCHEMA.dataset(arrays, attrs).assign_coords(stream=list(STREAMS))
    # the values are validated before a narrower type could wrap them
    validate_trace(trace)
    return trace.assign(
        {v.name: trace[v.name].astype(v.stored, keep_attrs=True) for v in SCHEMA.variables}
    )


def _numbers(values: ArrayLike, name: str) -> NDArray[np.float64]:
    try:
        return np.array(values, dtype=float)
    except (TypeError, ValueError):
        raise TraceError(f"variable '{name}' holds other things than numbers.") from None


def validate_trace(trace: xr.Dataset, *, source: str = "trace") -> xr.Dataset:
    """Return the trace if it obeys :data:`SCHEMA`; :class:`TraceError` names every problem."""
    return SCHEMA.validate(trace, source)


def read_trace(path: str | os.PathLike[str]) -> xr.Dataset:
    """Read and validate a trace, whole; errors as :meth:`Schema.read`, or :class:`TraceError`."""
    return SCHEMA.read(path)


def write_trace(
    trace: xr.Dataset, path: str | os.PathLike[str], *, overwrite: bool = False
) -> None:
    """Validate and write a trace, whole or not at all; errors as :meth:`Schema.write`."""
    SCHEMA.write(trace, path, overwrite=overwrite)
