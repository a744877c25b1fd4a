"""Tables of counts with a column map: what users write themselves, and what other tools print."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from msbgen.core.durations import UNITS
from msbgen.core.errors import ProfileError, quoted
from msbgen.data.columns import ColumnMap, Table, bare_name, column_map, unit_of
from msbgen.measure.readers.recording import Rows

# Names of columns that are no events.
_TIME, _PLACE = "time", "place"
# Keys of a column map of recordings.
MAP_KEYS = ("columns", "totals", "rates", "separator")
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
    if units.get(_TIME) not in UNITS:
        raise ProfileError(
            f"{source}: 'time' is missing or has no known unit; a column 'time [s]', or one of "
            f"{', '.join(UNITS)} in its place, is wanted."
        )
    events = [name for name in units if name not in (_TIME, _PLACE)]
    if not events or len(units) < len(columns.columns):
        raise ProfileError(
            f"{source}: events are {', '.join(events) or 'none'}; one or more, each once, are "
            f"wanted."
        )
    for name in (*columns.totals, *columns.rates):
        if name not in events:
            raise ProfileError(f"{source}: '{name}' is no event; one of {', '.join(events)} is.")
    for name in events:
        try:
            good = 0 < float(units[name] or 1) < _MOST
        except ValueError:
            good = False
        if not good:
            raise ProfileError(
                f"{source}: the unit of '{name}' is '{units[name]}'; the number of events in it, "
                f"as 1e6, is wanted."
            )


def read_table(path: str | os.PathLike[str], columns: ColumnMap) -> Rows:
    """Rows of a table whose header names the columns.

    ==================  =======================================================================
    column              meaning
    ==================  =======================================================================
    ``time [s]``        end of each bin since the start, or in another unit of time
    ``place``           optional: core or thread of the row
    any other           events in the bin; since the start where the map lists them in
                        ``totals``, per second where it lists them in ``rates``; the unit is
                        the number of events in it: ``bytes [1e6]``
    ==================  =======================================================================
    """
    check_recording_map(columns, Path(path).name)
    table = Table(path, columns)
    places = table.texts(_PLACE)
    times = table.numbers(_TIME) * UNITS[table.unit(_TIME)]
    since = _differences(times, places)
    values = {}
    for event in (name for name in table.names if name not in (_TIME, _PLACE)):
        values[event] = table.numbers(event) * float(table.unit(event) or 1)
        if event in columns.rates:
            values[event] = values[event] * since
        elif event in columns.totals:
            values[event] = _differences(values[event], places)
    return rows_of(table.file, table.lines, times, places, values)


def rows_of(
    source: str,
    lines: Sequence[int],
    times: np.ndarray,
    places: Sequence[str],
    values: Mapping[str, np.ndarray],
    warnings: tuple[str, ...] = (),
) -> Rows:
    """Rows from columns: one array (n_lines,) an event, in the order of their times."""
    order = np.argsort(times, kind="stable")
    n = len(order)
    events = list(values)
    return Rows(
        source=source,
        lines=np.repeat(np.asarray(lines, dtype=np.int64)[order], len(events)),
        times=np.repeat(times[order], len(events)),
        places=[str(places[i]) for i in order.tolist() for _ in events],
        events=events * n,
        units=[""] * (n * len(events)),
        values=np.stack([values[e][order] for e in events], axis=1).ravel() if n else np.empty(0),
        states=np.zeros(n * len(events), dtype=np.int8),
        running=np.zeros(n * len(events)),
        share=np.ones(n * len(events)),
        summary={},
        warnings=warnings,
    )


_NUMBER = re.compile(r"-?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?", re.ASCII)


def check_widths(source: str, body: Sequence[tuple[int, list[str]]], n: int, least: int) -> None:
    """Raise :class:`ProfileError` for a line with fewer than `least` or more than `n` cells."""
    for line, cells in body:
        if not least <= len(cells) <= n:
            raise ProfileError(
                f"{source}: line {line} has {len(cells)} cells, the header {n}; as many are wanted."
            )


def numbers(source: str, column: str, lines: Sequence[int], cells: Iterable[str]) -> np.ndarray:
    """Cells of a column as numbers; ProfileError, with the line, for a cell that is none."""
    values = np.empty(len(lines))
    for i, (line, cell) in enumerate(zip(lines, cells)):
        if not _NUMBER.fullmatch(cell):
            raise ProfileError(
                f"{source}: line {line}: '{column}' is {quoted(cell)}; a number is wanted."
            )
        values[i] = float(cell)
    return values


def _differences(totals: np.ndarray, places: Sequence[str]) -> np.ndarray:
    """Events, or time, since the row before of the same place."""
    before: dict[str, float] = {}
    since = np.empty(len(totals))
    for i, (total, place) in enumerate(zip(totals.tolist(), places)):
        since[i] = total - before.get(place, 0.0)
        before[place] = total
    return since
