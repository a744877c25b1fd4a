"""Tables of counts with a column map: what users write themselves, and what other tools print."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from msbgen.core.errors import ArgumentError, ProfileError
from msbgen.data.tables import read_lines
from msbgen.measure.readers.recording import Rows

_NUMBER = re.compile(r"-?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?", re.ASCII)
# No unit of a column is as large.
_MOST = 1e18
# Characters of a cell that a sentence shows.
_SHOWN = 40


@dataclass(frozen=True)
class ColumnMap:
    """What the columns of a table are.

    Attributes
    ----------
    time : str
        Column of the end of each bin since the start.
    counts, totals, rates : mapping of event to column
        Events since the row before; since the start; a second.
    factors : mapping of event to float
        Events in one of the column's units; 1 where an event is not listed.
    place : str, optional
        Column of the core or thread that a row is of.
    seconds : float
        Seconds in a unit of the time.
    separator : str
    """

    time: str
    counts: Mapping[str, str] = field(default_factory=dict)
    totals: Mapping[str, str] = field(default_factory=dict)
    rates: Mapping[str, str] = field(default_factory=dict)
    factors: Mapping[str, float] = field(default_factory=dict)
    place: str | None = None
    seconds: float = 1.0
    separator: str = ","

    def __post_init__(self) -> None:
        if not 0 < self.seconds < _MOST:
            raise ArgumentError(f"seconds is {self.seconds}; a positive number is wanted.")
        events = [*self.counts, *self.totals, *self.rates]
        if not events or len(set(events)) < len(events):
            raise ArgumentError(
                f"events are {', '.join(events) or 'none'}; one or more, each once, are wanted."
            )
        for name, factor in self.factors.items():
            if name not in events or not 0 < factor < _MOST:
                raise ArgumentError(
                    f"factor of '{name}' is {factor}; a positive one of {', '.join(events)} is "
                    f"wanted."
                )
        if len(self.separator) != 1 or self.separator in '\r\n"':
            raise ArgumentError(f"separator is {self.separator!r}; one character is wanted.")


def column_map(given: Mapping[str, Any], source: str) -> ColumnMap:
    """A column map from the table of a TOML file.

    Raises
    ------
    ProfileError
        A key that is unknown, missing or of another type, or a value that is refused.
    """
    texts = {"time": str, "place": str, "separator": str, "seconds": (int, float)}
    tables = {"counts": str, "totals": str, "rates": str, "factors": (int, float)}
    for key, value in given.items():
        if key not in {**texts, **tables}:
            near = difflib.get_close_matches(key, [*texts, *tables], 1)
            hint = f"'{near[0]}'" if near else ", ".join([*texts, *tables])
            raise ProfileError(f"{source}: '{key}' is no part of a column map; {hint} is wanted.")
        good = isinstance(value, texts[key]) if key in texts else isinstance(value, Mapping)
        if key in tables and good:
            good = all(isinstance(v, tables[key]) and v is not True for v in value.values())
        if not good or isinstance(value, bool):
            raise ProfileError(
                f"{source}: '{key}' is {str(value)[:_SHOWN]!r}; "
                + ("a table of names is wanted." if key in tables else "a value is wanted.")
            )
    if "time" not in given:
        raise ProfileError(f"{source}: 'time' is missing; the column of the time is wanted.")
    try:
        return ColumnMap(**given)
    except ArgumentError as error:
        raise ProfileError(f"{source}: {error}") from None


def read_table(path: str | os.PathLike[str], columns: ColumnMap) -> Rows:
    """Rows of a table whose header names the columns.

    Raises
    ------
    ProfileError
        The file cannot be read, a column is missing, a cell is no number.
    """
    name = Path(path).name
    (_, header), *body = read_lines(path, columns.separator) or [(1, [])]
    kinds = {"counts": columns.counts, "totals": columns.totals, "rates": columns.rates}
    wanted = {event: column for group in kinds.values() for event, column in group.items()}
    needed = [columns.time, *wanted.values(), *([columns.place] if columns.place else [])]
    for column in needed:
        if header.count(column) != 1:
            near = difflib.get_close_matches(column, header, 1)
            there = near[0] if near else ", ".join(header)
            state = "stands twice" if column in header else "is missing"
            raise ProfileError(
                f"{name}: column '{column}' {state} in the header, which has {there[:200]!r}; "
                f"one is wanted."
            )
    for line, cells in body:
        if len(cells) != len(header):
            raise ProfileError(
                f"{name}: line {line} has {len(cells)} cells, the header {len(header)}; as many "
                f"are wanted."
            )
    lines = [line for line, _ in body]
    place = header.index(columns.place) if columns.place else None
    places = [cells[place] if place is not None else "" for _, cells in body]
    at = header.index(columns.time)
    times = numbers(name, columns.time, lines, (cells[at] for _, cells in body)) * columns.seconds
    values = {}
    for event, column in wanted.items():
        at = header.index(column)
        values[event] = numbers(name, column, lines, (cells[at] for _, cells in body))
        values[event] = values[event] * columns.factors.get(event, 1.0)
    since = _since_before(times, places)
    for event in columns.rates:
        values[event] = values[event] * since
    for event in columns.totals:
        values[event] = _differences(values[event], places)
    return rows_of(name, lines, times, places, values)


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


def numbers(source: str, column: str, lines: Sequence[int], cells: Iterable[str]) -> np.ndarray:
    """Cells of a column as numbers.

    Raises
    ------
    ProfileError
        A cell that is none, by its line.
    """
    values = np.empty(len(lines))
    for i, (line, cell) in enumerate(zip(lines, cells)):
        if not _NUMBER.fullmatch(cell):
            raise ProfileError(
                f"{source}: line {line}: '{column}' is {cell[:_SHOWN]!r}; a number is wanted."
            )
        values[i] = float(cell)
    return values


def _since_before(times: np.ndarray, places: Sequence[str]) -> np.ndarray:
    """Time since the row before of the same place [s]."""
    before: dict[str, float] = {}
    since = np.empty(len(times))
    for i, (time, place) in enumerate(zip(times.tolist(), places)):
        since[i] = time - before.get(place, 0.0)
        before[place] = time
    return since


def _differences(totals: np.ndarray, places: Sequence[str]) -> np.ndarray:
    """Events since the row before of the same place."""
    return _since_before(totals, places)
