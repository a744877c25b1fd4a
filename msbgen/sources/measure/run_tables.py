"""Tables with the recordings of all contexts: columns have the context and run of each row."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from msbgen.core.durations import UNITS
from msbgen.core.errors import ProfileError
from msbgen.data.columns import ColumnMap, Table
from msbgen.data.schema import COMPLETE, STARTED, one_spelling
from msbgen.sources.measure.manifest import Entry, Manifest, check_resources
from msbgen.sources.measure.readers.column_map import PLACE, RUN_COLUMNS, TIME, with_clock_of
from msbgen.sources.measure.readers.formats import RecordingReader
from msbgen.sources.measure.readers.recording import Recording
from msbgen.sources.measure.readers.table import TableCells, checked_table, times_of

_RUN = "run"
_TIMES = ("duration", "cpu_time", STARTED)


def read_run_tables(
    paths: Sequence[str | os.PathLike[str]], reader: RecordingReader
) -> tuple[Manifest, list[Recording]]:
    """All runs of tables, as a manifest and the recordings of its entries.

    The reader's column map names the `resources`; its other columns are as in
    :func:`msbgen.measure.readers.table.read_table`.  Rows of one context and one value of the
    column ``run``, a number or a name, are one run; it may be left out where each context has one
    run whose rows have times.  The columns ``duration``,
    ``complete``, ``cpu_time``, ``load``, ``steal`` and ``started`` are as in a manifest, with one
    value in all rows of a run.  Runs in different files are different ones.

    ProfileError: a file is no such table, the files have resources in other units, or a value
    differs within a run.
    """
    assert reader.columns is not None
    entries: list[Entry] = []
    recordings: list[Recording] = []
    units: dict[str, str] = {}
    for path in map(Path, paths):
        table = checked_table(path, reader.columns)
        check_resources(table.file, reader.columns.resources)
        own = {name: table.unit(name) or "1" for name in reader.columns.resources}
        for name, unit in own.items():
            if units.setdefault(name, unit) != unit:
                raise ProfileError(
                    f"{table.file}: '{name}' is in '{unit}', in {Path(paths[0]).name} in "
                    f"'{units[name]}'; one unit is wanted."
                )
        cells = TableCells(table, reader.columns)
        for entry, at, name in _runs(table, path, reader.columns):
            clock = with_clock_of(reader.columns, entry.context, own).clock
            recordings.append(reader.assemble(cells.rows(at, clock=clock, source=name)))
            entries.append(entry)
    resources = {name: {"units": unit} for name, unit in units.items()}
    return Manifest(tuple(entries), resources), recordings


def _runs(
    table: Table, path: Path, columns: ColumnMap
) -> Iterator[tuple[Entry, NDArray[np.int64], str]]:
    """Entry, rows in the table and name in messages of each run, by first rows."""
    names = columns.resources
    levels = one_spelling(np.stack([table.numbers(name) for name in names], axis=1))
    runs = table.texts(_RUN)
    _, context = np.unique(levels, axis=0, return_inverse=True)
    _, run = np.unique(np.array(runs, dtype=str), return_inverse=True)
    _, first, group = np.unique(
        context.ravel() * (run.max() + 1) + run, return_index=True, return_inverse=True
    )
    rows = np.split(np.argsort(group, kind="stable"), np.cumsum(np.bincount(group))[:-1])
    known = {name: _of_rows(table, name) for name in RUN_COLUMNS if name in table.names}
    if _RUN not in table.names:
        _check_single(table, columns, group)
    for i in np.argsort(first).tolist():
        at = rows[i]
        metadata = _of_run(table, known, at)
        of = levels[at[0]].tolist()
        name = " ".join(f"{name}={level:g}" for name, level in zip(names, of))
        name += f" run={runs[at[0]]}" if runs[at[0]] else ""
        yield Entry(path, dict(zip(names, of)), {}, metadata), at, f"{table.file} ({name})"


def _of_run(
    table: Table, known: Mapping[str, NDArray[np.float64]], at: NDArray[np.int64]
) -> dict[str, float]:
    """Values about a run, which all of its rows have; none where they are missing."""
    found = {}
    for name, values in known.items():
        own = values[at]
        differs = np.flatnonzero((own != own[0]) & ~(np.isnan(own) & np.isnan(own[0])))
        if differs.size:
            wanted = f"the {name} of line {table.lines[at[0]]}, of the same run, is wanted"
            table.refuse(name, int(at[differs[0]]), wanted)
        if np.isfinite(own[0]):
            found[name] = float(own[0])
    if found.get("duration", 1.0) <= 0:
        table.refuse("duration", int(at[0]), "a time above 0 is wanted")
    if found.get(COMPLETE, 1.0) not in (0.0, 1.0):
        table.refuse(COMPLETE, int(at[0]), "1, or 0 for a run that was cut, is wanted")
    return found


def _of_rows(table: Table, name: str) -> NDArray[np.float64]:
    """Values of a column about runs, times in seconds; NaN where one is missing."""
    values = table.numbers(name, empty=True)
    unit = table.unit(name)
    wanted = [*UNITS] if name in _TIMES else ["1"]
    if unit and unit not in wanted:
        raise ProfileError(
            f"{table.file}: '{name}' is in '{unit}'; one of {', '.join(wanted)} is wanted."
        )
    return values * (UNITS[unit or "s"] if name in _TIMES else 1.0)


def _check_single(table: Table, columns: ColumnMap, context: NDArray[np.int64]) -> None:
    """Refuse a table without runs whose contexts may have several: times go back, or are none."""
    if columns.cycles:
        raise ProfileError(
            f"{table.file}: cycles do not tell where a run begins; a column 'run' that "
            f"distinguishes the runs of a context is wanted."
        )
    before: dict[tuple[int, str], tuple[float, int]] = {}
    rows = zip(times_of(table)[0].tolist(), context.tolist(), table.texts(PLACE))
    for row, (time, of, place) in enumerate(rows):
        last, line = before.get((of, place), (-np.inf, 0))
        if time <= last:
            wanted = (
                f"a later one than in line {line}, of the same context, or a column 'run' that "
                f"distinguishes its runs, is wanted"
            )
            table.refuse(TIME, row, wanted)
        before[of, place] = time, table.lines[row]
