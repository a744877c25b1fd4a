"""Slack of an allocator: two rules for how much lower clocks may slow a task set down.

With slack δ a core's clock is the lowest with at least (1 − δ) of the rate at the highest clock,
for the phase and allocation of its task.  :func:`reference_slack` is the paper's rule: the largest
δ that passes the test for global EDF on m cores of Goossens, Funk and Baruah (2003),

    U/(1 − δ) ≤ m − (m − 1)·u_max/(1 − δ),

with reference utilisations, or 0 where the set fails it without slack.  :func:`simulated_slack`
simulates the set on profiles, and takes the largest δ with which every response stays below a share
of its deadline.  Neither is a guarantee.
"""

from collections.abc import Callable
from typing import Annotated

import numpy as np

from msbgen.core.draws import generator
from msbgen.core.errors import ArgumentError
from msbgen.core.records import Within, checks_arguments
from msbgen.systems.realtime.allocate import Allocator
from msbgen.systems.realtime.edf import TIMER, simulate_edf
from msbgen.systems.realtime.tasksets import TaskSet
from msbgen.systems.realtime.truth import Truth

# Slacks that are tried are multiples of the step, up to the most.
STEP = 0.02
_MOST = 0.6


def reference_slack(task_set: TaskSet) -> float:
    """Largest δ for which the set passes the test on its reference utilisations, or 0.

    Raises
    ------
    ArgumentError
        A task's ``wcet`` is not known.

    Examples
    --------
    >>> from msbgen.systems.realtime.tasksets import Task, TaskSet
    >>> tasks = [Task(f"t{i}", "zstd", period=2.0, wcet=0.5) for i in range(4)]
    >>> reference_slack(TaskSet(4, {"cache_ways": 20}, tuple(tasks)))  # 1 - (1 + 3/4) / 4
    0.5625
    """
    cores = task_set.cores
    most = max(task.utilisation for task in task_set.tasks)
    slack = max(0.0, 1.0 - (task_set.utilisation + (cores - 1) * most) / cores)
    if slack >= 1:
        raise ArgumentError(
            f"utilisation, the sum of wcet over period, is {task_set.utilisation:.3g}; a larger "
            f"one is wanted: correct 'wcet' and 'period'."
        )
    return slack


@checks_arguments
def simulated_slack(
    task_set: TaskSet,
    allocator: Callable[[float], Allocator],
    profiles: Truth,
    *,
    share: Annotated[float, Within(0, 1, above=True)] = 0.9,
    horizon: float = 60.0,
    timer: float = TIMER,
    rng: np.random.Generator | int = 0,
) -> float:
    """Largest δ, in steps of 0.02, for which simulated responses stay below `share` of deadlines.

    It is 0 where no larger one passes.  Responses almost always grow with δ, so it is found by
    bisection; the slack returned was simulated.

    Parameters
    ----------
    allocator : callable
        Makes the allocator with a given slack.
    profiles : Truth
        The profiles that decisions are made from, as execution data.
    share : float
        Of the deadline that the longest response may reach.
    horizon, timer, rng
        As of :func:`~msbgen.systems.realtime.edf.simulate_edf`.
    """
    seed = int(generator(rng).integers(2**63))
    good, bad = 0, round(_MOST / STEP) + 1
    while bad - good > 1:
        # invariant: `good` is 0 or passed a simulation; `bad` failed one or is out of range
        middle = (good + bad) // 2
        outcome = simulate_edf(
            task_set, allocator(STEP * middle), profiles, horizon=horizon, timer=timer, rng=seed
        )
        good, bad = (middle, bad) if outcome.ratio.max() <= share else (good, middle)
    return STEP * good
