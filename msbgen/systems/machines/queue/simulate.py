"""Simulation of queues: placements, first come first served, EASY backfilling.

When a job is submitted or ends, the scheduler starts queued jobs in order of submission. The first
job that cannot start gets a reservation: the earliest time at which it can, by the estimates. Jobs
behind it start at once where they do not delay the reservation. Jobs end by their true times; a job
that has outlived its estimate is expected to end now.

Assumptions: a job has its nodes to itself until its end, and is never stopped, moved or resized.
Nodes of a machine are alike. Decisions take no time.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

import msbgen.systems.machines.queue._kernels as _kernels
from msbgen.core.draws import generator
from msbgen.core.errors import ArgumentError
from msbgen.core.records import checks_arguments
from msbgen.systems.machines.queue.jobs import Floats, Indices, Jobs, check_machines, where_jobs_fit

Placement = Literal["aware", "completion", "greedy", "user", "round_robin", "random"]
Queue = Literal["machine", "one"]
PLACEMENTS: tuple[Placement, ...] = get_args(Placement)
QUEUES: tuple[Queue, ...] = get_args(Queue)
# The placements of the paper (Section VII).
PAPERS: tuple[Placement, ...] = ("greedy", "user", "round_robin", "random")

_CODES = {
    "aware": _kernels.AWARE,
    "completion": _kernels.COMPLETION,
    "greedy": _kernels.GREEDY,
    "user": _kernels.ROUND_ROBIN,
    "round_robin": _kernels.ROUND_ROBIN,
    "random": _kernels.GIVEN,
}


@dataclass(frozen=True, eq=False)
class Schedule:
    """Start, end and machine of every job, in the order of the jobs.

    Attributes
    ----------
    start, end : ndarray, (jobs,)
        [s]
    machine : ndarray of int, (jobs,)
        Index of the machine it ran on.
    """

    start: Floats
    end: Floats
    machine: Indices


@checks_arguments
def simulate_queue(
    jobs: Jobs,
    machines: Mapping[str, int],
    *,
    placement: Placement = "aware",
    queue: Queue = "machine",
    rng: np.random.Generator | int = 0,
) -> Schedule:
    """Schedule of jobs on several machines, first come first served with EASY backfilling.

    Parameters
    ----------
    jobs : Jobs
    machines : mapping of str to int
        Nodes of each machine, in the order of the columns of the jobs' times.
    placement : str
        How the machine of a job is chosen, among those where it runs and that are large enough:

        - ``aware``: the least (wait + t) √t at submission, t being the estimated time.  The factor
          √t keeps machines free for the jobs that they suit best.  The wait ends when enough nodes
          are free for the jobs queued ahead and for the job.  It is at most the estimated remaining
          node-seconds of the machine's jobs, divided by its nodes.
        - ``completion``: the least wait + t.
        - ``greedy``: the fastest by the estimates with enough free nodes, or the fastest of all
          if none has (Algorithm 2).
        - ``round_robin``: one machine after another, among jobs that may use the same machines.
        - ``user``: round robin among the machines that suit the job (User+RR).
        - ``random``: uniformly drawn.
    queue : str
        ``machine``: a queue and a reservation for each machine; a job joins one when it is
        submitted.  ``one``: all machines share a queue, whose head has a reservation (Algorithm 1).
        With ``one``, ``greedy`` and the round robins choose a machine when the job starts or gets
        a reservation.
    rng : numpy.random.Generator or int
        For ``random``.

    Raises
    ------
    ArgumentError
        An unknown placement or queue; another number of machines than the jobs have times for; a
        job that is larger than every machine on which it runs.

    Notes
    -----
    At equal times, ends come before submissions.  Ties between jobs go to the first row, ties
    between machines to the first machine.  The paper is Nichols et al., *Predicting
    Cross-Architecture Performance of Parallel Programs*.

    Examples
    --------
    >>> import numpy as np
    >>> from msbgen.systems.machines import queue
    >>> jobs = queue.make_jobs([0, 0, 0], [1, 1, 1], [[1, 3], [1, 3], [1, 3]])
    >>> queue.simulate_queue(jobs, {"fast": 1, "slow": 1}, placement="completion").end
    array([1., 2., 3.])
    """
    order = np.argsort(jobs.submission, kind="stable")
    allowed = where_jobs_fit(jobs, machines)
    if placement == "user":
        allowed = allowed & jobs.suits
        _check_suits(allowed)
    sets = _sets(allowed[order])
    n, m = jobs.runtime.shape
    takes_turns = _CODES[placement] == _kernels.ROUND_ROBIN
    placed_at_start = queue == "one" and (takes_turns or placement == "greedy")
    tree_sets = (sets.first, sets.machines) if placed_at_start else (np.arange(m + 1), np.arange(m))
    tree_columns = _kernels.TreeColumns(*tree_sets)
    machine = np.full(n, -1)
    if placement == "random":
        drawn = generator(rng).random(n)
        position = (drawn * np.diff(sets.first)[sets.set_of_job]).astype(np.int64)
        machine[:] = sets.machines[sets.first[sets.set_of_job] + position]
    start, planned = np.full(n, np.nan), np.empty(n)
    times = jobs.submission, jobs.nodes, jobs.runtime, jobs.estimate
    sizes = check_machines(jobs, machines)
    state = _kernels.QueueState(
        _kernels.JobArrays(*(np.ascontiguousarray(values[order]) for values in times)),
        sets,
        tree_columns,
        sizes,
        _CODES[placement],
        placed_at_start,
        _kernels.JobResults(start, planned, machine),
        **_idle(n, sets, len(tree_columns.machine), sizes),
    )
    _kernels.simulate_queues(state, queue == "one", np.zeros(m, dtype=np.bool_))
    rank = np.empty(n, dtype=np.int64)
    rank[order] = np.arange(n)
    start, machine = start[rank], machine[rank]
    return Schedule(start, start + jobs.runtime[np.arange(n), machine], machine)


def _idle(n: int, sets: _kernels.MachineSets, columns: int, sizes: Indices) -> dict[str, Any]:
    """State of machines without jobs: what runs, ends and waits, for `n` jobs."""
    shape = len(sizes), min(int(sizes.max()), n)
    ends, numbers = np.empty(shape), np.empty(shape, dtype=np.int64)
    free, counts = sizes.copy(), np.zeros(len(sizes), dtype=np.int64)
    trees = np.full((columns, 2 << (n - 1).bit_length(), 3), np.inf)
    trees[:, :, _kernels.WORK] = 0.0
    return {
        "running": _kernels.Running(free, counts, ends, numbers),
        "heap": _kernels.Heap(np.empty(n), np.empty(n, dtype=np.int64), np.zeros(1, np.int64)),
        "trees": trees,
        "queued": np.zeros(columns, dtype=np.int64),
        "turns": np.zeros(len(sets.first) - 1, dtype=np.int64),
    }


def _sets(allowed: NDArray[np.bool_]) -> _kernels.MachineSets:
    """Sets of machines that jobs may use, each distinct set once."""
    distinct, set_of_job = np.unique(allowed, axis=0, return_inverse=True)
    first = np.concatenate([[0], np.cumsum(distinct.sum(axis=1))]).astype(np.int64)
    # a strided array would trigger a second compilation
    machines = np.ascontiguousarray(np.nonzero(distinct)[1])
    return _kernels.MachineSets(set_of_job.reshape(-1).astype(np.int64), first, machines)


def _check_suits(allowed: NDArray[np.bool_]) -> None:
    unplaced = np.flatnonzero(~allowed.any(axis=1))
    if len(unplaced):
        raise ArgumentError(
            f"job {unplaced[0]} may use only machines that are too small for it; a larger one is "
            f"wanted."
        )
