"""What would become of a queue of jobs?  Placements, first come first served, EASY backfilling.

When a job comes, or ends, the scheduler starts what it can in order of submission.  The first job
that cannot start is promised the first moment at which it can by the estimates; jobs behind it
start at once where they delay that promise by nothing.  Jobs end when they truly end; one that has
outlived its estimate is expected to end at any moment.

Assumed: a job holds its nodes alone, to its end, and is never stopped, moved or resized; nodes of a
machine are alike; decisions cost no time.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

import msbgen.machines.queue._kernels as _kernels
from msbgen.core.errors import ArgumentError
from msbgen.machines.queue.jobs import Floats, Indices, Jobs, check_machines, where_jobs_fit

Placement = Literal["aware", "completion", "greedy", "user", "round_robin", "random"]
Queue = Literal["machine", "one"]
PLACEMENTS: tuple[Placement, ...] = get_args(Placement)
QUEUES: tuple[Queue, ...] = get_args(Queue)
# Those of the paper (Section VII).
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
    """What became of every job, in the order of the jobs.

    Attributes
    ----------
    start, end : ndarray, (jobs,)
        [s]
    machine : ndarray of int, (jobs,)
        Where it ran.
    """

    start: Floats
    end: Floats
    machine: Indices


def simulate_queue(
    jobs: Jobs,
    machines: Mapping[str, int],
    *,
    placement: Placement = "aware",
    queue: Queue = "machine",
    rng: np.random.Generator | int = 0,
) -> Schedule:
    """Play jobs on several machines, first come first served with EASY backfilling.

    Parameters
    ----------
    jobs : Jobs
    machines : mapping of str to int
        Nodes of each machine, in the order of the columns of the jobs' times.
    placement : str
        Which machine a job goes to, of those on which it runs and has room:

        - ``aware``: with the least (wait + t) √t when it is submitted, t its estimate.  The wait
          lasts until as many nodes are free as are queued ahead plus its own, at most the mean over
          nodes of the work that remains, by the estimates.
        - ``completion``: with the least wait + t.
        - ``greedy``: the fastest by the estimates that has enough nodes free, the fastest of all
          if none has (Algorithm 2).
        - ``round_robin``: one after the other; the jobs that may use the same machines take turns.
        - ``user``: the same among the machines that suit the job (User+RR).
        - ``random``: any, all alike.
    queue : str
        ``machine``: a queue and a promise each; a job joins one when it is submitted.  ``one``: one
        queue, whose head is promised its machine (Algorithm 1).  There, ``greedy`` is asked when
        jobs start, and a job takes its turn when it starts or is promised a machine.
    rng : numpy.random.Generator or int
        For ``random``.

    Returns
    -------
    Schedule

    Raises
    ------
    ArgumentError
        An unknown placement or queue, machines that are not those of the jobs, a job that is larger
        than every machine on which it runs.

    Notes
    -----
    At equal times what ends is seen before what is submitted; of equal submissions the first row
    comes first, of equally good machines the first.  The paper is Nichols et al., *Predicting
    Cross-Architecture Performance of Parallel Programs*.

    Examples
    --------
    >>> import numpy as np
    >>> from msbgen.machines import queue
    >>> jobs = queue.make_jobs([0, 0, 0], [1, 1, 1], [[1, 3], [1, 3], [1, 3]])
    >>> queue.simulate_queue(jobs, {"fast": 1, "slow": 1}, placement="completion").end
    array([1., 2., 3.])
    """
    check_placement(placement)
    check_queue(queue)
    fits = where_jobs_fit(jobs, machines)
    order = np.argsort(jobs.submission, kind="stable")
    allowed = fits & jobs.suits if placement == "user" else fits
    _check_suits(allowed)
    sets = _sets(allowed[order])
    n, m = jobs.runtime.shape
    late = queue == "one" and _CODES[placement] in (_kernels.ROUND_ROBIN, _kernels.GREEDY)
    kinds = (sets.first, sets.machines) if late else (np.arange(m + 1), np.arange(m))
    columns = _kernels.Columns(*kinds)
    where = np.full(n, -1)
    if placement == "random":
        drawn = np.random.default_rng(rng).random(n)
        among = (drawn * np.diff(sets.first)[sets.of]).astype(np.int64)
        where[:] = sets.machines[sets.first[sets.of] + among]
    start, planned = np.full(n, np.nan), np.empty(n)
    times = jobs.submission, jobs.nodes, jobs.runtime, jobs.estimate
    _kernels.play_queues(
        _kernels.Jobs(*(np.ascontiguousarray(values[order]) for values in times)),
        sets,
        columns,
        check_machines(jobs, machines),
        (_CODES[placement], queue == "one"),
        _kernels.Out(start, planned, where),
    )
    back = np.empty(n, dtype=np.int64)
    back[order] = np.arange(n)
    start, where = start[back], where[back]
    return Schedule(start, start + jobs.runtime[np.arange(n), where], where)


def _sets(allowed: NDArray[np.bool_]) -> _kernels.Sets:
    """Sets of machines that jobs may use."""
    kinds, of = np.unique(allowed, axis=0, return_inverse=True)
    first = np.concatenate([[0], np.cumsum(kinds.sum(axis=1))]).astype(np.int64)
    machines = np.ascontiguousarray(np.nonzero(kinds)[1])  # a stride would compile everything anew
    return _kernels.Sets(of.reshape(-1).astype(np.int64), first, machines)


def check_placement(name: Any) -> Placement:
    """Return the name of a placement, or raise :class:`ArgumentError`."""
    return PLACEMENTS[_known(name, PLACEMENTS, "placement")]


def check_queue(name: Any) -> Queue:
    """Return the name of a form of queues, or raise :class:`ArgumentError`."""
    return QUEUES[_known(name, QUEUES, "queue")]


def _known(name: Any, known: Sequence[str], what: str) -> int:
    if name not in known:
        near = difflib.get_close_matches(str(name), known, 1)
        raise ArgumentError(
            f"{what} is '{name}'; {', '.join(known)} are known"
            + (f", '{near[0]}' is near." if near else ".")
        )
    return known.index(name)


def _check_suits(allowed: NDArray[np.bool_]) -> None:
    lost = np.flatnonzero(~allowed.any(axis=1))
    if len(lost):
        raise ArgumentError(
            f"suits of job {lost[0]} are machines that are too small for it; one that has room is "
            f"wanted."
        )
