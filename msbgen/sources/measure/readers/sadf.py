"""Reader of sysstat, ``sadf -d``: one table for each kind of statistics, with semicolons.

Rates (``pgpgin/s``) become events of each interval, percentages (``%user``) the seconds that they
are of it, and levels (``kbmemused``) their sum over time.
"""

from __future__ import annotations

import os

import numpy as np

from msbgen.core.errors import ProfileError, quoted
from msbgen.data.files import path_of
from msbgen.data.tables import check_width, read_lines
from msbgen.sources.measure.readers.recording import Rows
from msbgen.sources.measure.readers.rows import joined, numbers, rows_of

_HEADER = ("# hostname", "interval", "timestamp")
# Columns that name a device.
_DEVICES = ("CPU", "DEV", "IFACE", "INTR", "TTY", "BUS", "FAN", "TEMP", "IN", "FILESYSTEM")
_DEVICES += ("MOUNTPOINT", "FCHOST", "HCA")
_EVERY_CPU = "-1"
WARNINGS = (
    "sar measures the machine, not a task: other tasks are counted, too, every second at best.",
)


def read_sadf(path: str | os.PathLike[str]) -> Rows:
    """Rows of what ``sadf -d`` prints, with a place for each CPU or device.

    The times are sums of the intervals.  The mean of all CPUs is left out where single CPUs are
    there.  Tables whose header stands for any number of columns, as ``INTR;CPU*``, are left out,
    with a warning, and a mark of a start before the first record is skipped.  ProfileError: the
    file cannot be read, is no output of ``sadf -d``, or the machine was started again meanwhile.
    """
    name = path_of(path).name
    tables: dict[tuple[str, ...], list[tuple[int, list[str]]]] = {}
    header: tuple[str, ...] = ()
    left_out: set[str] = set()
    for line, cells in read_lines(path, ";"):
        if cells[0].startswith("#"):
            header = tuple(cells)
            if header[:3] != _HEADER or len(header) < 4:
                header = ()
        if not tables and _is_restart(cells):
            continue
        if not header:
            raise ProfileError(
                f"{name}: line {line} is no header '{';'.join(_HEADER)};...' and stands below "
                f"none; what 'sadf -d FILE' prints is wanted."
            )
        if header[-1].endswith("*"):
            left_out.add(";".join(header[3:]))
        elif not cells[0].startswith("#"):
            tables.setdefault(header, []).append((line, cells))
    parts = [part for title, body in tables.items() for part in _table(name, title, body)]
    if not parts:
        raise ProfileError(f"{name}: has no rows of numbers; record with 'sar -o FILE 1'.")
    warnings = [
        *WARNINGS,
        *(f"table {quoted(titles)} was left out." for titles in sorted(left_out)),
    ]
    return joined(parts, tuple(f"{name}: {text}" for text in warnings))


def _is_restart(cells: list[str]) -> bool:
    """Whether a line marks that the machine was started."""
    return len(cells) >= 4 and ("LINUX-RESTART" in cells[3] or cells[1] == "-1")


def _table(name: str, header: tuple[str, ...], body: list[tuple[int, list[str]]]) -> list[Rows]:
    """Rows of one kind of statistics, device by device."""
    for line, cells in body:
        if len(cells) < 4:  # of a restart there are as many, of a record as in the header
            check_width(f"{name}: line {line}", cells, len(header))
        if _is_restart(cells):
            raise ProfileError(
                f"{name}: line {line}: the machine was started again; cut the recording before it."
            )
    for line, cells in body:
        check_width(f"{name}: line {line}", cells, len(header))
    devices = [i for i, title in enumerate(header) if title in _DEVICES]
    of_all = [cells for _, cells in body if "CPU" in header]
    at = header.index("CPU") if "CPU" in header else 0
    if any(cells[at] != _EVERY_CPU for cells in of_all):
        body = [(line, cells) for line, cells in body if cells[at] != _EVERY_CPU]
    places: dict[str, list[tuple[int, list[str]]]] = {}
    for line, cells in body:
        place = " ".join(f"{header[i]} {cells[i]}" for i in devices)
        places.setdefault(place, []).append((line, cells))
    titles = [(i, title) for i, title in enumerate(header[3:], 3) if i not in devices]
    parts = []
    for place, rows in places.items():
        lines = [line for line, _ in rows]
        interval = numbers(name, "interval", lines, [cells[1] for _, cells in rows])
        for row in np.flatnonzero(interval <= 0)[:1].tolist():
            raise ProfileError(
                f"{name}: line {lines[row]}: 'interval' is {interval[row]:g}; seconds above 0 are "
                f"wanted."
            )
        values, units = {}, {}
        for i, title in titles:
            amounts = numbers(name, title, lines, [cells[i] for _, cells in rows]) * interval
            if title.endswith("/s"):
                event = title.removesuffix("/s")
            elif title.startswith("%"):
                event, amounts = title.removeprefix("%"), amounts / 100
                units[event] = "s"
            else:
                event = title
                units[event] = f"{title} s"
            values[event] = amounts
        shown = place if len(places) > 1 else ""
        parts.append(
            rows_of(name, lines, np.cumsum(interval), [shown] * len(rows), values, (), units)
        )
    return parts
