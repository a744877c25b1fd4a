"""Tables of counts that users write themselves, read through a column map."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from msbgen.core.durations import UNITS
from msbgen.core.errors import ProfileError, quoted
from msbgen.data.columns import ColumnMap, Table, bare_name, column_map, unit_of
from msbgen.data.schema import ENERGY_UNITS
from msbgen.data.units import BYTES, HERTZ, JOULES, WATTS
from msbgen.measure.readers.recording import Rows
from msbgen.measure.readers.rows import rows_of

# Names of columns that are no events.
_TIME, _PLACE, _CLOCK = "time", "place", "clock"
# Keys of a column map of recordings.
MAP_KEYS = ("columns", "totals", "rates", "separator", "cycles", "clock")
_CLOCK_TEXT = re.compile(r"\s*(\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+)\s*([kMG]?Hz)\s*")
# No unit of a column is as large.
_MOST = 1e18


def recording_map(content: Mapping[str, Any], source: str) -> ColumnMap:
    """Column map of a recording from a table of a TOML file (:mod:`msbgen.data.columns`).

    ProfileError: a key that is unknown or of another form, no column of the time, or no events.
    """
    columns = column_map(content, source, MAP_KEYS, ("columns",))
    check_recording_map(columns, source)
    return columns


def check_recording_map(columns: ColumnMap, source: str) -> None:
    """Raise :class:`ProfileError` for a map without time or events, or with an invalid unit."""
    units = {bare_name(title): unit_of(title) for title in columns.columns}
    if columns.cycles or columns.clock:
        _check_cycles(columns, units, source)
    elif units.get(_TIME) not in UNITS:
        raise ProfileError(
            f"{source}: 'time' is missing or has no known unit; a column 'time [s]', or one of "
            f"{', '.join(UNITS)} in its place, is wanted."
        )
    events = _events(columns, list(units))
    if not events or len(units) < len(columns.columns):
        raise ProfileError(
            f"{source}: events are {', '.join(events) or 'none'}; one or more, each once, are "
            f"wanted."
        )
    for name in (*columns.totals, *columns.rates):
        if name not in events:
            raise ProfileError(f"{source}: '{name}' is no event; one of {', '.join(events)} is.")
    for name in events:
        if not 0 < _factor(units[name], rate=name in columns.rates) < _MOST:
            raise ProfileError(
                f"{source}: the unit of '{name}' is '{units[name]}'; the number of events in it, "
                f"as 1e6, or J (W if it is a rate) or B with a prefix, is wanted."
            )


def _factor(unit: str, *, rate: bool) -> float:
    """Events, joules or bytes in a unit of a column; NaN if it is invalid."""
    if unit in WATTS and rate:
        return WATTS[unit]
    if unit in JOULES or unit in BYTES:
        return {**JOULES, **BYTES}[unit]
    try:
        return float(unit or 1)
    except ValueError:
        return float("nan")


def _events(columns: ColumnMap, names: Sequence[str]) -> list[str]:
    """Names of the columns that are events."""
    others = (_CLOCK, _PLACE) if columns.cycles else (_TIME, _PLACE)
    return [name for name in names if name not in others]


def _check_cycles(columns: ColumnMap, units: Mapping[str, str], source: str) -> None:
    """Refuse a time that is measured by cycles, without these or their clock."""
    if columns.cycles not in units or columns.cycles in columns.rates or _TIME in units:
        there = ", ".join(_events(columns, list(units)))
        raise ProfileError(
            f"{source}: 'cycles' is {quoted(columns.cycles)}; the name of a column of counts "
            f"({there}), and no column 'time', are wanted."
        )
    if columns.clock == _CLOCK and units.get(_CLOCK) in HERTZ:
        return
    if not (_CLOCK_TEXT.fullmatch(columns.clock) and _hertz(columns.clock) > 0):
        raise ProfileError(
            f"{source}: 'clock' is {quoted(columns.clock)}; a clock such as '2.4 GHz', a resource "
            f"in hertz, or 'clock' with a column 'clock [MHz]' is wanted."
        )


def _hertz(text: str) -> float:
    found = _CLOCK_TEXT.fullmatch(text)
    assert found
    return float(found[1]) * HERTZ[found[2]]


def with_clock_of(
    columns: ColumnMap, context: Mapping[str, float], units: Mapping[str, str]
) -> ColumnMap:
    """The map with the clock of a context, where it names the resource that is the clock."""
    if columns.clock not in context or columns.clock == _CLOCK:
        return columns
    return replace(columns, clock=f"{context[columns.clock]!r} {units[columns.clock]}")


@np.errstate(over="ignore", invalid="ignore")  # refused where it matters
def read_table(path: str | os.PathLike[str], columns: ColumnMap) -> Rows:
    """Rows of a table whose header names the columns.

    ==================  =======================================================================
    column              meaning
    ==================  =======================================================================
    ``time [s]``        end of each bin since the start, or in another unit of time
    ``place``           optional: core or thread of the row
    ``clock [MHz]``     of the row, where the map says ``clock = "clock"``
    any other           events in the bin; since the start where the map lists them in
                        ``totals``, per second where it lists them in ``rates``; the unit is
                        the number of events in it, ``bytes [1e6]``, or one of data, ``[MB]``;
                        or energy, ``[J]``, or power, ``[W]``, in ``rates``
    ==================  =======================================================================

    Instead of the time, the map may name the event of the ``cycles`` and their ``clock``.
    """
    table = Table(path, columns)
    titles = columns.columns or {title: title for title in table.header}
    check_recording_map(replace(columns, columns=titles), Path(path).name)
    places = table.texts(_PLACE)
    if columns.cycles:
        since = _seconds_of_cycles(table, columns, places)
        times = _sums(since, places)
    else:
        times = table.numbers(_TIME) * UNITS[table.unit(_TIME)]
        since = _differences(times, places)
    values, units = {}, {}
    for event in _events(columns, table.names):
        unit = table.unit(event)
        values[event] = table.numbers(event) * _factor(unit, rate=event in columns.rates)
        if unit in JOULES or unit in WATTS:
            units[event] = ENERGY_UNITS
        if event in columns.rates:
            values[event] = values[event] * since
        elif event in columns.totals:
            values[event] = _differences(values[event], places)
        for row in np.flatnonzero(~np.isfinite(values[event]))[:1].tolist():
            table.refuse(event, row, "a count of fewer digits is wanted")
    return rows_of(table.file, table.lines, times, places, values, (), units)


def _seconds_of_cycles(table: Table, columns: ColumnMap, places: Sequence[str]) -> np.ndarray:
    """Duration of each row [s]: its cycles over their clock."""
    cycles = table.numbers(columns.cycles) * _factor(table.unit(columns.cycles), rate=False)
    if columns.cycles in columns.totals:
        cycles = _differences(cycles, places)
    if columns.clock == _CLOCK:
        clock = table.range(_CLOCK, 1e-9, 1e15, "a clock above 0 is wanted")
        hertz: np.ndarray | float = clock * HERTZ[table.unit(_CLOCK)]
    else:
        hertz = _hertz(columns.clock)
    total = columns.cycles in columns.totals
    for row in np.flatnonzero(cycles <= 0)[:1].tolist():
        wanted = "more cycles than in the row before" if total else "cycles above 0"
        table.refuse(columns.cycles, row, f"{wanted} are wanted")
    return np.asarray(cycles / hertz)


def _sums(since: np.ndarray, places: Sequence[str]) -> np.ndarray:
    """Sums of the rows so far of the same place."""
    total: dict[str, float] = {}
    sums = np.empty(len(since))
    for i, (step, place) in enumerate(zip(since.tolist(), places)):
        sums[i] = total[place] = total.get(place, 0.0) + step
    return sums


def _differences(totals: np.ndarray, places: Sequence[str]) -> np.ndarray:
    """Events, or time, since the row before of the same place."""
    before: dict[str, float] = {}
    since = np.empty(len(totals))
    for i, (total, place) in enumerate(zip(totals.tolist(), places)):
        since[i] = total - before.get(place, 0.0)
        before[place] = total
    return since
