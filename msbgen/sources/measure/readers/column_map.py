"""Column maps of recordings: which columns of a table are the time, a place and events."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from msbgen.core.durations import UNITS
from msbgen.core.errors import ProfileError, quoted
from msbgen.data.columns import ColumnMap, bare_name, column_map, unit_of
from msbgen.data.schema import COMPLETE
from msbgen.data.units import BYTES, HERTZ, JOULES, WATTS
from msbgen.sources.measure.dataset import RUN_METADATA

# Names of columns that are no events.
TIME, PLACE, CLOCK = "time", "place", "clock"
# Keys of a column map of recordings.
MAP_KEYS = ("columns", "totals", "rates", "separator", "cycles", "clock")
# Columns about runs, where the map lists resources.
RUN_COLUMNS = ("duration", COMPLETE, *RUN_METADATA)
_CLOCK_TEXT = re.compile(r"\s*(\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+)\s*([kMG]?Hz)\s*")
# No unit of a column is as large.
_MOST = 1e18


def recording_map(content: Mapping[str, Any], source: str) -> ColumnMap:
    """Column map of a recording from a table of a TOML file (:mod:`msbgen.data.columns`).

    ProfileError: a key that is unknown or of another form, no column of the time, or no events.
    """
    needed = () if "resources" in content else ("columns",)
    columns = column_map(content, source, (*MAP_KEYS, "resources"), needed)
    if columns.columns:
        check_recording_map(columns, source)
    return columns


def check_recording_map(columns: ColumnMap, source: str) -> None:
    """Raise :class:`ProfileError` for a map without time or events, or with an invalid unit."""
    units = {bare_name(title): unit_of(title) for title in columns.columns}
    if columns.cycles or columns.clock:
        _check_cycles(columns, units, source)
    elif units.get(TIME) not in UNITS:
        raise ProfileError(
            f"{source}: 'time' is missing or has no known unit; a column 'time [s]', or one of "
            f"{', '.join(UNITS)} in its place, is wanted."
        )
    events = events_of(columns, list(units))
    if not events or len(units) < len(columns.columns):
        raise ProfileError(
            f"{source}: events are {', '.join(events) or 'none'}; one or more, each once, are "
            f"wanted."
        )
    for name in (*columns.totals, *columns.rates):
        if name not in events:
            raise ProfileError(f"{source}: '{name}' is no event; one of {', '.join(events)} is.")
    for name in events:
        if not 0 < factor_of(units[name], rate=name in columns.rates) < _MOST:
            raise ProfileError(
                f"{source}: the unit of '{name}' is '{units[name]}'; the number of events in it, "
                f"as 1e6, or J (W if it is a rate) or B with a prefix, is wanted."
            )


def factor_of(unit: str, *, rate: bool) -> float:
    """Events, joules or bytes in a unit of a column; NaN if it is invalid."""
    if unit in WATTS and rate:
        return WATTS[unit]
    if unit in JOULES or unit in BYTES:
        return {**JOULES, **BYTES}[unit]
    try:
        return float(unit or 1)
    except ValueError:
        return float("nan")


def events_of(columns: ColumnMap, names: Sequence[str]) -> list[str]:
    """Names of the columns that are events."""
    others = (CLOCK, PLACE) if columns.cycles else (TIME, PLACE)
    if columns.resources:
        others += (*columns.resources, "run", *RUN_COLUMNS)
    return [name for name in names if name not in others]


def _check_cycles(columns: ColumnMap, units: Mapping[str, str], source: str) -> None:
    """Refuse a time that is measured by cycles, without these or their clock."""
    if columns.cycles not in units or columns.cycles in columns.rates or TIME in units:
        there = ", ".join(events_of(columns, list(units)))
        raise ProfileError(
            f"{source}: 'cycles' is {quoted(columns.cycles)}; the name of a column of counts "
            f"({there}), and no column 'time', are wanted."
        )
    if columns.clock == CLOCK and units.get(CLOCK) in HERTZ:
        return
    if columns.clock in columns.resources and units.get(columns.clock) in HERTZ:
        return
    if not (_CLOCK_TEXT.fullmatch(columns.clock) and hertz_of(columns.clock) > 0):
        raise ProfileError(
            f"{source}: 'clock' is {quoted(columns.clock)}; a clock such as '2.4 GHz', a resource "
            f"in hertz, or 'clock' with a column 'clock [MHz]' is wanted."
        )


def hertz_of(text: str) -> float:
    """The clock [Hz] in a text such as ``2.4 GHz``."""
    found = _CLOCK_TEXT.fullmatch(text)
    assert found
    return float(found[1]) * HERTZ[found[2]]


def with_clock_of(
    columns: ColumnMap, context: Mapping[str, float], units: Mapping[str, str]
) -> ColumnMap:
    """The map with the clock of a context, where it names the resource that is the clock."""
    if columns.clock not in context or columns.clock == CLOCK:
        return columns
    return replace(columns, clock=f"{context[columns.clock]!r} {units[columns.clock]}")
