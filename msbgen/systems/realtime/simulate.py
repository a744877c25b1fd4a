"""Simulation of task sets under global EDF on profiles, as labelled datasets.

The released jobs with the earliest deadlines run, one on each core, and may be preempted and moved
at no cost.  The allocator decides when other jobs run than before, and at a timer's tick when a
task has entered a new phase of its table.  Jobs then go on at the speed that their run had in the
new context.

Assumptions: deadlines are the ends of periods.  All tasks are first released together.  The jobs
of a task run in sequence, late ones to their end, and ties go to the first task.  A job finds its
caches as if it had always run in its context, and a new allocation costs nothing.  Not modelled:
interference beyond the context, cache refill, switching costs.  A simulation without a missed
deadline is no guarantee.
"""

from collections.abc import Mapping
from typing import Any, Unpack

import numpy as np
import xarray as xr

from msbgen.core.records import checks_arguments
from msbgen.systems.realtime.allocate import Allocator, Method, Objective
from msbgen.systems.realtime.edf import EdfResult, EdfSettings, simulate_decisions, simulate_edf
from msbgen.systems.realtime.tasksets import TaskSet
from msbgen.systems.realtime.truth import Truth

SCHEMA = "msbgen-schedule/1"


@checks_arguments
def simulate_task_set(
    task_set: TaskSet,
    tables: Mapping[str, xr.Dataset],
    truth: Truth,
    *,
    allocator: Method = "optimum",
    objective: Objective = "instructions",
    slack: float | None = None,
    **settings: Unpack[EdfSettings],
) -> xr.Dataset:
    """Jobs of a task set under global EDF, with allocations decided from phase tables.

    Parameters
    ----------
    tables : mapping of str to xarray.Dataset
        Phase table of each profile that a task names, from which allocations are decided.
    truth : Truth
        Times and powers of the jobs.
    allocator, objective, slack
        As `method`, `objective` and `slack` of
        :class:`~msbgen.systems.realtime.allocate.Allocator`.
    **settings
        ``horizon`` [s] (60): jobs are released before it, and all run to completion; ``timer`` [s]
        (0.005): interval at which phases are checked; ``rng`` (0): draws the run of each job, the
        same for every allocator and table.

    Returns
    -------
    xarray.Dataset
        Schema ``msbgen-schedule/1``.  Over ``job``, in order of tasks and releases:
        ``task_number``, ``run`` (that it drew), ``release``, ``deadline``, ``completion``,
        ``response_time`` [s] and ``late`` (1 where it ended after its deadline).  Over ``task``
        (names): ``period`` [s], ``misses``, ``energy``.  Attributes: ``decisions``, the number of
        decisions of the allocator; ``load``, the time until the last job ended over that until the
        last deadline.  Above 1 the cores are overloaded: responses grow with the horizon.

    Raises
    ------
    ArgumentError
        A profile without table or truth, a horizon or timer that is not positive, or what
        :class:`~msbgen.systems.realtime.allocate.Allocator` refuses.
    ProfileError
        Tables and truth are of different platforms.

    Notes
    -----
    About 0.05 s for a minute of a loaded machine of four cores.
    """
    prepared = _allocator(task_set, tables, allocator, objective, slack)
    return _labelled(task_set, simulate_edf(task_set, prepared, truth, **settings))


@checks_arguments
def timeline(
    task_set: TaskSet,
    tables: Mapping[str, xr.Dataset],
    truth: Truth,
    *,
    allocator: Method = "optimum",
    objective: Objective = "instructions",
    slack: float | None = None,
    **settings: Unpack[EdfSettings],
) -> xr.Dataset:
    """Every decision in the simulation of :func:`simulate_task_set` with the same arguments.

    Returns
    -------
    xarray.Dataset
        Over ``decision`` and ``core``: ``job``, as numbered by :func:`simulate_task_set` (NaN where
        the core is idle), and for each resource the level of the core.  Coordinate ``time`` [s].

    Raises
    ------
    ArgumentError, ProfileError
        As :func:`simulate_task_set`.
    """
    prepared = _allocator(task_set, tables, allocator, objective, slack)
    _, decisions = simulate_decisions(task_set, prepared, truth, **settings)
    levels = prepared.grid.contexts[decisions.context]
    dims = ("decision", "core")
    variables: dict[str, Any] = {
        r.name: (dims, levels[..., i], {"units": r.units, "long_name": r.long_name})
        for i, r in enumerate(prepared.grid.resources)
    }
    job = np.where(decisions.job < 0, np.nan, decisions.job)
    variables["job"] = dims, job, {"units": "1", "long_name": "job that runs"}
    time = ("decision", decisions.time, {"units": "s", "long_name": "time of the decision"})
    return xr.Dataset(variables, coords={"time": time}, attrs={"schema": SCHEMA})


def _allocator(
    task_set: TaskSet,
    tables: Mapping[str, xr.Dataset],
    method: Method,
    objective: Objective,
    slack: float | None,
) -> Allocator:
    used = {t.profile: tables[t.profile] for t in task_set.tasks if t.profile in tables}
    return Allocator(
        used or tables, task_set.capacity, task_set.cores,
        method=method, objective=objective, minima=task_set.minima, slack=slack,
    )  # fmt: skip


def _labelled(task_set: TaskSet, outcome: EdfResult) -> xr.Dataset:
    jobs = outcome.jobs
    misses = np.bincount(jobs.task[outcome.late], minlength=len(task_set.tasks))
    periods = [task.period for task in task_set.tasks]
    energy = "energy, in seconds of a busy core at the highest clock"
    columns = (
        ("job", "task_number", jobs.task, "task of the job, from 0", "1"),
        ("job", "run", jobs.run, "run of the profile that the job drew", "1"),
        ("job", "release", jobs.release, "release", "s"),
        ("job", "deadline", jobs.deadline, "deadline", "s"),
        ("job", "completion", outcome.completion, "completion", "s"),
        ("job", "response_time", outcome.completion - jobs.release, "response time", "s"),
        ("job", "late", outcome.late.astype(np.int8), "ended after its deadline", "1"),
        ("task", "period", periods, "period", "s"),
        ("task", "misses", misses, "late jobs", "1"),
        ("task", "energy", outcome.energy, energy, "s"),
    )
    variables = {
        name: (dim, values, {"units": units, "long_name": long_name})
        for dim, name, values, long_name, units in columns
    }
    names = [task.name for task in task_set.tasks]
    attrs = {"schema": SCHEMA, "cores": task_set.cores, "decisions": outcome.decisions}
    attrs["load"] = float(outcome.completion.max() / jobs.deadline.max())
    return xr.Dataset(variables, coords={"task": names}, attrs=attrs)
