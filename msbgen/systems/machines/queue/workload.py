"""The standard workload format (SWF), in which clusters log their jobs: reading and writing.

A file has 18 numbers on a line for each job, −1 where unknown.  Lines that begin with a semicolon
are comments.  In Python it is a dataset over ``job`` with a variable for each field, NaN where
unknown.

Source: Chapin et al., *Benchmarks and standards for the evaluation of parallel job schedulers*,
JSSPP 1999, as the Parallel Workloads Archive keeps it (version 2.2).
"""

import math
import os
from collections.abc import Mapping

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from msbgen.core.errors import ArgumentError, ProfileError, quoted
from msbgen.data.files import check_input, read_text, replace_file
from msbgen.data.variables import Schema, Variable
from msbgen.systems.machines.queue.jobs import LONGEST, MOST_NODES, Floats, Indices, Jobs, make_jobs
from msbgen.systems.machines.queue.simulate import Schedule

JOB_LOG_SCHEMA = "msbgen-job-log/1"
# The fields in order: name, unit.
FIELDS = {
    "number": "1",
    "submission": "s",
    "wait": "s",
    "runtime": "s",
    "processors": "1",
    "cpu_time": "s",
    "memory": "KiB",
    "requested_processors": "1",
    "requested_time": "s",
    "requested_memory": "KiB",
    "status": "1",
    "user": "1",
    "group": "1",
    "application": "1",
    "queue": "1",
    "partition": "1",
    "preceding_job": "1",
    "think_time": "s",
}
# Fields that are no negative number.
_AMOUNTS = ("submission", "wait", "runtime", "processors")
SCHEMA = Schema(
    JOB_LOG_SCHEMA,
    "a log of jobs: read one of the standard workload format (msbgen.machines.queue)",
    ("job",),
    tuple(
        Variable(
            name,
            ("job",),
            unit=unit,
            least=0.0 if name in _AMOUNTS else -math.inf,
            missing="unknown",
        )
        for name, unit in FIELDS.items()
    ),
    remedy="read the log again",
)


def read_workload(path: str | os.PathLike[str]) -> xr.Dataset:
    """Log of jobs from a file, decompressed where the name ends in ``.gz``.

    Returns
    -------
    xarray.Dataset
        ``msbgen-job-log/1``: `FIELDS` over ``job``, NaN where the file has −1; the comments as
        attribute ``comments``.

    Raises
    ------
    ProfileError
        No such file, no text, no jobs, or a line that is not 18 numbers, by its number.
    """
    path = check_input(path)
    text = read_text(path)
    lines = [line.strip() for line in text.splitlines()]
    comments = [line[1:].strip() for line in lines if line.startswith(";")]
    numbered = [(i, s) for i, s in enumerate(lines, start=1) if s and not s.startswith(";")]
    if not numbered:
        raise ProfileError(f"{path.name}: there are no jobs; a line of 18 numbers each is wanted.")
    table = np.empty((len(numbered), len(FIELDS)))
    for row, (number, line) in zip(table, numbered):
        row[:] = _fields(line, f"{path.name}: line {number}")
    table[table == -1] = np.nan
    for name in _AMOUNTS:
        odd = np.flatnonzero(table[:, list(FIELDS).index(name)] < 0)
        if len(odd):
            number, line = numbered[odd[0]]
            raise ProfileError(
                f"{path.name}: line {number} has a negative {name} ({quoted(line)}); a number from "
                f"0 on, or -1 for none, is wanted."
            )
    return _dataset(dict(zip(FIELDS, table.T)), comments)


def write_workload(
    workload: xr.Dataset, path: str | os.PathLike[str], *, overwrite: bool = False
) -> None:
    """Write a log of jobs, whole or not at all.

    Errors are those of :func:`msbgen.data.files.replace_file`.
    """
    table = np.stack([np.asarray(workload[name].values, dtype=float) for name in FIELDS], axis=1)
    comments = workload.attrs.get("comments", [])
    comments = [comments] if isinstance(comments, str) else list(comments)
    lines = [f"; {line}" for line in comments]
    lines += [" ".join(map(_written, row)) for row in np.where(np.isnan(table), -1, table).tolist()]
    with replace_file(path, overwrite=overwrite) as partial:
        partial.write_text("\n".join(lines) + "\n", encoding="utf-8")


