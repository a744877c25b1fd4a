"""Times of workloads on several machines, as people write them: a matrix, or one row a time."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from msbgen.core.durations import UNITS
from msbgen.core.errors import ProfileError
from msbgen.data.files import check_input
from msbgen.sources.timings.tables import (
    Title,
    cells_of,
    header_line,
    numbers_of,
    seconds_of,
    table_of,
    time_columns,
    title_of,
)

# Names of the column of what ran, and of what it ran on.
_WORKLOADS = (
    "workload", "benchmark", "program", "kernel", "application", "app", "task", "test", "code",
    "binary", "job", "name",
)  # fmt: skip
_MACHINES = (
    "platform", "machine", "system", "host", "device", "computer", "node", "cpu", "gpu", "board",
    "server", "instance", "architecture", "arch",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Matrix:
    """Times of n runs: the workload and the machine of each.

    `taken` has sentences: what was taken for what, and what was left out.
    """

    source: str
    workloads: tuple[str, ...]  # (n,)
    machines: tuple[str, ...]  # (n,)
    seconds: NDArray[np.float64]  # (n,)
    taken: tuple[str, ...]


def is_matrix(path: str | os.PathLike[str], own: tuple[str, ...]) -> bool:
    """Whether a table has other headers than a reader's `own`, and is one of this module."""
    header = header_line(check_input(path))
    names = [title_of(cell).name for cell in header]
    if len(set(own) & set(names)) > 1 or "beside" in names:
        return False
    return len(header) > 1 and (names[0] in _WORKLOADS or any(n in _MACHINES for n in names))


def read_matrix(path: str | os.PathLike[str]) -> Matrix:
    """Times in a table: workloads × machines, or a row a time with a column of each.

    Empty cells of a matrix are runs that were not measured.  Rows of a long table are repeated for
    repeated runs.

    ProfileError: the file cannot be read; no column names workloads or machines; or a cell is no
    positive time, with its line.
    """
    path = check_input(path)
    table, lines = table_of(path)
    titles = {header: title_of(header) for header in table.columns}
    words = [h for h in titles if numbers_of(cells_of(table, h)) is None]
    machines = [h for h in titles if titles[h].name in _MACHINES]
    if machines and (timed := time_columns({h: titles[h] for h in titles if h not in words})):
        return _long(path.name, table, lines, titles, words, machines[0], timed)
    first, *columns = titles
    odd = [h for h in columns if h in words]
    if not columns or odd:
        state = f"{', '.join(odd)} hold words" if odd else "there is one column"
        raise ProfileError(
            f"{path.name}: {state}; names of workloads in the first column and a column of times "
            f"for each machine are wanted, or columns 'workload', 'machine' and 'time [s]'."
        )
    unit = titles[first].unit if titles[first].unit in UNITS else ""
    parts, names, where = [], [], []
    for header in columns:
        title = titles[header]
        own = title if title.unit in UNITS else title_of(f"time [{unit or 's'}]")
        seconds = seconds_of(path.name, cells_of(table, header), lines, own, header)
        there = np.isfinite(seconds)
        parts.append(seconds[there])
        names += [str(name) for name in cells_of(table, first)[there]]
        where += [header] * int(there.sum())
    doubt = "" if unit or any(titles[h].unit in UNITS for h in columns) else ", no unit is named"
    taken = [f"workloads: {first!r}; machines: {', '.join(columns)}; times [{unit or 's'}]{doubt}"]
    empty = len(table) * len(columns) - len(where)
    if empty:
        taken.append(f"{empty} of {len(table) * len(columns)} cells are empty: not measured")
    return Matrix(path.name, tuple(names), tuple(where), np.concatenate(parts), tuple(taken))


def _long(
    file: str,
    table: pd.DataFrame,
    lines: NDArray[np.int64],
    titles: Mapping[str, Title],
    words: Sequence[str],
    machine: str,
    timed: Sequence[str],
) -> Matrix:
    """Times of a table with a row for each."""
    named = [h for h in words if titles[h].name in _WORKLOADS and h != machine]
    named = named or [h for h in words if h != machine]
    if not named or len(timed) > 1:
        wanted = "one column of workloads and one of times are wanted"
        raise ProfileError(f"{file}: has the columns {', '.join(titles)}; {wanted}.")
    seconds = seconds_of(file, cells_of(table, timed[0]), lines, titles[timed[0]])
    there = np.isfinite(seconds)
    rest = [h for h in titles if h not in (named[0], machine, timed[0])]
    unit = titles[timed[0]].unit or "s"
    taken = [f"workloads: {named[0]!r}; machines: {machine!r}; time [{unit}]: {timed[0]!r}"]
    if rest:
        taken.append(f"left out: {', '.join(map(repr, rest))}")
    return Matrix(
        file,
        tuple(map(str, cells_of(table, named[0])[there])),
        tuple(map(str, cells_of(table, machine)[there])),
        seconds[there],
        tuple(taken),
    )
