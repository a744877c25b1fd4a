"""Streams of requests: what one run of a real program asks of the last-level cache, in order.

A trace summarises the requests of each interval by their stack distances, which is all that a
program needs that has its ways for itself.  Programs that share a cache displace each other's
lines, and their replay needs every request.  A stream is a plain :class:`xarray.Dataset` with the
variables of :data:`SCHEMA`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from msbgen.core.errors import ProfileError
from msbgen.data.variables import POSITIVE, Schema, Variable

STREAM_SCHEMA = "msbgen-stream/1"
# Lines of 64 B in a page of 4 KiB.
LINES_PER_PAGE = 64


class StreamError(ProfileError):
    """A stream that breaks the contract; the message names the place and the remedy."""


_MOST = float(np.iinfo(np.uint32).max)


def _problems(stream: xr.Dataset) -> Iterator[str]:
    """Sentences about numbers of requests."""
    counted = int(stream["requests"].values.sum(dtype=np.int64))
    if counted != stream.sizes["request"]:
        yield (
            f"variable 'requests' has a sum of {counted}, where there are "
            f"{stream.sizes['request']} requests: record the stream again."
        )


SCHEMA = Schema(
    STREAM_SCHEMA,
    "a stream: record one (msbgen platform record --stream)",
    ("interval", "request"),
    (
        Variable(
            "instructions", ("interval",), "count", "1", "instructions executed in the interval",
            least=1, most=_MOST, dtype="uint32", stored="uint32",
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
            "requests", ("interval",), "count", "1", "requests to the last level in the interval",
            least=0, most=_MOST, dtype="uint32", stored="uint32",
        ),
        Variable(
            "line", ("request",), "whole", "1",
            "line of each request: 64 x page, pages numbered by first use, + line in the page",
            least=0, most=_MOST, dtype="uint32", stored="uint32",
        ),
        Variable(
            "prefetched", ("request",), "whole", "1",
            "1 where a hardware prefetcher would have fetched the line in time",
            least=0, most=1, dtype="uint8", stored="uint8",
        ),
    ),
    check=_problems,
    remedy="record the stream again",
    compression=4,
    error=StreamError,
)  # fmt: skip


def make_stream(
    summaries: Mapping[str, ArrayLike], requests: NDArray[np.uint64], attrs: Mapping[str, Any]
) -> xr.Dataset:
    """Stream dataset, validated.

    Parameters
    ----------
    summaries : mapping
        ``instructions``, ``core_cycles``, ``fixed_time`` [ns] and ``requests``, (n_intervals,).
    requests : array_like, (n_requests,)
        Twice the virtual line number (address / 64), plus one for a prefetched line.
    attrs : mapping
        Attributes, as those of a trace.

    Raises
    ------
    StreamError
        The arrays do not make a stream, or it has no request.
    """
    requests = np.asarray(requests, dtype=np.uint64)
    lines = requests // 2
    _, first, page = np.unique(lines // LINES_PER_PAGE, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.uint64)
    rank[np.argsort(first)] = np.arange(len(first), dtype=np.uint64)
    dense = rank[page.reshape(-1)] * LINES_PER_PAGE + lines % LINES_PER_PAGE
    values = {**summaries, "line": dense, "prefetched": requests % 2}
    return validate_stream(SCHEMA.dataset(values, attrs))


def validate_stream(stream: xr.Dataset, *, source: str = "stream") -> xr.Dataset:
    """Return the stream if it obeys :data:`SCHEMA`; :class:`StreamError` names every problem."""
    return SCHEMA.validate(stream, source)


def read_stream(path: str | os.PathLike[str]) -> xr.Dataset:
    """Read and validate a stream, whole; errors as :meth:`Schema.read`, or :class:`StreamError`."""
    return SCHEMA.read(path)


def write_stream(
    stream: xr.Dataset, path: str | os.PathLike[str], *, overwrite: bool = False
) -> None:
    """Validate and write a stream, whole or not at all; errors as :meth:`Schema.write`."""
    SCHEMA.write(stream, path, overwrite=overwrite)
