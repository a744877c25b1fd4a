"""``pqos -u csv``: monitoring of cores, polled every 100 ms at best (``pqos/monitor_csv.c``)."""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np

from msbgen.core.errors import ProfileError
from msbgen.data.tables import read_lines
from msbgen.measure.readers.recording import Rows
from msbgen.measure.readers.table import numbers, rows_of
from msbgen.measure.readers.timestamps import times_from_timestamps

# pqos' MB are 2^20 bytes.
_MB = 2.0**20
_RATE = re.compile(r"(.*)\[MB/s\]", re.ASCII)
_COUNT = re.compile(r"LLC (?:Misses|References)(?: (?:Read|Write))?")
# One version forgets the comma before this column.
_NO_COMMA = re.compile(r"\s{2,}(?=MBL)")
_PLACES = ("Core", "PID", "Socket", "Channel")
WARNINGS = (
    "pqos measures cores, not tasks: whatever else ran there is counted, every 100 ms at best.",
)


def read_pqos(path: str | os.PathLike[str], step: float | None = None) -> Rows:
    """Rows of a recording of pqos: misses and references as counts, bandwidths as bytes.

    Occupancies and instructions a cycle are no counts and are not read.

    Parameters
    ----------
    path : str or path
    step : float, optional
        Polling interval [s]: stamps have whole seconds.

    Raises
    ------
    ProfileError
        The file cannot be read, is none of pqos, or tells too little of the times.
    """
    name = Path(path).name
    lines = read_lines(path)
    start = next((i for i, (_, cells) in enumerate(lines) if cells[:1] == ["Time"]), None)
    if start is None:
        raise ProfileError(f"{name}: has no header 'Time,Core,...'; 'pqos -u csv -o F' writes one.")
    header = [part for cell in lines[start][1] for part in _NO_COMMA.split(cell)]
    body = [(line, cells) for line, cells in lines[start + 1 :] if cells[:1] != ["Time"]]
    if not body:
        raise ProfileError(f"{name}: has a header and no rows; measure again.")
    for line, cells in body:
        if len(cells) != len(header):
            raise ProfileError(
                f"{name}: line {line} has {len(cells)} cells, the header {len(header)}; as many "
                f"are wanted."
            )
    at = [i for i, column in enumerate(header) if column in _PLACES]
    if not at:
        raise ProfileError(f"{name}: has no column Core, PID or Socket; measure again.")
    column = header.index("PID") if "PID" in header else at[0]
    places = [f"{header[column]} {cells[column]}" for _, cells in body]
    times = np.empty(len(body))
    for place in dict.fromkeys(places):
        own = [i for i, other in enumerate(places) if other == place]
        stamps = [body[i][1][0] for i in own]
        times[own] = times_from_timestamps(name, [body[i][0] for i in own], stamps, step)
    numbered = [line for line, _ in body]
    since = step if step is not None else _step(times)
    values = {}
    for i, title in enumerate(header):
        rate = _RATE.fullmatch(title)
        if not rate and not _COUNT.fullmatch(title):
            continue
        cells = [cells[i] for _, cells in body]
        if all(cell == "" for cell in cells):  # not monitored
            continue
        factor = _MB * since if rate else 1.0
        event = f"{rate[1]} bytes" if rate else title
        values[event] = numbers(name, title, numbered, cells) * factor
    if not values:
        raise ProfileError(
            f"{name}: has no counts; monitor misses or bandwidths (pqos -m all:CORE, -p all:PID)."
        )
    if len(set(places)) == 1:
        places = [""] * len(places)
    said = tuple(f"{name}: {text}" for text in WARNINGS)
    return rows_of(name, numbered, times, places, values, said)


def _step(times: np.ndarray) -> float:
    return float(np.median(np.diff(np.unique(times), prepend=0.0)))
