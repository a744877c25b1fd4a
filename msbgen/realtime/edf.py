"""Global earliest deadline first of periodic tasks, on arrays: jobs, their runs, how they end."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

import msbgen.realtime._kernels as _kernels
from msbgen.core.errors import ArgumentError
from msbgen.phases.grid import Floats, Indices, is_number
from msbgen.realtime.allocate import Allocator
from msbgen.realtime.tasksets import TaskSet
from msbgen.realtime.truth import Truth

# How often a running task is asked for its phase [s].
TIMER = 0.005
# Jobs that are played at most: half a gigabyte of them.
MOST_JOBS = 10_000_000


@dataclass(frozen=True, eq=False)
class Jobs:
    """The jobs of a task set, in order of tasks and releases.

    Attributes
    ----------
    task : ndarray of int, (jobs,)
    first : ndarray of int, (tasks + 1,)
        First job of each task, and the number of all.
    release, deadline : ndarray, (jobs,)
        [s]
    run : ndarray of int, (jobs,)
        Which run of its profile each job draws.
    """

    task: Indices
    first: Indices
    release: Floats
    deadline: Floats
    run: Indices

    @classmethod
    def of(
        cls, task_set: TaskSet, horizon: float, runs: int, rng: np.random.Generator | int
    ) -> Jobs:
        """Jobs released before `horizon` [s].

        The k-th job of the i-th task draws the same run whatever the periods are.

        Raises
        ------
        ArgumentError
            They are more than `MOST_JOBS`.
        """
        period = np.array([task.period for task in task_set.tasks])
        with np.errstate(over="ignore"):
            released = np.maximum(np.ceil(horizon / period * (1 - 1e-12)), 1.0)
            total = released.sum()
        if total > MOST_JOBS:
            most = task_set.tasks[int(np.argmin(period))]
            raise ArgumentError(
                f"jobs are {total:.3g} until {horizon:g} s, most of them of '{most.name}' with a "
                f"period of {most.period:g} s; at most {MOST_JOBS} are wanted: shorten the horizon."
            )
        number = released.astype(np.int64)
        seeds = np.random.default_rng(rng).integers(2**63, size=len(period))
        drawn = [np.random.default_rng(s).integers(runs, size=n) for s, n in zip(seeds, number)]
        index = np.concatenate([np.arange(n) for n in number])
        task = np.repeat(np.arange(len(period)), number)
        first = np.concatenate([[0], np.cumsum(number)])
        each = period[task]
        return cls(task, first, index * each, (index + 1) * each, np.concatenate(drawn))


@dataclass(frozen=True, eq=False)
class Outcome:
    """What became of the jobs.

    Attributes
    ----------
    jobs : Jobs
    completion : ndarray, (jobs,)
        [s]
    energy : ndarray, (tasks,)
        Dynamic energy, in seconds of a core that never stalls at the highest clock.
    decisions : int
        How often the allocator was asked.
    """

    jobs: Jobs
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
        """Which jobs ended after their deadline, (jobs,)."""
        return self.ratio > 1.0 + _kernels.LATE


@dataclass(frozen=True, eq=False)
class Decisions:
    """What the allocator decided, and when.

    Attributes
    ----------
    time : ndarray, (decisions,)
        [s]
    job : ndarray of int, (decisions, cores)
        -1 where a core is idle.
    context : ndarray of int, (decisions, cores)
        Number of the context in the grid.
    """

    time: Floats
    job: Indices
    context: NDArray[np.int32]


def play(
    task_set: TaskSet,
    allocator: Allocator,
    truth: Truth,
    *,
    horizon: float = 60.0,
    timer: float = TIMER,
    rng: np.random.Generator | int = 0,
) -> Outcome:
    """Play a task set until every job released before `horizon` [s] is done.

    Parameters
    ----------
    task_set : TaskSet
    allocator : Allocator
        Prepared for the cores of the set and for every profile that a task names.
    truth : Truth
        What jobs do; of the allocator's platform.
    horizon, timer : float
        [s]
    rng : numpy.random.Generator or int
        Draws the run of each job.

    Raises
    ------
    ArgumentError
        A horizon or timer that is not positive, a profile without table or truth, other cores,
        more jobs than memory could hold.
    ProfileError
        Tables and truth are of different platforms.
    """
    return _play(task_set, allocator, truth, horizon, timer, rng)[0]


def holds(
    task_set: TaskSet,
    allocator: Allocator,
    truth: Truth,
    *,
    horizon: float = 60.0,
    timer: float = TIMER,
    rng: np.random.Generator | int = 0,
) -> bool:
    """Whether no job of :func:`play` is late; stops at the first that is."""
    return _play(task_set, allocator, truth, horizon, timer, rng, stop=True)[1] == 0


def play_decisions(
    task_set: TaskSet,
    allocator: Allocator,
    truth: Truth,
    *,
    horizon: float = 60.0,
    timer: float = TIMER,
    rng: np.random.Generator | int = 0,
) -> tuple[Outcome, Decisions]:
    """Do as :func:`play` does, keeping every decision."""
    outcome, _, _ = _play(task_set, allocator, truth, horizon, timer, rng)
    outcome, _, kept = _play(
        task_set, allocator, truth, horizon, timer, rng, keep=outcome.decisions
    )
    return outcome, kept


def _play(
    task_set: TaskSet,
    allocator: Allocator,
    truth: Truth,
    horizon: float,
    timer: float,
    rng: np.random.Generator | int,
    stop: bool = False,
    keep: int = 0,
) -> tuple[Outcome, int, Decisions]:
    """Outcome, number of late jobs, the first `keep` decisions."""
    for name, value in (("horizon", horizon), ("timer", timer)):
        if not is_number(value) or not 0 < value < np.inf:
            raise ArgumentError(f"{name} is {value}; a positive number of seconds is wanted.")
    if allocator.cores != task_set.cores:
        raise ArgumentError(
            f"cores are {task_set.cores} of the task set, {allocator.cores} of the allocator; one "
            f"number is wanted."
        )
    allocator.grid.check_same(truth.grid, "the tables", "the truth")
    for task in task_set.tasks:
        for held, what in ((allocator.tasks, "phase table"), (truth.profiles, "truth")):
            if task.profile not in held:
                raise ArgumentError(
                    f"task '{task.name}' runs '{task.profile}', of which there is no {what}; one "
                    f"of {', '.join(held)} is wanted."
                )
    jobs = Jobs.of(task_set, horizon, truth.seconds.shape[1], rng)
    names = [task.profile for task in task_set.tasks]
    profile = np.array([truth.profiles.index(name) for name in names])
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
    _play_interruptibly(
        (period, profile, table, jobs.first, jobs.run),
        (truth.seconds, truth.power),
        phases,
        prepared,
        (float(timer), stop),
        (completion, energy, counters),
        log,
    )
    outcome = Outcome(jobs, completion, energy, int(counters[0]))
    return outcome, int(counters[1]), Decisions(*log)


def _play_interruptibly(*arguments: Any) -> None:
    """Play in a thread of its own: signals arrive in the main one, which must not be busy then."""
    *_, (_, _, counters), _ = arguments
    counters[2] = 1
    _kernels.play(*arguments)  # over at once: compiles, which no other thread could be told to end
    counters[2] = 0
    with ThreadPoolExecutor(1) as pool:
        game = pool.submit(_kernels.play, *arguments)
        try:
            game.result()
        except BaseException:
            counters[2] = 1
            raise
