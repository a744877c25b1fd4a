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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np

from msbgen.core.errors import ArgumentError, ProfileError
from msbgen.core.records import Listed, Name, record
from msbgen.data.toml import read_toml
from msbgen.systems.machines.queue.compare import AS_SUBMITTED, Arrival
from msbgen.systems.machines.queue.jobs import Jobs, MachineNodes, too_large
from msbgen.systems.machines.queue.simulate import PLACEMENTS, Placement, Queue
from msbgen.systems.machines.queue.tables import read_factors, read_job_table
from msbgen.systems.machines.queue.workload import jobs_of, read_workload


@dataclass(frozen=True)
class ScenarioFile:
    """The keys of a scenario's file; `jobs` and the three below it name files."""

    machines: Annotated[MachineNodes, Listed()]
    arrivals: Annotated[tuple[Arrival, ...], Listed(distinct=True)] = (AS_SUBMITTED,)
    placements: Annotated[tuple[Placement, ...], Listed(distinct=True)] = PLACEMENTS
    queues: Annotated[tuple[Queue, ...], Listed(distinct=True)] = ("machine",)
    jobs: Name | None = None
    workload: Name | None = None
    relative: Name | None = None
    predicted: Name | None = None

    def __post_init__(self) -> None:
        if (self.jobs is None) == (self.workload is None):
            raise ArgumentError("either 'jobs' or 'workload' is wanted, a file.")
        if self.jobs and (self.relative or self.predicted):
            raise ArgumentError(
                "'relative' and 'predicted' go with 'workload'; 'jobs' has the times of every "
                "machine itself."
            )
        if self.workload and self.relative is None:
            raise ArgumentError(
                "'relative' is missing; a table of the times on every machine relative to the "
                "logged ones is wanted."
            )

    @property
    def files(self) -> list[str]:
        """Names of the files."""
        return [name for name in (self.jobs, self.workload, self.relative, self.predicted) if name]


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
    folder, content = _content(path)
    return [folder / name for name in content.files]


def read_scenario(path: str | os.PathLike[str]) -> Scenario:
    """Scenario from a TOML file and the files that it names, relative to its folder.

    Raises
    ------
    ProfileError
        No such file, no TOML, an unknown key, placement or queue, invalid jobs, by their line, or
        a job that is larger than every machine on which it runs.
    """
    folder, content = _content(path)
    machines = content.machines
    if content.jobs is not None:
        jobs = read_job_table(folder / content.jobs, machines)
    else:
        jobs = _logged([folder / name for name in content.files], machines)
    return Scenario(machines, jobs, content.arrivals, content.placements, content.queues)


def _content(path: str | os.PathLike[str]) -> tuple[Path, ScenarioFile]:
    """The folder and the keys of a scenario's file."""
    path, content = read_toml(path)
    return path.parent, record(ScenarioFile, content, path.name)


def _logged(files: Sequence[Path], machines: Mapping[str, int]) -> Jobs:
    """Jobs of a log, from its file and those of times relative to it: true and estimated ones."""
    log, *tables = files
    workload = read_workload(log)
    application = np.asarray(workload["application"].values, dtype=float)
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
