"""Traces for ui.perfetto.dev: a group of counter tracks for each run, all beginning at time 0.

The file is a protobuf message ``perfetto.protos.Trace``: packets with the descriptors of tracks,
then packets with the values of counters (``TrackEvent`` of ``TYPE_COUNTER``).  The numbers of the
fields below are those of ``protos/perfetto/trace/``.  Fields are written here, without a library:
a key, which is the field's number and the kind of the value, then the value.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Mapping

import numpy as np
import xarray as xr

from msbgen.core.errors import ArgumentError, MeasurementError
from msbgen.data.files import replace_file
from msbgen.data.profiles import Profiles
from msbgen.output.export.series import RunSeries, check_time, runs_of

# Kinds of values: a whole number in groups of seven bits, eight bytes, a length and bytes.
_VARINT, _FIXED64, _BYTES = 0, 1, 2
# Fields of Trace, TracePacket, TrackDescriptor, CounterDescriptor and TrackEvent.
_PACKET = 1
_TIMESTAMP, _SEQUENCE, _TRACK_EVENT, _SEQUENCE_FLAGS, _TRACK_DESCRIPTOR = 8, 10, 11, 13, 60
_UUID, _NAME, _PARENT, _COUNTER, _CHILD_ORDERING, _RANK = 1, 2, 5, 8, 11, 12
_UNIT_NAME = 6
_TYPE, _TRACK, _VALUE = 9, 11, 44
_TYPE_COUNTER, _EXPLICIT, _STATE_CLEARED = 4, 3, 1


def write_perfetto(
    datasets: Mapping[str, xr.Dataset], path: str | os.PathLike[str], *, overwrite: bool = False
) -> int:
    """Write profiles as a Perfetto trace, whole or not at all; returns the number of runs.

    Each run is a group of tracks named after its dataset, context and number.  Each counter is a
    track of rates: events per second, or watts of a counter in joules.  A context's runs of all
    datasets stand one below the other.

    Parameters
    ----------
    datasets : mapping of str to xarray.Dataset
        Valid profiles by the names that the trace shows, such as measured and generated ones.
    path : path
    overwrite : bool
        Whether an existing file is replaced.

    Raises
    ------
    ArgumentError
        No dataset.
    MeasurementError
        Times of more than 9.2e9 s; durations without a course in time.
    FileExistsError, OSError
        As for other outputs.
    """
    if not datasets:
        raise ArgumentError("datasets are none; the profiles of one or more are wanted.")
    records = {name: Profiles.of(dataset) for name, dataset in datasets.items()}
    for name, profiles in records.items():
        if not profiles.is_timed:
            raise MeasurementError(
                f"{name}: holds durations without a course in time, which a trace shows; record "
                f"counters over time ('msbgen measure' or 'msbgen import')."
            )
    runs = _in_order(records)
    with replace_file(path, overwrite=overwrite) as partial, partial.open("wb") as stream:
        stream.write(_packet(_number(_SEQUENCE_FLAGS, _STATE_CLEARED)))
        track = 1
        for name, run in runs:
            stream.writelines(_run_packets(name, run, track, records[name]))
            track += 1 + len(run.counts)
    return len(runs)


def _in_order(records: Mapping[str, Profiles]) -> list[tuple[str, RunSeries]]:
    """Runs of all profiles by context, in the order in which contexts first appear."""
    by_context: dict[tuple[tuple[str, str], ...], list[tuple[str, RunSeries]]] = {}
    for name, profiles in records.items():
        for run in runs_of(profiles):
            by_context.setdefault(tuple(sorted(run.context.items())), []).append((name, run))
    return [each for runs in by_context.values() for each in runs]


def _run_packets(name: str, run: RunSeries, group: int, profiles: Profiles) -> Iterator[bytes]:
    """Descriptors of the tracks of a run, and its rates at the start of each interval.

    The group of its tracks has the number `group`, and the tracks have those that follow.
    """
    levels = [
        f"{name}={run.context[name]}" + _unit(str(attrs.get("units", "1")))
        for name, attrs in profiles.resources.items()
    ]
    title = f"{', '.join(levels)} | {name}" + ("" if run.number is None else f" {run.number}")
    yield _track(_number(_UUID, group) + _text(_NAME, title) + _number(_CHILD_ORDERING, _EXPLICIT))
    starts = np.concatenate([[0.0], run.ends])
    check_time(name, float(starts[-1]))
    stamps = np.round(1e9 * starts).astype(np.int64).tolist()
    for i, (counter, counts) in enumerate(run.counts.items(), 1):
        unit = "W" if counter in profiles.energy_counters else "1/s"
        yield _track(
            _number(_UUID, group + i) + _text(_NAME, counter) + _number(_PARENT, group)
            + _bytes(_COUNTER, _text(_UNIT_NAME, unit)) + _number(_RANK, i)
        )  # fmt: skip
        rates = np.append(counts / np.diff(starts), 0.0)
        track = _number(_TYPE, _TYPE_COUNTER) + _number(_TRACK, group + i)
        for stamp, rate in zip(stamps, rates.tolist()):
            if rate == rate:  # NaN where it was not counted
                value = _key(_VALUE, _FIXED64) + struct.pack("<d", rate)
                yield _packet(_number(_TIMESTAMP, stamp) + _bytes(_TRACK_EVENT, track + value))


def _unit(units: str) -> str:
    return "" if units == "1" else f" {units}"


def _track(fields: bytes) -> bytes:
    return _packet(_bytes(_TRACK_DESCRIPTOR, fields))


def _packet(fields: bytes) -> bytes:
    return _bytes(_PACKET, fields + _number(_SEQUENCE, 1))


def _number(field: int, value: int) -> bytes:
    return _key(field, _VARINT) + _varint(value)


def _text(field: int, text: str) -> bytes:
    return _bytes(field, text.encode("utf-8", "backslashreplace"))


def _bytes(field: int, content: bytes) -> bytes:
    return _key(field, _BYTES) + _varint(len(content)) + content


def _key(field: int, kind: int) -> bytes:
    return _varint(field << 3 | kind)


def _varint(value: int) -> bytes:
    """Groups of seven bits, the lowest first, each but the last with its highest bit set."""
    groups = bytearray()
    while value > 0x7F:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    groups.append(value)
    return bytes(groups)