def workload_of(jobs: Jobs, schedule: Schedule, machines: Mapping[str, int]) -> xr.Dataset:
    """Log of a schedule: partitions are the machines, numbered from 1.

    Requested times are the estimates on the machine where the job ran.
    """
    rows = np.arange(len(jobs))
    order = np.argsort(jobs.submission, kind="stable")
    first = jobs.submission.min()
    fields = {name: np.full(len(jobs), np.nan) for name in FIELDS}
    fields["number"] = rows[order] + 1.0
    fields["submission"] = (jobs.submission - first)[order]
    fields["wait"] = (schedule.start - jobs.submission)[order]
    fields["runtime"] = jobs.runtime[rows, schedule.machine][order]
    fields["requested_time"] = jobs.estimate[rows, schedule.machine][order]
    fields["processors"] = fields["requested_processors"] = jobs.nodes[order].astype(float)
    fields["status"] = np.ones(len(jobs))
    fields["partition"] = schedule.machine[order] + 1.0
    comments = ["Version: 2.2", f"MaxJobs: {len(jobs)}", f"MaxNodes: {sum(machines.values())}"]
    comments += [f"Partition: {k} {name}" for k, name in enumerate(machines, start=1)]
    return _dataset(fields, comments)


def jobs_of(
    workload: xr.Dataset, times: Floats, estimates: Floats | None = None
) -> tuple[Jobs, Indices]:
    """Jobs of a log on other machines, with times relative to the logged machine, and their rows.

    `times` and `estimates`, (all jobs, machines), are relative to the logged time: true ones, NaN
    where a job does not run, and estimated ones.  By default a job's requested time is its estimate
    on the logged machine, as for the scheduler that wrote the log; its runtime where it has none.
    Jobs without a runtime or processors are left out.

    Raises
    ------
    ArgumentError
        No job has a runtime; a job, by its number, without a whole number of processors, or with
        times above the longest; or as :func:`~msbgen.systems.machines.queue.jobs.make_jobs`.
    """
    logged = np.asarray(workload["runtime"].values, dtype=float)
    allocated = np.asarray(workload["processors"].values, dtype=float)
    requested = np.asarray(workload["requested_processors"].values, dtype=float)
    nodes = np.where(np.isnan(allocated) | (allocated == 0), requested, allocated)
    submission = np.asarray(workload["submission"].values, dtype=float)
    rows = np.flatnonzero((logged > 0) & (nodes > 0) & np.isfinite(submission))
    if len(rows) == 0:
        raise ArgumentError("jobs with a runtime and processors are none; one or more is wanted.")
    seconds = logged[rows, None]
    runtime = seconds * times[rows]
    if estimates is None:
        asked = np.asarray(workload["requested_time"].values, dtype=float)[rows, None]
        estimate = np.where(asked > 0, asked, seconds) * times[rows]
    else:
        estimate = seconds * estimates[rows]
    number = np.asarray(workload["number"].values, dtype=float)[rows]
    for what, values in (("runtime", runtime), ("estimate", estimate)):
        longest = np.where(np.isnan(values), 0.0, values).max(axis=1)
        _refuse(longest > LONGEST, number, longest, what, f"{LONGEST:g} s at most")
    _refuse(submission[rows] > LONGEST, number, submission[rows], "submission",
            f"{LONGEST:g} s at most")  # fmt: skip
    wide = nodes[rows]
    _refuse((wide % 1 > 0) | (wide > MOST_NODES), number, wide, "processors",
            f"a whole number from 1 to {MOST_NODES}")  # fmt: skip
    return make_jobs(submission[rows], wide, runtime, estimate=estimate), rows


def _refuse(odd: NDArray[np.bool_], number: Floats, values: Floats, what: str, wanted: str) -> None:
    """Raise for the first invalid job, by its number in the log."""
    if odd.any():
        job = int(np.argmax(odd))
        raise ArgumentError(
            f"job number {number[job]:g} has the {what} {values[job]:g}; {wanted} is wanted: drop "
            f"or correct its line."
        )


def _dataset(fields: Mapping[str, Floats], comments: list[str]) -> xr.Dataset:
    return SCHEMA.dataset(fields, {"comments": comments})


def _fields(line: str, where: str) -> list[float]:
    cells = line.split()
    try:
        numbers = [float(cell) for cell in cells]
    except ValueError:
        numbers = []
    if len(numbers) != len(FIELDS) or not all(map(math.isfinite, numbers)):
        raise ProfileError(
            f"{where} is {quoted(line)}; {len(FIELDS)} finite numbers are wanted, -1 for what is "
            f"not known."
        )
    return numbers


def _written(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)
