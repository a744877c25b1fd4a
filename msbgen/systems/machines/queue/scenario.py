"""Scenarios as TOML files: machines, jobs, and the placements to compare.

    arrivals = ["as submitted", "at once", 0.95]   # loads are numbers
    placements = ["aware", "greedy"]               # default: all
    queues = ["machine", "one"]                    # default: ["machine"], a queue each
    jobs = "jobs.csv"

    [machines]                                     # nodes of each
    fast = 200
    slow = 100

The tables are those of :mod:`msbgen.machines.queue.tables`.  Jobs may also come from the log of
another machine:

    workload = "log.swf"                           # standard workload format, also .swf.gz
    relative = "relative.csv"                      # times relative to the log
    predicted = "predicted.csv"                    # estimates, if they differ
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import numpy as np

from msbgen.core.errors import ArgumentError, ProfileError, quoted
from msbgen.data.toml import amount, check_keys, name, read_toml, whole
from msbgen.systems.machines.queue.compare import AS_SUBMITTED, AT_ONCE, Arrival
from msbgen.systems.machines.queue.jobs import Jobs, check_nodes, too_large
from msbgen.systems.machines.queue.simulate import (
    PLACEMENTS,
    Placement,
    Queue,
    check_placement,
    check_queue,
)
from msbgen.systems.machines.queue.tables import read_factors, read_job_table
from msbgen.systems.machines.queue.workload import jobs_of, read_workload

# Keys that name files.
_FILES = ("jobs", "workload", "relative", "predicted")
_KEYS = ("arrivals", "placements", "queues", "machines", *_FILES)
# Lists that a scenario may leave out.
_DEFAULTS = {"placements": list(PLACEMENTS), "queues": ["machine"], "arrivals": [AS_SUBMITTED]}


@dataclass(frozen=True, eq=False)
class Scenario:
    """Simulations to run.

    Attributes
    ----------
    machines : dict of str to int
        Nodes of each.
    arrivals : tuple of str or float
        ``as submitted``, ``at once``, or a load.
    """

    machines: dict[str, int]
    jobs: Jobs
    arrivals: tuple[Arrival, ...]
    placements: tuple[Placement, ...]
    queues: tuple[Queue, ...]


def scenario_files(path: str | os.PathLike[str]) -> list[Path]:
    """Paths of the files that a scenario names; errors as :func:`read_scenario`."""
    path, content = _content(path)
    return [path.parent / name(content, key, path.name) for key in _FILES if key in content]


def read_scenario(path: str | os.PathLike[str]) -> Scenario:
    """Scenario from a TOML file and the files that it names, relative to its folder.

    Raises
    ------
    ProfileError
        No such file, no TOML, an unknown key, placement or queue, invalid jobs, by their line, or
        a job that is larger than every machine on which it runs.
    """
    path, content = _content(path)
    where = path.name
    try:
        machines = _machines(content["machines"], where)
        check_nodes(machines)
        placements: tuple[Placement, ...] = tuple(
            check_placement(p) for p in _listed(content, "placements", where)
        )
        queues: tuple[Queue, ...] = tuple(check_queue(q) for q in _listed(content, "queues", where))
        arrivals: tuple[Arrival, ...] = tuple(
            _arrival(a, where) for a in _listed(content, "arrivals", where)
        )
        if "jobs" in content:
            jobs = read_job_table(path.parent / name(content, "jobs", where), machines)
        else:
            jobs = _logged(path, content, machines)
    except ArgumentError as error:
        raise ProfileError(f"{where}: {error}") from None
    return Scenario(machines, jobs, arrivals, placements, queues)


def _content(path: str | os.PathLike[str]) -> tuple[Path, dict[str, Any]]:
    path, content = read_toml(path)
    check_keys(content, _KEYS, ("machines",), path.name)
    if ("jobs" in content) == ("workload" in content):
        raise ProfileError(f"{path.name}: either 'jobs' or 'workload' is wanted, a file.")
    if "jobs" in content and {"relative", "predicted"} & content.keys():
        raise ProfileError(
            f"{path.name}: 'relative' and 'predicted' go with 'workload'; 'jobs' has the times of "
            f"every machine itself."
        )
    if "workload" in content and "relative" not in content:
        raise ProfileError(
            f"{path.name}: 'relative' is missing; a table of the times on every machine relative "
            f"to the logged ones is wanted."
        )
    return path, content


def _listed(content: Mapping[str, Any], key: str, where: str) -> list[Any]:
    values = content.get(key, _DEFAULTS[key])
    if not isinstance(values, list) or not values:
        raise ProfileError(
            f"{where}: '{key}' is {quoted(values)}; a list of one or more is wanted."
        )
    twice = [value for i, value in enumerate(values) if value in values[:i]]
    if twice:
        raise ProfileError(f"{where}: '{key}' lists {quoted(twice[0])} twice; once is wanted.")
    return values


def _arrival(value: Any, where: str) -> Arrival:
    if isinstance(value, str):
        if value not in get_args(get_args(Arrival)[0]):
            raise ProfileError(
                f"{where}: 'arrivals' lists {quoted(value)}; '{AS_SUBMITTED}', '{AT_ONCE}' or a "
                f"load above 0 is wanted."
            )
        return AT_ONCE if value == AT_ONCE else AS_SUBMITTED
    load = amount(value, "arrivals", where)
    if not 0 < load < np.inf:
        raise ProfileError(f"{where}: 'arrivals' lists {quoted(value)}; a load above 0 is wanted.")
    return load


def _machines(table: Any, where: str) -> dict[str, int]:
    if not isinstance(table, dict) or not table:
        raise ProfileError(
            f"{where}: 'machines' is {quoted(table)}; a table of their nodes is wanted."
        )
    return {str(n): whole(v, f"machines.{n}", where) for n, v in table.items()}


def _logged(path: Path, content: Mapping[str, Any], machines: Mapping[str, int]) -> Jobs:
    log = path.parent / name(content, "workload", path.name)
    workload = read_workload(log)
    application = np.asarray(workload["application"].values, dtype=float)
    tables = [
        path.parent / name(content, key, path.name)
        for key in ("relative", "predicted")
        if key in content
    ]
    factors = [read_factors(table, application, [*machines], log.name) for table in tables]
    lost = np.argwhere(~np.isnan(factors[0]) & np.isnan(factors[-1]))
    if len(lost):
        row, machine = lost[0]
        raise ProfileError(
            f"{tables[-1].name}: application {application[row]:g} has no time on "
            f"{[*machines][machine]}, where it runs by {tables[0].name}; one is wanted."
        )
    try:
        jobs, rows = jobs_of(workload, *factors)
    except ArgumentError as error:
        raise ProfileError(f"{log.name}: {error}") from None
    for job, most in too_large(jobs, machines):
        raise ProfileError(
            f"{log.name}: job number {workload['number'].values[rows[job]]:g} takes "
            f"{jobs.nodes[job]} nodes, and no machine on which it runs has more than {most}; drop "
            f"it or give a larger machine."
        )
    return jobs
