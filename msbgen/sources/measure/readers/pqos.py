"""Reader of ``pqos -u csv``: monitoring of cores every 100 ms or more (``pqos/monitor_csv.c``)."""

from __future__ import annotations

import os
import re

import numpy as np

from msbgen.core.errors import ProfileError
from msbgen.data.files import path_of
from msbgen.data.tables import check_width, read_lines
from msbgen.sources.measure.readers.recording import Rows
from msbgen.sources.measure.readers.rows import numbers, rows_of
from msbgen.sources.measure.readers.timestamps import times_from_timestamps

# pqos uses MB for 2^20 bytes.
_MB = 2.0**20
_RATE = re.compile(r"(.*)\[MB/s\]", re.ASCII)
_COUNT = re.compile(r"LLC (?:Misses|References)(?: (?:Read|Write))?")
# One version omits the comma before this column.
_NO_COMMA = re.compile(r"\s{2,}(?=MBL)")
_PLACES = ("Core", "PID", "Socket", "Channel")
WARNINGS = (
    "pqos measures cores, not tasks: other tasks on them are counted, too, every 100 ms at best.",
)


def read_pqos(path: str | os.PathLike[str], step: float | None = None) -> Rows:
    """Rows of a pqos recording: misses and references as counts, bandwidths as bytes.

    Occupancies and instructions per cycle are not read, because they are no counts.  The polling
    interval `step` [s] is needed where timestamps, which have whole seconds, are equal.
    ProfileError: the file cannot be read, is no pqos recording, or its timestamps are ambiguous.
    """
    name = path_of(path).name
    lines = read_lines(path)
    start = next((i for i, (_, cells) in enumerate(lines) if cells[:1] == ["Time"]), None)
    if start is None:
        raise ProfileError(f"{name}: has no header 'Time,Core,...'; 'pqos -u csv -o F' writes one.")
    header = [part for cell in lines[start][1] for part in _NO_COMMA.split(cell)]
    body = [(line, cells) for line, cells in lines[start + 1 :] if cells[:1] != ["Time"]]
    if not body:
        raise ProfileError(f"{name}: has a header and no rows; measure again.")
    for line, cells in body:
        check_width(f"{name}: line {line}", cells, len(header))
    at = [i for i, column in enumerate(header) if column in _PLACES]
    if not at:
        raise ProfileError(f"{name}: has no column Core, PID or Socket; measure again.")
    column = header.index("PID") if "PID" in header else at[0]
    places = [f"{header[column]} {cells[column]}" for _, cells in body]
    times = np.empty(len(body))
    for place in dict.fromkeys(places):
        rows = [i for i, other in enumerate(places) if other == place]
        stamps = [body[i][1][0] for i in rows]
        times[rows] = times_from_timestamps(name, [body[i][0] for i in rows], stamps, step)
    numbered = [line for line, _ in body]
    seconds = step if step is not None else _step(times)
    values = {}
    for i, title in enumerate(header):
        rate = _RATE.fullmatch(title)
        if not rate and not _COUNT.fullmatch(title):
            continue
        cells = [cells[i] for _, cells in body]
        if all(cell == "" for cell in cells):  # not monitored
            continue
        factor = _MB * seconds if rate else 1.0
        event = f"{rate[1]} bytes" if rate else title
        values[event] = numbers(name, title, numbered, cells) * factor
    if not values:
        raise ProfileError(
            f"{name}: has no counts; monitor misses or bandwidths (pqos -m all:CORE, -p all:PID)."
        )
    if len(set(places)) == 1:
        places = [""] * len(places)
    warnings = tuple(f"{name}: {text}" for text in WARNINGS)
    return rows_of(name, numbered, times, places, values, warnings)


def _step(times: np.ndarray) -> float:
    return float(np.median(np.diff(np.unique(times), prepend=0.0)))
