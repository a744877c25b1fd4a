"""Measures of a schedule: makespan for operators, slowdown for users."""

from collections.abc import Mapping

import numpy as np

from msbgen.core.records import Seconds, checks_arguments
from msbgen.systems.machines.queue.jobs import Floats, Jobs, where_jobs_fit
from msbgen.systems.machines.queue.simulate import Schedule

# Runs shorter than this count as this long [s].
TAU = 10.0


def makespan(jobs: Jobs, schedule: Schedule) -> float:
    """Time from the first submission to the last end [s]."""
    return float(schedule.end.max() - jobs.submission.min())


def bounded_slowdown(jobs: Jobs, schedule: Schedule, *, tau: float = TAU) -> Floats:
    """Bounded slowdown of each job, (jobs,): max(1, (wait + t) / max(t, τ)).

    t is the time on the machine where the job ran.  A job that starts at once on a slow machine
    has slowdown 1: see :func:`slowdown_against_fastest`.

    Raises
    ------
    ArgumentError
        `tau` is no positive number.
    """
    runtime = schedule.end - schedule.start
    return _bounded(schedule.end - jobs.submission, runtime, tau)


def slowdown_against_fastest(
    jobs: Jobs, schedule: Schedule, machines: Mapping[str, int], *, tau: float = TAU
) -> Floats:
    """Bounded slowdown of each job, (jobs,), relative to its time on the fastest machine it fits.

    Errors are those of :func:`bounded_slowdown` and
    :func:`~msbgen.systems.machines.queue.simulate_queue`.
    """
    times = np.where(where_jobs_fit(jobs, machines), jobs.runtime, np.inf)
    return _bounded(schedule.end - jobs.submission, times.min(axis=1), tau)


@checks_arguments
def _bounded(response: Floats, alone: Floats, tau: Seconds) -> Floats:
    return np.maximum(response / np.maximum(alone, tau), 1.0)
