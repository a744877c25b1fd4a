"""What no schedule can beat: a lower bound of the makespan by a linear programme.

Jobs may be cut at will and every node works all the time:

    minimise C  where  Σ_m x_jm = 1,  Σ_j n_j t_jm x_jm ≤ N_m C,  x ≥ 0.

Its dual has a price λ_m a machine, Σ_m N_m λ_m = 1, and is the maximum of the concave function

    f(λ) = Σ_j n_j min_m λ_m t_jm .

Any prices give a lower bound, so what is returned is one however exactly the maximum is found.
It is found by cutting planes: each λ that was tried gives the work of each machine, linear in λ
and nowhere below f, and the next λ is where the lowest of these is highest.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msbgen.core.errors import ArgumentError
from msbgen.machines.queue.jobs import (
    LONGEST,
    Floats,
    Indices,
    Jobs,
    check_machines,
    where_jobs_fit,
)

# The maximum is found to this share, or to what so many planes reach.
_EXACT, _MOST_PLANES = 1e-6, 500
# Slope of a plane, over the best so far, that the solver still takes.
_STEEPEST = 1e12
# Moments from which on the jobs that come later are bounded by themselves.
_MOMENTS = 16
# The bound with jobs whole is found to this share.
_RESOLUTION = 1e-3
# By what factor it is raised until it is one that jobs could keep.
_STEP = 1.25


def least_span(jobs: Jobs, machines: Mapping[str, int]) -> float:
    """Optimum of the linear programme, were all jobs there at once [s]: what machines can do.

    Raises
    ------
    ArgumentError
        As :func:`~msbgen.machines.queue.simulate.simulate_queue`.
    """
    work = _times(jobs, machines) * jobs.nodes[:, None]
    return _optimum(work, check_machines(jobs, machines), -np.inf, np.inf)


def makespan_bound(jobs: Jobs, machines: Mapping[str, int]) -> float:
    """Lower bound of the makespan of every schedule of these jobs [s].

    The programme for all jobs and for those that come after several moments, no job on a machine
    where it could not end within the bound.

    Raises
    ------
    ArgumentError
        As :func:`~msbgen.machines.queue.simulate.simulate_queue`.

    Notes
    -----
    About a second for 50,000 jobs on four machines.
    """
    sizes = check_machines(jobs, machines)
    comes = jobs.submission - jobs.submission.min()
    times = _times(jobs, machines)

    def span(moment: float, limit: float, low: float, high: float) -> float:
        """End of the jobs that come from a moment on, each over by a limit; see `_optimum`."""
        late = comes >= moment
        there = np.where(comes[late, None] + times[late] <= limit, times[late], np.inf)
        work = there * jobs.nodes[late, None]
        return moment + _optimum(work, sizes, low - moment, high - moment)

    low, moment = float((comes + times.min(axis=1)).max()), 0.0
    for start in np.unique(np.quantile(comes, np.linspace(0, 1, _MOMENTS), method="lower")):
        end = span(start, np.inf, low, np.inf)
        low, moment = (end, start) if end > low else (low, moment)
    high = low
    while span(moment, high, high, high) > high:
        # invariant: no schedule is over by `low`
        low, high = high, _STEP * high
    while high > low * (1 + _RESOLUTION):
        middle = 0.5 * (low + high)
        if span(moment, middle, middle, middle) > middle:
            low = middle
        else:
            high = middle
    return low


def _times(jobs: Jobs, machines: Mapping[str, int]) -> Floats:
    """True times, infinite where a job cannot go."""
    return np.where(where_jobs_fit(jobs, machines), jobs.runtime, np.inf)


def _optimum(work: NDArray[Any], sizes: Indices, low: float, high: float) -> float:
    """Maximum of f, `work` being n_j t_jm (jobs, machines), infinite where it may not go.

    What is returned is never above the maximum; it is below it by more than `_EXACT` only where
    the maximum is at most `low`, or what is returned is above `high`.
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
        taken = work[np.arange(n), chosen]
        planes.append(np.bincount(chosen, taken, minlength=m).astype(np.float64))
        # a plane as steep as no solver takes is cut: the search ends early, and `best` still holds
        with np.errstate(over="ignore"):
            slopes = np.minimum(np.array(planes) / sizes / best, _STEEPEST)
        # variables: prices times nodes, then f over the best so far, which is to be large
        found = linprog(
            np.append(np.zeros(m), -1.0),
            A_ub=np.column_stack([-slopes, np.ones(len(planes))]),
            b_ub=np.zeros(len(planes)),
            A_eq=np.append(np.ones(m), 0.0)[None],
            b_eq=[1.0],
            bounds=[(0, None)] * m + [(None, None)],
        )
        if not found.success:
            raise ArithmeticError(f"bound of the makespan: {found.message}")
        if -found.fun * best <= max(best * (1 + _EXACT), low):
            break
        prices = np.maximum(found.x[:m], 0.0) / sizes
        prices /= prices @ sizes
    return best


def even_span(jobs: Jobs, machines: Mapping[str, int]) -> float:
    """How long it takes when every machine gets the same mix of jobs and all nodes work [s].

    The best that can be had without knowing which job suits which machine.

    Raises
    ------
    ArgumentError
        As :func:`~msbgen.machines.queue.simulate.simulate_queue`.
    """
    fits = where_jobs_fit(jobs, machines)
    work = np.where(fits, jobs.runtime * jobs.nodes[:, None], 0.0)
    some = fits.any(axis=0)
    mean = work.sum(axis=0)[some] / fits.sum(axis=0)[some]
    return float(len(jobs) / (check_machines(jobs, machines)[some] / mean).sum())


def at_load(jobs: Jobs, machines: Mapping[str, int], load: float) -> Jobs:
    """The same jobs, submissions drawn out or together until they fill a share of the machines.

    The load is :func:`even_span` over the time from the first to the last submission: at 1, who
    places jobs without looking at them can just keep up.

    Raises
    ------
    ArgumentError
        The load is no positive number, or so small that jobs come later than any does; all jobs
        are submitted at once.
    """
    if not 0 < load < np.inf:
        raise ArgumentError(f"load is {load}; a positive number is wanted.")
    first = jobs.submission.min()
    span = float(jobs.submission.max() - first)
    if span == 0:
        raise ArgumentError("submissions are all at once; some that differ are wanted for a load.")
    wanted = even_span(jobs, machines) / load
    if wanted > LONGEST:
        raise ArgumentError(
            f"load is {load:g}, at which jobs come for {wanted:.3g} s; "
            f"one at which they come for {LONGEST:g} s at most is wanted."
        )
    return jobs.submitted((jobs.submission - first) * (wanted / span))
