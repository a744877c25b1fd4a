"""Tables of jobs, and of applications' times on machines relative to a log, as CSV.

A table of jobs has columns ``submission [s]``, ``nodes``, for every machine ``runtime NAME [s]``
and, where estimates differ, ``estimate NAME [s]``; a cell is empty where a job does not run.
A column ``suits`` may list machines, separated by ``|``, for placement ``user``.

A table of applications has columns ``application`` and the names of the machines.  Its row ``*``
holds for all applications without a row.
"""

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from msbgen.core.durations import UNITS
from msbgen.core.errors import ArgumentError, ProfileError, quoted
from msbgen.data.files import path_of
from msbgen.data.tables import check_width, read_lines
from msbgen.systems.machines.queue.jobs import (
    LONGEST,
    MOST_NODES,
    Floats,
    Jobs,
    make_jobs,
    too_large,
)

_OTHERS = "*"


def read_job_table(path: str | os.PathLike[str], machines: Mapping[str, int]) -> Jobs:
    """Jobs from a CSV file with the columns above.

    Raises
    ------
    ProfileError
        No such file, another header, no unit, a cell that is no number, a job that is larger than
        every machine on which it runs; by its line.
    """
    path = path_of(path)
    lines = read_lines(path)
    if len(lines) < 2:
        raise ProfileError(f"{path.name}: a header and one job or more below it are wanted.")
    header = lines[0][1]
    columns = {_bare(cell): i for i, cell in enumerate(header)}
    estimated = any(bare.startswith("estimate ") for bare in columns)
    timed = [f"{what} {m}" for what in ("runtime", "estimate")[: 1 + estimated] for m in machines]
    known = {"submission", "nodes", "suits", *timed}
    for bare in ["submission", "nodes", *timed]:
        if bare not in columns:
            raise ProfileError(
                f"{path.name}: line {lines[0][0]} has no column '{bare}"
                f"{'' if bare == 'nodes' else ' [s]'}'; one is wanted."
            )
    odd = next((cell for cell in header if _bare(cell) not in known), None)
    if odd is not None or len(columns) < len(header):
        raise ProfileError(
            f"{path.name}: line {lines[0][0]} has the column '{odd or header[-1]}', which is not "
            f"known or there twice; submission, nodes, suits, and runtime and estimate of "
            f"{', '.join(machines)} are wanted."
        )
    scale = {bare: _scale(header[columns[bare]], path) for bare in ("submission", *timed)}
    table = np.empty((len(lines) - 1, 2 + len(timed)))
    suits = np.ones((len(table), len(machines)), dtype=bool)
    for row, suited, (line, cells) in zip(table, suits, lines[1:]):
        where = f"{path.name}: line {line}"
        check_width(where, cells, len(header))
        row[0] = scale["submission"] * _finite(cells[columns["submission"]], "submission", where)
        row[1] = _finite(cells[columns["nodes"]], "nodes", where)
        if not 1 <= row[1] <= MOST_NODES or row[1] != row[1] // 1:
            raise ProfileError(
                f"{where} has {row[1]:g} nodes; a whole number from 1 to {MOST_NODES} is wanted."
            )
        for k, bare in enumerate(timed, start=2):
            cell = cells[columns[bare]]
            row[k] = scale[bare] * _positive(cell, bare, where) if cell else np.nan
        for bare, seconds in zip(("submission", *timed), np.delete(row, 1)):
            if abs(seconds) > LONGEST:
                raise ProfileError(
                    f"{where} has a {bare} of {seconds:g} s; {LONGEST:g} at most are wanted."
                )
        if np.isnan(row[2 : 2 + len(machines)]).all():
            raise ProfileError(f"{where} runs on no machine; the time on one or more is wanted.")
        if estimated:
            _check_estimated(row[2:].reshape(2, -1), [*machines], where)
        if "suits" in columns and cells[columns["suits"]]:
            suited[:] = _suits(cells[columns["suits"]], [*machines], where)
            if np.isnan(row[2 : 2 + len(machines)][suited]).all():
                raise ProfileError(
                    f"{where} suits no machine on which it runs; one or more is wanted."
                )
    m = len(machines)
    runtime, estimate = table[:, 2 : 2 + m], table[:, 2 + m :] if estimated else None
    try:
        jobs = make_jobs(table[:, 0], table[:, 1], runtime, estimate=estimate, suits=suits)
    except ArgumentError as error:  # a job is a line; what they have in common is not of one
        raise ProfileError(f"{path.name}: {error}") from None
    for job, most in too_large(jobs, machines):
        raise ProfileError(
            f"{path.name}: line {lines[1 + job][0]} has {jobs.nodes[job]} nodes, and no machine on "
            f"which it runs has more than {most}; drop it or give a larger machine."
        )
    return jobs


