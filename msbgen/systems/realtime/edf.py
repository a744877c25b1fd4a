"""Global earliest deadline first (EDF) of periodic tasks, on arrays of jobs."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

import msbgen.systems.realtime._kernels as _kernels
from msbgen.core.draws import generator
from msbgen.core.errors import ArgumentError
from msbgen.core.records import Seconds, checks_arguments
from msbgen.systems.phases.grid import Floats, Indices
from msbgen.systems.realtime.allocate import Allocator
from msbgen.systems.realtime.tasksets import TaskSet
from msbgen.systems.realtime.truth import Truth

# Interval at which the phases of running tasks are checked [s].
TIMER = 0.005
# Most jobs of a simulation; they take half a gigabyte.
MOST_JOBS = 10_000_000
# An overload beyond this is a mistake where it also takes more timer intervals than this.
_MOST_LOAD, _MOST_TICKS = 10.0, 2_000_000


class EdfSettings(TypedDict, total=False):
    """Keywords of :func:`simulate_edf`: times [s], and what draws the runs."""

    horizon: float
    timer: float
    rng: np.random.Generator | int


@dataclass(frozen=True, eq=False)
class JobReleases:
    """The jobs of a task set, in order of tasks and releases."""

    task: Indices  # (jobs,)
    first: Indices  # (tasks + 1,), first job of each task, then the number of jobs
    # (jobs,), [s]
    release: Floats
    deadline: Floats
    run: Indices  # (jobs,), run of its profile that each job draws

    @classmethod
    def of(
        cls, task_set: TaskSet, horizon: float, runs: int, rng: np.random.Generator | int
    ) -> JobReleases:
        """Jobs released before `horizon` [s]; :class:`ArgumentError` for more than `MOST_JOBS`.

        The k-th job of the i-th task draws the same run for all periods.
        """
        period = np.array([task.period for task in task_set.tasks])
        with np.errstate(over="ignore"):
            released = np.maximum(np.ceil(horizon / period * (1 - 1e-12)), 1.0)
            total = released.sum()
        if total > MOST_JOBS:
            shortest = task_set.tasks[int(np.argmin(period))]
            raise ArgumentError(
                f"jobs are {total:.3g} until {horizon:g} s, most of '{shortest.name}' with a "
                f"period of {shortest.period:g} s; at most {MOST_JOBS} are wanted: shorten the "
                f"horizon."
            )
        number = released.astype(np.int64)
        seeds = generator(rng).integers(2**63, size=len(period))
        drawn = [np.random.default_rng(s).integers(runs, size=n) for s, n in zip(seeds, number)]
        index = np.concatenate([np.arange(n) for n in number])
        task = np.repeat(np.arange(len(period)), number)
        first = np.concatenate([[0], np.cumsum(number)])
        periods = period[task]
        return cls(task, first, index * periods, (index + 1) * periods, np.concatenate(drawn))


@dataclass(frozen=True, eq=False)
class EdfResult:
    """Completion of the jobs, and energy.

    Attributes
    ----------
    completion : ndarray, (jobs,)
        [s]
    energy : ndarray, (tasks,)
        Dynamic energy, in seconds of a core that never stalls at the highest clock.
    decisions : int
        Number of decisions of the allocator.
    """

    jobs: JobReleases
    completion: Floats
    energy: Floats
    decisions: int

    @cached_property
    def ratio(self) -> Floats:
        """Response time over deadline, (jobs,)."""
        jobs = self.jobs
        return (self.completion - jobs.release) / (jobs.deadline - jobs.release)

    @property
    def late(self) -> NDArray[np.bool_]:
        """Whether each job ended after its deadline, (jobs,)."""
        return self.ratio > 1.0 + _kernels.LATE


@dataclass(frozen=True, eq=False)
class Decisions:
    """Decisions of the allocator."""

    time: Floats  # (decisions,), [s]
    job: Indices  # (decisions, cores), -1 where a core is idle
    context: NDArray[np.int32]  # (decisions, cores), number of the context in the grid


def simulate_edf(
    task_set: TaskSet, allocator: Allocator, truth: Truth, **settings: Unpack[EdfSettings]
) -> EdfResult:
    """Result of a task set when every job released before `horizon` [s] has ended.

    Parameters
    ----------
    allocator : Allocator
        For the cores of the set and every profile that its tasks name.
    truth : Truth
        Times and powers of the jobs, on the allocator's platform.
    **settings
        ``horizon`` (60 s), ``timer`` (0.005 s) and ``rng`` (0), which draws the run of each job.

    Raises
    ------
    ArgumentError
        A horizon or timer that is not positive, a profile without table or truth, other cores,
        more jobs than memory could hold.
    ProfileError
        Tables and truth are of different platforms.
    """
    return _simulate_edf(task_set, allocator, truth, **settings)[0]


def meets_deadlines(
    task_set: TaskSet, allocator: Allocator, truth: Truth, **settings: Unpack[EdfSettings]
) -> bool:
    """Whether no job of :func:`simulate_edf` is late; stops at the first late job."""
    return _simulate_edf(task_set, allocator, truth, **settings, stop=True)[1] == 0


def simulate_decisions(
    task_set: TaskSet, allocator: Allocator, truth: Truth, **settings: Unpack[EdfSettings]
) -> tuple[EdfResult, Decisions]:
    """Result as of :func:`simulate_edf`, and every decision."""
    outcome, _, _ = _simulate_edf(task_set, allocator, truth, **settings)
    outcome, _, kept = _simulate_edf(task_set, allocator, truth, **settings, keep=outcome.decisions)
    return outcome, kept


@checks_arguments
def _simulate_edf(
    task_set: TaskSet,
    allocator: Allocator,
    truth: Truth,
    *,
    horizon: Seconds = 60.0,
    timer: Seconds = TIMER,
    rng: np.random.Generator | int = 0,
    stop: bool = False,
    keep: int = 0,
) -> tuple[EdfResult, int, Decisions]:
    """Result, number of late jobs, the first `keep` decisions."""
    if allocator.cores != task_set.cores:
        raise ArgumentError(
            f"cores are {task_set.cores} of the task set, {allocator.cores} of the allocator; one "
            f"number is wanted."
        )
    allocator.grid.check_same(truth.grid, "the tables", "the truth")
    for task in task_set.tasks:
        for names, what in ((allocator.tasks, "phase table"), (truth.profiles, "truth")):
            if task.profile not in names:
                raise ArgumentError(
                    f"task '{task.name}' runs '{task.profile}', of which there is no {what}; one "
                    f"of {', '.join(names)} is wanted."
                )
    jobs = JobReleases.of(task_set, horizon, truth.seconds.shape[1], rng)
    names = [task.profile for task in task_set.tasks]
    profile = np.array([truth.profiles.index(name) for name in names])
    if not stop:
        _check_load(jobs, truth.seconds[profile], task_set.cores, timer)
    table = np.array([allocator.tasks.index(name) for name in names])
    phases, prepared = allocator.prepared()
    completion = np.full(len(jobs.task), np.inf)
    energy = np.zeros(len(names))
    counters = np.zeros(3, dtype=np.int64)
    log = (
        np.empty(keep),
        np.full((keep, task_set.cores), -1, dtype=np.int64),
        np.zeros((keep, task_set.cores), dtype=np.int32),
    )
    period = np.array([task.period for task in task_set.tasks])
    _simulate_interruptibly(
        (period, profile, table, jobs.first, jobs.run), (truth.seconds, truth.power), phases,
        prepared, (float(timer), stop), (completion, energy, counters), log,
    )  # fmt: skip
    outcome = EdfResult(jobs, completion, energy, int(counters[0]))
    return outcome, int(counters[1]), Decisions(*log)


def _check_load(jobs: JobReleases, seconds: NDArray[np.float32], cores: int, timer: float) -> None:
    """Refuse a long simulation of a set that is overloaded even in its fastest contexts.

    `seconds` has the times of each task, (tasks, runs, contexts, stretches).
    """
    fastest = seconds.sum(axis=3, dtype=float).min(axis=2)
    least = float(fastest[jobs.task, jobs.run].sum()) / cores
    load = least / float(jobs.deadline.max())
    if load > _MOST_LOAD and least > _MOST_TICKS * timer:
        raise ArgumentError(
            f"{len(jobs.task)} jobs take {least:.3g} s or longer on {cores} cores, {load:.3g} "
            f"times the time until the last deadline; longer periods or more cores are wanted."
        )


def _simulate_interruptibly(*arguments: Any) -> None:
    """Simulate in a second thread, so that the main one can handle signals."""
    *_, (_, _, counters), _ = arguments
    counters[2] = 1
    # stops at once: compiles in this thread, as compilation cannot be interrupted
    _kernels.simulate_edf(*arguments)
    counters[2] = 0
    with ThreadPoolExecutor(1) as pool:
        simulation = pool.submit(_kernels.simulate_edf, *arguments)
        try:
            simulation.result()
        except BaseException:
            counters[2] = 1
            raise
