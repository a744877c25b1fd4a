"""Reader of Intel PCM, ``pcm -csv``: two header rows, counts in millions, columns per core.

The names are those of Intel's "PCM Column Names Decoder Ring".
"""

from __future__ import annotations

import os

import numpy as np

from msbgen.core.errors import ProfileError
from msbgen.data.files import path_of
from msbgen.data.tables import check_width, read_lines
from msbgen.sources.measure.readers.recording import Rows
from msbgen.sources.measure.readers.rows import joined, numbers, rows_of
from msbgen.sources.measure.readers.timestamps import times_from_timestamps

_MILLION, _GIGABYTE = 1e6, 1e9
# Columns with counts, and the events per unit.
_COUNTS = {
    "INST": _MILLION,
    "ACYC": _MILLION,
    "L3MISS": _MILLION,
    "L2MISS": _MILLION,
    "READ": _GIGABYTE,
    "WRITE": _GIGABYTE,
}
WARNINGS = (
    "PCM measures cores and sockets, not tasks: other tasks on them are counted, too; below 100 ms "
    "PCM itself is a large part.",
)


def read_pcm(path: str | os.PathLike[str], step: float | None = None) -> Rows:
    """Rows of a PCM recording, with a place for each core, each socket and the system.

    Without a column INST, the instructions are EXEC × TIME(ticks): instructions per nominal cycle
    times nominal cycles.  The sampling interval `step` [s] is required if timestamps have whole
    seconds.  ProfileError: the file cannot be read, is no PCM recording, or its timestamps are
    ambiguous.
    """
    name = path_of(path).name
    lines = read_lines(path)
    if lines and max(len(cells) for _, cells in lines) == 1:
        lines = read_lines(path, ";")
    start = next((i for i, (_, cells) in enumerate(lines) if {"Date", "Time"} <= set(cells)), None)
    if not start:
        raise ProfileError(
            f"{name}: has no two rows of headers with Date and Time; 'pcm 0.1 -csv=F' writes them."
        )
    names, groups = lines[start][1], _filled(lines[start - 1][1], len(lines[start][1]))
    body = lines[start + 1 :]
    for line, cells in body:  # the last comma may be missing
        check_width(f"{name}: line {line}", cells, len(names), least=len(names) - 1)
    numbered = [line for line, _ in body]
    stamps = [cells[names.index("Time")] for _, cells in body]
    times = times_from_timestamps(name, numbered, stamps, step)
    columns: dict[tuple[str, str], np.ndarray] = {}
    for i, (group, title) in enumerate(zip(groups, names)):
        if title in _COUNTS or title in ("EXEC", "TIME(ticks)"):
            cells = [cells[i] if i < len(cells) else "" for _, cells in body]
            if all(cell in ("", "N/A") for cell in cells):
                continue
            columns[group, title] = numbers(name, title, numbered, cells)
    return _rows(name, numbered, times, columns)


def _filled(groups: list[str], n: int) -> list[str]:
    """The upper header with a name in every column; some versions write each name once only."""
    filled: list[str] = []
    for group in [*groups, *([""] * n)][:n]:
        filled.append(group or (filled[-1] if filled else ""))
    return filled


def _rows(
    name: str, lines: list[int], times: np.ndarray, columns: dict[tuple[str, str], np.ndarray]
) -> Rows:
    """Rows with one place per group of columns."""
    ticks = next((v for (_, title), v in columns.items() if title == "TIME(ticks)"), None)
    values: dict[str, dict[str, np.ndarray]] = {}
    for (group, title), column in columns.items():
        if title in _COUNTS:
            values.setdefault(group, {})[title] = column * _COUNTS[title]
    for (group, title), column in columns.items():
        events = values.setdefault(group, {})
        if title == "EXEC" and ticks is not None and "INST" not in events:
            events["INST"] = column * ticks * _MILLION
    values = {group: events for group, events in values.items() if events}
    if not values:
        raise ProfileError(f"{name}: has no counts (INST, L3MISS, ...); measure again.")
    parts = [
        rows_of(name, lines, times, [group] * len(lines), events)
        for group, events in values.items()
    ]
    return joined(parts, tuple(f"{name}: {text}" for text in WARNINGS))
