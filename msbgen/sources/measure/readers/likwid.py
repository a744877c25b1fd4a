"""Reader of the timeline that ``likwid-perfctr -t`` writes to stderr, among the program's lines.

A row has group, number of events, number of CPUs, time, and for each event the counts of all CPUs
(likwid-perfctr(1), "timeline mode").  ``# CORES:`` and a header of names come before the rows.
"""

from __future__ import annotations

import os
import re

import numpy as np

from msbgen.core.errors import ProfileError, quoted
from msbgen.data.files import check_input
from msbgen.sources.measure.readers.recording import Rows
from msbgen.sources.measure.readers.rows import rows_of

_CORES = re.compile(r"^#\s*(?:CORES|HWThreads)\s*[:,]\s*(\d+(?:[|, ]\d+)*)", re.I | re.ASCII)
_HEADER = re.compile(r"^#\s*GID([|,; ])(Events?Count|MetricsCount)\1CpuCount\1(.*)$", re.ASCII)
_ROW = re.compile(r"^\d{1,9}([ ,|])\d{1,9}\1\d{1,9}\1\d+(?:\.\d+)?(?:e[-+]?\d+)?\1", re.ASCII)
_NUMBER = re.compile(r"-?\d+(?:\.\d*)?(?:e[-+]?\d+)?", re.ASCII | re.I)
# Cells of a CPU where an event is not counted because another CPU counts it for the socket.
_NOT_HERE = ("-", "nan", "-nan")
WARNINGS = (
    "likwid measures CPUs, not tasks: other tasks on them are counted, too; below 100 ms its "
    "counts are too high (its manual).",
)


def read_likwid(path: str | os.PathLike[str]) -> Rows:
    """Rows of a likwid timeline of events; the program's lines are skipped.

    ProfileError: the file cannot be read, has no header or rows, has metrics instead of events, or
    a row is cut.
    """
    path = check_input(path)
    lines = path.read_bytes().decode("utf-8", "replace").splitlines()
    header = next(filter(None, map(_HEADER.match, lines)), None)
    if header is None:
        raise ProfileError(
            f"{path.name}: has no header '# GID...'; the stderr of 'likwid-perfctr -t 100ms -g "
            f"EVENT:COUNTER,... -C CPU' is wanted."
        )
    if header[2] == "MetricsCount":
        raise ProfileError(
            f"{path.name}: shows metrics of a group; record events (-g EVENT:COUNTER,...)."
        )
    names = [name.strip() for name in header[3].split(header[1])][1:]
    cores = next(filter(None, map(_CORES.match, lines)), None)
    listed = re.split(r"[|, ]", cores[1]) if cores else []
    numbers, times, places, table = [], [], [], []
    for number, line in enumerate(lines, 1):
        row = _ROW.match(line)
        if not row:
            continue
        cells = line.strip().split(row[1])
        n_cpus = int(cells[2])
        if int(cells[1]) != len(names) or len(cells) != 4 + n_cpus * len(names) or not n_cpus:
            raise ProfileError(
                f"{path.name}: line {number} has {len(cells)} cells where {len(names)} events of "
                f"{n_cpus} CPUs want {4 + n_cpus * len(names)}; measure again."
            )
        odd = [c for c in cells[4:] if c not in _NOT_HERE and not _NUMBER.fullmatch(c)]
        if odd:
            raise ProfileError(
                f"{path.name}: line {number} holds {quoted(odd[0])}; a number is wanted."
            )
        cpus = listed if len(listed) == n_cpus else list(map(str, range(n_cpus)))
        for i, cpu in enumerate(cpus):
            numbers.append(number)
            times.append(float(cells[3]))
            places.append(f"CPU{cpu}" if n_cpus > 1 else "")
            counts = cells[4 + i :: n_cpus]
            table.append([0.0 if cell in _NOT_HERE else float(cell) for cell in counts])
    if not table:
        raise ProfileError(f"{path.name}: has a header and no rows; measure again.")
    columns = dict(zip(names, np.array(table).T))
    if len(columns) < len(names):
        raise ProfileError(f"{path.name}: lists an event twice; name each once.")
    return rows_of(
        path.name, numbers, np.array(times), places, columns,
        tuple(f"{path.name}: {text}" for text in WARNINGS),
    )  # fmt: skip
