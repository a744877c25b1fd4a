"""Lower bound of the makespan of every schedule, by a linear programme.

In the programme jobs may be divided between machines, and every node works all the time:

    minimise C  where  Σ_m x_jm = 1,  Σ_j n_j t_jm x_jm ≤ N_m C,  x ≥ 0.

x_jm is the share of job j on machine m, n_j its nodes, t_jm its time within, N_m the nodes of the
machine. The dual has a price λ_m for each machine, Σ_m N_m λ_m = 1, and maximises the concave

    f(λ) = Σ_j n_j min_m λ_m t_jm .

Any prices give a lower bound, so the result is one even where the maximum is not found exactly.
It is found by cutting planes: each λ gives a plane, linear in λ and nowhere below f. The next λ is
where the lowest plane is highest.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msbgen.core.errors import ArgumentError
from msbgen.core.records import Positive, checks_arguments
from msbgen.systems.machines.queue.jobs import (
    LONGEST,
    Floats,
    Indices,
    Jobs,
    check_machines,
    where_jobs_fit,
)

# Relative tolerance of the maximum, and the most planes.
_EXACT, _MOST_PLANES = 1e-6, 500
# Largest slope of a plane, relative to the best value so far, that the solver accepts.
_STEEPEST = 1e12
# Number of moments; the jobs submitted after each are bounded separately.
_MOMENTS = 16
# Relative tolerance of the bound for undivided jobs.
_RESOLUTION = 1e-3
# Factor by which the bound is raised until the jobs could meet it.
_STEP = 1.25


def least_span(jobs: Jobs, machines: Mapping[str, int]) -> float:
    """Optimum of the linear programme with all jobs submitted at once [s].

    Errors are those of :func:`~msbgen.systems.machines.queue.simulate.simulate_queue`.
    """
    work = _times(jobs, machines) * jobs.nodes[:, None]
    return _optimum(work, check_machines(jobs, machines), -np.inf, np.inf)


def makespan_bound(jobs: Jobs, machines: Mapping[str, int]) -> float:
    """Lower bound of the makespan of every schedule of these jobs [s].

    The programme is solved for all jobs and for those submitted after several moments.  No job
    may use a machine on which it could not end within the bound.

    About a second for 50,000 jobs on four machines.

    Errors are those of :func:`~msbgen.systems.machines.queue.simulate.simulate_queue`.
    """
    sizes = check_machines(jobs, machines)
    arrival = jobs.submission - jobs.submission.min()
    times = _times(jobs, machines)

    def span(moment: float, limit: float, low: float, high: float) -> float:
        """Bound of the end of jobs submitted from a moment on, each ending by `limit`."""
        late = arrival >= moment
        within = np.where(arrival[late, None] + times[late] <= limit, times[late], np.inf)
        work = within * jobs.nodes[late, None]
        return moment + _optimum(work, sizes, low - moment, high - moment)

    low, moment = float((arrival + times.min(axis=1)).max()), 0.0
    for start in np.unique(np.quantile(arrival, np.linspace(0, 1, _MOMENTS), method="lower")):
        end = span(start, np.inf, low, np.inf)
        low, moment = (end, start) if end > low else (low, moment)
    high = low
    while span(moment, high, high, high) > high:
        # invariant: every schedule ends at `low` or later
        low, high = high, _STEP * high
    while high > low * (1 + _RESOLUTION):
        middle = 0.5 * (low + high)
        if span(moment, middle, middle, middle) > middle:
            low = middle
        else:
            high = middle
    return low


def _times(jobs: Jobs, machines: Mapping[str, int]) -> Floats:
    """True times, infinite where a job cannot run."""
    return np.where(where_jobs_fit(jobs, machines), jobs.runtime, np.inf)


def _optimum(work: NDArray[Any], sizes: Indices, low: float, high: float) -> float:
    """Maximum of f for `work` n_j t_jm (jobs, machines), infinite where a job may not run.

    The result is never above the maximum.  It is below it by more than the tolerance only where
    the maximum is at most `low`, or the result is above `high`.
    """
    from scipy.optimize import linprog

    n, m = work.shape
    prices = 1.0 / (sizes * m)
    planes: list[Floats] = []
    best = 0.0
    for _ in range(_MOST_PLANES):
        with np.errstate(invalid="ignore"):
            costs = np.where(np.isinf(work), np.inf, work * prices)
        chosen = costs.argmin(axis=1)
        best = max(best, float(costs[np.arange(n), chosen].sum()))
        if best > high:
            break
        chosen_work = work[np.arange(n), chosen]
        planes.append(np.bincount(chosen, chosen_work, minlength=m).astype(np.float64))
        # steeper planes are cut off: the search ends early, and `best` is still a bound
        with np.errstate(over="ignore"):
            slopes = np.minimum(np.array(planes) / sizes / best, _STEEPEST)
        # variables: prices times nodes, then f relative to the best so far, which is maximised
        solution = linprog(
            np.append(np.zeros(m), -1.0),
            A_ub=np.column_stack([-slopes, np.ones(len(planes))]),
            b_ub=np.zeros(len(planes)),
            A_eq=np.append(np.ones(m), 0.0)[None],
            b_eq=[1.0],
            bounds=[(0, None)] * m + [(None, None)],
        )
        if not solution.success:
            raise ArithmeticError(f"bound of the makespan: {solution.message}")
        if -solution.fun * best <= max(best * (1 + _EXACT), low):
            break
        prices = np.maximum(solution.x[:m], 0.0) / sizes
        prices /= prices @ sizes
    return best


def even_span(jobs: Jobs, machines: Mapping[str, int]) -> float:
    """Makespan if every machine gets the same mix of jobs and all nodes work all the time [s].

    No placement that ignores which job suits which machine is better on average.

    Errors are those of :func:`~msbgen.systems.machines.queue.simulate.simulate_queue`.
    """
    fits = where_jobs_fit(jobs, machines)
    work = np.where(fits, jobs.runtime * jobs.nodes[:, None], 0.0)
    used = fits.any(axis=0)
    mean = work.sum(axis=0)[used] / fits.sum(axis=0)[used]
    return float(len(jobs) / (check_machines(jobs, machines)[used] / mean).sum())


@checks_arguments
def at_load(jobs: Jobs, machines: Mapping[str, int], load: Positive) -> Jobs:
    """The same jobs with submissions scaled in time to a load.

    The load is :func:`even_span` over the time from the first to the last submission.  At 1, a
    placement that ignores the jobs' times can just keep up.

    Raises
    ------
    ArgumentError
        The load is no positive number, or so small that submissions exceed the longest time; all
        jobs are submitted at once.
    """
    first = jobs.submission.min()
    span = float(jobs.submission.max() - first)
    if span == 0:
        raise ArgumentError("submissions are all at once; some that differ are wanted for a load.")
    wanted = even_span(jobs, machines) / load
    if wanted > LONGEST:
        raise ArgumentError(
            f"load is {load:g}, at which submissions last {wanted:.3g} s; "
            f"one at which they last {LONGEST:g} s at most is wanted."
        )
    return jobs.submitted((jobs.submission - first) * (wanted / span))
