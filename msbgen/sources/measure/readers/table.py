"""Tables of counts that users write themselves, read through a column map."""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from msbgen.core.durations import UNITS
from msbgen.core.errors import ProfileError
from msbgen.core.words import number_of
from msbgen.data.columns import ColumnMap, Table
from msbgen.data.schema import ENERGY_UNITS
from msbgen.data.units import HERTZ, JOULES, WATTS
from msbgen.sources.measure.readers.column_map import (
    CLOCK,
    PLACE,
    TIME,
    check_recording_map,
    events_of,
    factor_of,
    hertz_of,
)
from msbgen.sources.measure.readers.recording import Rows
from msbgen.sources.measure.readers.rows import rows_of
from msbgen.sources.measure.readers.timestamps import seconds_of_stamps

Floats = NDArray[np.float64]

# A first stamp of more bins than these is absolute, and one of more than those is doubted.
_ABSOLUTE, _LONG = 100.0, 5.0


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

    Times may be absolute: dates, times of day, seconds of an epoch or of a machine's clock.  A run
    then begins at its first row, which counts nothing, and a warning names it.

    Instead of the time, the map may name the event of the ``cycles`` and their ``clock``.  A first
    row at 0 s counts nothing: totals are relative to it.  Cells of events may be missing: counts
    and rates are NaN there, totals are interpolated.  A total that is missing at 0 s is not known
    before the first number.
    """
    table = checked_table(path, columns)
    return TableCells(table, columns).rows(np.arange(len(table.lines)), clock=columns.clock)


def checked_table(path: str | os.PathLike[str], columns: ColumnMap) -> Table:
    """The table in a file, whose columns fit the map; errors as :func:`read_table`."""
    table = Table(path, columns, needed=columns.resources)
    titles = columns.columns or {title: title for title in table.header if title}
    check_recording_map(replace(columns, columns=titles), table.file)
    return table


def times_of(table: Table) -> tuple[Floats, bool]:
    """Times of the rows [s], and whether they were dates or times of day, since the first one."""
    dated = seconds_of_stamps(table.texts(TIME))
    if dated is not None:
        return dated, True
    return table.numbers(TIME) * UNITS[table.unit(TIME)], False


class TableCells:
    """Cells of a table as numbers, of which each recording takes some rows."""

    def __init__(self, table: Table, columns: ColumnMap) -> None:
        self._table, self._columns = table, columns
        self._places = np.array(table.texts(PLACE), dtype=object)
        self._lines = np.asarray(table.lines, dtype=np.int64)
        self._events = events_of(columns, table.names)
        self._cells = {
            name: table.numbers(name, empty=name != columns.cycles) for name in self._events
        }
        if not columns.cycles:
            self._times, self._dated = times_of(table)

    @np.errstate(over="ignore", invalid="ignore")  # refused where it matters
    def rows(self, at: NDArray[np.int64], *, clock: str, source: str = "") -> Rows:
        """The rows of a recording, `at` these rows of the table; `clock` is that of its cycles.

        `source` is the recording in messages, the file by default.
        """
        table, columns = self._table, self._columns
        absolute, doubts = False, ()
        if columns.cycles:
            since = self._seconds_of_cycles(at, clock)
            times = _sums(since, self._places[at])
        else:
            at = at[np.argsort(self._times[at], kind="stable")]
            times, absolute, doubts = self._since_start(self._times[at])
            since = _differences(times, self._places[at])
        places = self._places[at]
        values, units, absent, lost, filled = {}, {}, [], {}, {}
        for event in self._events:
            unit, rate = table.unit(event), event in columns.rates
            cells = self._cells[event][at] * factor_of(unit, rate=rate)
            for row in np.flatnonzero(np.isinf(cells * since if rate else cells))[:1].tolist():
                table.refuse(event, int(at[row]), "a count of fewer digits is wanted")
            if np.isnan(cells).all():
                absent.append(event)
                continue
            empty = int(np.isnan(cells).sum())
            if event in columns.totals:
                cells = _completed(cells, times, places)
            lost[event] = int(np.isnan(cells).sum())
            filled[event] = empty - lost[event]
            if rate:
                cells = cells * since
            elif event in columns.totals:
                cells = _differences(cells, places)
            for row in np.flatnonzero((times == 0) & (np.abs(cells) > 0))[:1].tolist():
                if event not in columns.totals and not absolute:
                    wanted = "ends of bins as times, or no count at 0 s, are wanted"
                    table.refuse(event, int(at[row]), wanted)
            values[event] = cells
            if unit in JOULES or unit in WATTS:
                units[event] = ENERGY_UNITS
        if not values:
            raise ProfileError(f"{table.file}: no event has a number in a run; measure again.")
        later = times != 0
        values = {event: cells[later] for event, cells in values.items()}
        return rows_of(
            source or table.file, self._lines[at][later].tolist(), times[later],
            places[later].tolist(), values, (*doubts, *self._warnings(lost, filled, absent)), units,
        )  # fmt: skip

    def _since_start(self, times: Floats) -> tuple[Floats, bool, tuple[str, ...]]:
        """Sorted times since the start of their run, whether they were absolute, and warnings."""
        stamps = np.unique(times)
        if stamps.size < 2 or not np.isfinite(stamps).all():
            return times, False, ()
        bins = float(np.median(np.diff(stamps)))
        absolute = self._dated or stamps[0] > _ABSOLUTE * bins
        if absolute:
            first = "" if self._dated else f", from {stamps[0]:.10g} s"
            doubt = (
                f"times are absolute{first}: the run begins at its first row, whose counts are "
                f"left out"
            )
        elif stamps[0] > _LONG * bins:
            doubt = (
                f"the first bin is {stamps[0]:.4g} s long, the others {bins:.4g} s; times since "
                f"the start of the run are wanted"
            )
        else:
            return times, False, ()
        return times - stamps[0] * absolute, absolute, (f"{self._table.file}: {doubt}.",)

    def _warnings(
        self, lost: dict[str, int], filled: dict[str, int], absent: list[str]
    ) -> tuple[str, ...]:
        """Sentences about empty cells, by event: how many are gaps, and how many were filled."""
        file = self._table.file
        sentences = []
        for empty, result in (
            (lost, "counts are missing there, as gaps"),
            (filled, "totals were interpolated there"),
        ):
            if n := sum(empty.values()):
                events = ", ".join(event for event in empty if empty[event])
                cells = f"{number_of(n, 'cell')} of {events}"
                sentences.append(f"{file}: {cells} {'is' if n == 1 else 'are'} empty: {result}.")
        if absent:
            sentences.append(
                f"{file}: {', '.join(absent)} has no number in the run: it was not counted there."
            )
        return tuple(sentences)

    def _seconds_of_cycles(self, at: NDArray[np.int64], clock: str) -> Floats:
        """Duration of each row [s]: its cycles over their clock."""
        table, columns = self._table, self._columns
        cycles = self._cells[columns.cycles][at] * factor_of(table.unit(columns.cycles), rate=False)
        total = columns.cycles in columns.totals
        if total:
            cycles = _differences(cycles, self._places[at])
        if clock == CLOCK:
            of_rows = table.range(CLOCK, 1e-9, 1e15, "a clock above 0 is wanted")[at]
            hertz: Floats | float = of_rows * HERTZ[table.unit(CLOCK)]
        else:
            hertz = hertz_of(clock)
        for row in np.flatnonzero(cycles <= 0)[:1].tolist():
            wanted = "more cycles than in the row before" if total else "cycles above 0"
            table.refuse(columns.cycles, int(at[row]), f"{wanted} are wanted")
        return np.asarray(cycles / hertz)


def _sums(since: Floats, places: NDArray[np.object_]) -> Floats:
    """Sums of the rows so far of the same place."""
    total: dict[str, float] = {}
    sums = np.empty(len(since))
    for i, (step, place) in enumerate(zip(since.tolist(), places)):
        sums[i] = total[place] = total.get(place, 0.0) + step
    return sums


def _differences(totals: Floats, places: NDArray[np.object_]) -> Floats:
    """Events, or time, since the row before of the same place."""
    before: dict[str, float] = {}
    since = np.empty(len(totals))
    for i, (total, place) in enumerate(zip(totals.tolist(), places)):
        since[i] = total - before.get(place, 0.0)
        before[place] = total
    return since


def _completed(totals: Floats, times: Floats, places: NDArray[np.object_]) -> Floats:
    """Totals with those interpolated that are missing; NaN where none is known on one side.

    Totals of a place begin at 0, unless it has a row at 0 s.
    """
    found = totals.copy()
    for place in dict.fromkeys(places.tolist()):
        at = np.flatnonzero(places == place)
        known = at[np.isfinite(totals[at])]
        if 0 < len(known) < len(at):
            knots, levels = times[known], totals[known]
            if not (times[at] == 0).any():
                knots, levels = np.append(0.0, knots), np.append(0.0, levels)
            unknown = at[np.isnan(totals[at])]
            found[unknown] = np.interp(times[unknown], knots, levels, left=np.nan, right=np.nan)
    return found