def _check_estimated(times: Floats, machines: list[str], where: str) -> None:
    """Refuse a job, (2, machines), without an estimate where it runs."""
    lost = np.flatnonzero(~np.isnan(times[0]) & np.isnan(times[1]))
    if len(lost):
        raise ProfileError(
            f"{where} has no estimate on {machines[lost[0]]}, where it runs; a positive number is "
            f"wanted."
        )


def _suits(cell: str, machines: list[str], where: str) -> list[bool]:
    names = [part.strip() for part in cell.split("|")]
    odd = next((n for n in names if n not in machines), None)
    if odd is not None:
        raise ProfileError(f"{where} suits '{odd}'; machines, {', '.join(machines)}, are wanted.")
    return [machine in names for machine in machines]


def _bare(cell: str) -> str:
    return " ".join(cell.partition("[")[0].split())


def _scale(cell: str, path: Path) -> float:
    unit = cell.partition("[")[2].rstrip("] ").strip()
    if unit not in UNITS:
        raise ProfileError(
            f"{path.name}: column '{cell}' has no unit that is known; '{_bare(cell)} [s]', or one "
            f"of {', '.join(UNITS)} in its place, is wanted."
        )
    return UNITS[unit]


def _finite(text: str, what: str, where: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = np.nan
    if not np.isfinite(value):
        raise ProfileError(f"{where} has the {what} '{text}'; a number is wanted.")
    return value


def _positive(text: str, what: str, where: str) -> float:
    value = _finite(text, what, where)
    if value <= 0:
        raise ProfileError(
            f"{where} has the {what} '{text}'; a positive number is wanted, or an empty cell where "
            f"it does not run."
        )
    return value


def read_factors(path: Path, application: Floats, machines: list[str], log: str) -> Floats:
    """Relative times of every job of a log, (jobs, machines), from a table by application.

    Raises
    ------
    ProfileError
        No such file, another header, a cell that is no number, an application that has no row.
    """
    lines = read_lines(path)
    header = lines[0][1] if lines else []
    if sorted(header) != sorted(["application", *machines]):
        raise ProfileError(
            f"{path.name}: line 1 is {quoted(','.join(header))}; the columns "
            f"'{','.join(['application', *machines])}' are wanted."
        )
    rows: dict[float | str, Floats] = {}
    for line, cells in lines[1:]:
        where = f"{path.name}: line {line}"
        check_width(where, cells, len(header))
        values = dict(zip(header, cells))
        named = values["application"]
        key = _OTHERS if named == _OTHERS else _finite(named, "application", where)
        if key in rows:
            raise ProfileError(f"{where} repeats application '{named}'; drop one.")
        rows[key] = np.array(
            [_positive(values[m], f"time on {m}", where) if values[m] else np.nan for m in machines]
        )
        if np.isnan(rows[key]).all():
            raise ProfileError(f"{where} runs on no machine; the time on one or more is wanted.")
    factors = np.full((len(application), len(machines)), np.nan)
    for number in np.unique(application):
        row = rows.get(float(number), rows.get(_OTHERS))
        if row is None:
            shown = "none" if np.isnan(number) else f"{number:g}"
            raise ProfileError(
                f"{path.name}: has no row for application {shown} of '{log}'; one is wanted, or a "
                f"row '{_OTHERS}' for all others."
            )
        factors[np.isnan(application) if np.isnan(number) else application == number] = row
    return factors
